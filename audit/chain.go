package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// chain is the state between two lines: what the next line continues.
type chain struct {
	next uint64 // sequence of the next line
	hash [sha256.Size]byte
}

const (
	linePrefix  = `{"sequence":`
	chainPrefix = `,"chain":"`
	lineSuffix  = `"}` + "\n"
	// lineEnd is how long a line's ending is, from the comma before the chain
	// to the line feed.
	lineEnd = len(chainPrefix) + 2*sha256.Size + len(lineSuffix)
	// maxLine is more than the longest line.
	maxLine = maxRecord + 1024
)

// appendLine appends the next line, which holds body.
func (c *chain) appendLine(b, body []byte) []byte {
	start := len(b)
	b = append(b, linePrefix...)
	b = strconv.AppendUint(b, c.next, 10)
	b = append(b, ',')
	b = append(b, body...)
	c.advance(b[start:])
	b = append(b, chainPrefix...)
	b = hex.AppendEncode(b, c.hash[:])
	return append(b, lineSuffix...)
}

// advance moves over a line, given without its ending.
func (c *chain) advance(line []byte) {
	h := sha256.New()
	h.Write(c.hash[:])
	h.Write(line)
	h.Sum(c.hash[:0])
	c.next++
}

// check moves over a whole line, or says why it does not continue the chain.
func (c *chain) check(line []byte) error {
	var want [48]byte
	prefix := append(want[:0], linePrefix...)
	prefix = append(strconv.AppendUint(prefix, c.next, 10), ',')
	if !bytes.HasPrefix(line, prefix) || len(line) < len(prefix)+lineEnd {
		return fmt.Errorf("is not record %d", c.next)
	}
	head, tail := line[:len(line)-lineEnd], line[len(line)-lineEnd:]
	c.advance(head)
	var end [lineEnd]byte
	expected := append(end[:0], chainPrefix...)
	expected = append(hex.AppendEncode(expected, c.hash[:]), lineSuffix...)
	if !bytes.Equal(tail, expected) {
		return errors.New("does not match its chain")
	}
	return nil
}

// end is where a log ends.
type end struct {
	chain
	size int64 // bytes of whole lines
	torn int64 // bytes of an unfinished line after them
}

// readThrough reads a log to its end and checks every line.
func readThrough(r io.Reader) (end, error) {
	var e end
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		number := e.next + 1 // of this line; check moves on, also over a line that it refuses
		line, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF:
			e.torn = int64(len(line))
			return e, nil
		case errors.Is(err, bufio.ErrBufferFull):
			err = errors.New("is longer than any record")
		case err != nil:
			return end{}, err
		default:
			err = e.check(line)
		}
		if err != nil {
			return end{}, fmt.Errorf("line %d (at byte %d) %w: the log was changed, or its disk is at fault; "+
				"put back the file as it was, or move it away to begin a new log", number, e.size, err)
		}
		e.size += int64(len(line))
	}
}

// writer writes batches. It belongs to the log's one goroutine.
type writer struct {
	file  file
	chain chain
	buf   []byte
}

// write writes a batch in one piece, and onto the disk if anybody waits for
// that.
func (w *writer) write(batch []*entry) error {
	const keep = 1 << 20 // bytes, so that one large batch does not stay for ever
	b := w.buf[:0]
	durable := false
	for _, e := range batch {
		b = w.chain.appendLine(b, e.body)
		durable = durable || e.confirm != nil
	}
	if w.buf = b; cap(b) > keep {
		w.buf = nil
	}
	if n, err := w.file.Write(b); err != nil {
		return err
	} else if n < len(b) {
		return io.ErrShortWrite
	}
	if durable {
		return w.file.Sync()
	}
	return nil
}
