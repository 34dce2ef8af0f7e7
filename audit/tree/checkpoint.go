package tree

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
)

// maxOrigin bounds an origin, in bytes (C2SP tlog-cosignature).
const maxOrigin = 255

// Checkpoint is the body of a checkpoint: the tree that a log had at one size.
type Checkpoint struct {
	Origin     string    // names the log: 1 to 255 bytes, one line
	Size       int64     // number of records, at most MaxSize
	Root       tlog.Hash // of the tree over them
	Extensions []string  // further lines, none of them empty; opaque, and signed
}

var errCheckpoint = errors.New("tree: this is no checkpoint")

// check makes sure that c can be written and read again.
func (c Checkpoint) check() error {
	switch {
	case c.Origin == "" || len(c.Origin) > maxOrigin || !printable(c.Origin):
		return fmt.Errorf("%w: its origin must be one line of 1 to %d bytes", errCheckpoint, maxOrigin)
	case c.Size < 0 || c.Size > MaxSize:
		return fmt.Errorf("%w: its size must be between 0 and %d", errCheckpoint, int64(MaxSize))
	case c.Size == 0 && c.Root != emptyRoot:
		return fmt.Errorf("%w: the root of a tree of size 0 is the hash of nothing", errCheckpoint)
	}
	for _, line := range c.Extensions {
		if line == "" || !printable(line) {
			return fmt.Errorf("%w: an extension must be one line, and not empty", errCheckpoint)
		}
	}
	return nil
}

// printable reports whether s can be one line of a note.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 }) < 0
}

// Equal reports whether two checkpoints say the same.
func (c Checkpoint) Equal(d Checkpoint) bool {
	return c.Origin == d.Origin && c.Size == d.Size && c.Root == d.Root && slices.Equal(c.Extensions, d.Extensions)
}

// Body returns the text of the checkpoint, which is what gets signed.
func (c Checkpoint) Body() (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
	for _, line := range c.Extensions {
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}

// ParseBody reads the text of a checkpoint, without signatures. There is one
// text for each checkpoint: anything else is an error.
func ParseBody(body string) (Checkpoint, error) {
	text, ok := strings.CutSuffix(body, "\n")
	lines := strings.Split(text, "\n")
	if !ok || len(lines) < 3 {
		return Checkpoint{}, fmt.Errorf("%w: its text must be three lines or more, each ended", errCheckpoint)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || strconv.FormatInt(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("%w: its second line must be a size, in decimal", errCheckpoint)
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return Checkpoint{}, fmt.Errorf("%w: its third line must be a SHA-256 hash, in base64", errCheckpoint)
	}
	c := Checkpoint{Origin: lines[0], Size: size, Root: tlog.Hash(root)}
	if len(lines) > 3 {
		c.Extensions = lines[3:]
	}
	return c, c.check()
}
