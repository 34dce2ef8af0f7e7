package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/writ-pdp/writ/audit/ocsf"
	"github.com/writ-pdp/writ/audit/segment"
)

type auditTailCmd struct {
	logFlags    `embed:""`
	filterFlags `embed:""`

	N      uint64 `short:"n" help:"How many of the newest records are looked at." default:"20"`
	Follow bool   `short:"f" help:"Go on with those to come, until interrupted."`
	JSON   bool   `help:"Print the records as they are, a line each."`
}

func (*auditTailCmd) Help() string {
	return `A record is one line: its index, the time, the answer, the call, for whom, about
what, the decision's id and the caller.

  pdp audit tail
  pdp audit tail -f --outcome DENY
  pdp audit tail -n 1000 --tool payments/ --json`
}

func (k *auditTailCmd) Run(c *console) error {
	dir, err := k.dir()
	if err != nil {
		return err
	}
	f, err := k.filter(dir)
	if err != nil {
		return err
	}
	segments := filepath.Join(dir, segment.Dir)
	end, err := recordsIn(segments)
	if err != nil {
		return err
	}
	from := end - min(k.N, end)
	r, err := segment.OpenReader(segments, from)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		index, leaf, err := r.Next()
		if errors.Is(err, io.EOF) {
			if !k.Follow {
				return nil
			}
			select {
			case <-c.ctx.Done():
				return nil
			case <-time.After(200 * time.Millisecond):
			}
			continue
		}
		if err != nil {
			return err
		}
		if !k.Follow && index >= end {
			return nil
		}
		if err := show(c.out, f, leaf, k.JSON); err != nil {
			return err
		}
	}
}

// recordsIn counts the records of a log, without reading them.
func recordsIn(segments string) (uint64, error) {
	list, err := segment.List(segments)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("there is no log here: name the server's data directory with --data: %w", err)
	}
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return 0, nil
	}
	last := list[len(list)-1]
	f, err := segment.Open(segments, last.First)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := f.Seek(math.MaxUint64); !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("the log's end can't be read: run pdp audit verify: %w", err)
	}
	return f.Index(), nil
}

// show prints a record if it matches.
func show(w io.Writer, f *filter, leaf []byte, raw bool) error {
	r, err := f.read(leaf)
	if err != nil || r == nil {
		return err
	}
	if raw {
		_, err = fmt.Fprintf(w, "%s\n", leaf)
	} else {
		_, err = fmt.Fprintln(w, r)
	}
	return err
}

type auditSearchCmd struct {
	logFlags    `embed:""`
	filterFlags `embed:""`

	Limit uint `help:"Stop after this many. 0: never." default:"0" placeholder:"N"`
	JSON  bool `help:"Print the records as they are, a line each."`
}

func (*auditSearchCmd) Help() string {
	return `All that is asked for must hold. The whole log is read, from its beginning.

  pdp audit search --principal 'User::"ann"' --tool payments/create_payment --since 24h
  pdp audit search --code NO_PERMIT --code RECIPIENT_DENIED --json
  pdp audit search --trace 4bf92f3577b34da6a3ce929d0e0e4736
  pdp audit search --call sha256:…    the call with this digest, as its answer has it

Exit codes: 0 something was found, 1 nothing was.`
}

func (k *auditSearchCmd) Run(c *console) error {
	found := uint(0)
	err := scan(c, k.logFlags, k.filterFlags, 0, func(w io.Writer, r *logLine, leaf []byte) error {
		found++
		var err error
		if k.JSON {
			_, err = fmt.Fprintf(w, "%s\n", leaf)
		} else {
			_, err = fmt.Fprintln(w, r)
		}
		if err == nil && found == k.Limit {
			err = io.EOF
		}
		return err
	})
	if err == nil && found == 0 {
		fmt.Fprintln(c.err, "pdp: no record matches")
		return exit(exitFailed)
	}
	return err
}

// scan reads the log from an index on, and gives each record that matches to
// take, until that says io.EOF. It tells how far it is unless records come to
// the same terminal.
func scan(c *console, log logFlags, flags filterFlags, from uint64, take func(io.Writer, *logLine, []byte) error) (err error) {
	dir, err := log.dir()
	if err != nil {
		return err
	}
	f, err := flags.filter(dir)
	if err != nil {
		return err
	}
	segments := filepath.Join(dir, segment.Dir)
	end, err := recordsIn(segments)
	if errors.Is(err, fs.ErrNotExist) {
		return err // what else is wrong is met where it is, behind what can be read
	}
	r, err := segment.OpenReader(segments, from)
	if err != nil {
		return err
	}
	defer r.Close()
	out := bufio.NewWriter(c.out)
	defer func() { err = errors.Join(err, out.Flush()) }()
	shown := isTerminal(c.out)
	bar := newProgress(c.err, "records")
	defer bar.end()
	for {
		index, leaf, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: run pdp audit verify", err)
		}
		if c.ctx.Err() != nil {
			return errors.New("interrupted: what was printed is not all")
		}
		if !shown && index%4096 == 0 {
			bar.done(int(index), int(end))
		}
		line, err := f.read(leaf)
		if err == nil && line != nil {
			err = take(out, line, leaf)
			if shown {
				err = errors.Join(err, out.Flush())
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type auditExportCmd struct {
	logFlags    `embed:""`
	filterFlags `embed:""`

	Format string `help:"jsonl: the records as they are. ocsf: OCSF ${ocsf} API Activity (class 6003), a JSON object a line." enum:"jsonl,ocsf" default:"jsonl"`
	From   uint64 `help:"The first record; the one after the last export's last, say." default:"0" placeholder:"INDEX"`
	Out    string `help:"Write to this file, which must not be there yet. Default: standard output." type:"path" placeholder:"FILE"`
}

func (*auditExportCmd) Help() string {
	return `Writes all records that are whole, or those that match. It verifies nothing: run
pdp audit verify first, and export what it covers. A line of jsonl is exactly what
the log's tree hashes, so a proof (pdp audit prove) holds for it. In an OCSF event
metadata.original_event_uid is the record's index; docs/audit.md has the mapping.

  pdp audit export --out october.jsonl --since 2026-10-01T00:00:00Z --until 2026-11-01T00:00:00Z
  pdp audit export --format ocsf --from 120000 | your-siem-shipper`
}

func (k *auditExportCmd) Run(c *console) error {
	if k.Out == "" {
		return k.write(c, c.out)
	}
	f, err := os.OpenFile(k.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: name another file, or move that one away", k.Out)
	}
	if err != nil {
		return err
	}
	err = k.write(c, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		// Half an export must not pass for a whole one.
		return errors.Join(err, os.Remove(k.Out))
	}
	return nil
}

func (k *auditExportCmd) write(c *console, to io.Writer) error {
	out := *c
	out.out = to
	return scan(&out, k.logFlags, k.filterFlags, k.From, func(w io.Writer, _ *logLine, leaf []byte) error {
		if k.Format == "ocsf" {
			event, err := ocsf.Event(leaf)
			if err != nil {
				return fmt.Errorf("%w: run pdp audit verify; --format jsonl writes it as it is", err)
			}
			leaf = event
		}
		_, err := fmt.Fprintf(w, "%s\n", leaf)
		return err
	})
}
