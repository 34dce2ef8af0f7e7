// Package treetest makes small logs and witnesses for tests, by other code
// than the server's own.
package treetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

// Origin is the origin of the logs that are made here.
const Origin = "log.example/treetest"

// Log is a log that a test writes.
type Log struct {
	Dir      string
	Signer   note.Signer
	Verifier note.Verifier
	Tree     *tree.Tree

	t    testing.TB
	file *os.File
}

// New makes an empty log in a directory of the test.
func New(t testing.TB) *Log { return NewAt(t, t.TempDir(), Origin) }

// NewAt makes an empty log with this origin in dir.
func NewAt(t testing.TB, dir, origin string) *Log {
	t.Helper()
	l := &Log{Dir: dir, t: t}
	var err error
	var vkey string
	if l.Signer, vkey, err = tree.OpenKey(dir, origin); err != nil {
		t.Fatal(err)
	}
	if l.Verifier, err = note.NewVerifier(vkey); err != nil {
		t.Fatal(err)
	}
	if l.Tree, err = tree.New(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.Segments(), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// Segments returns the directory of the log's segments.
func (l *Log) Segments() string { return filepath.Join(l.Dir, segment.Dir) }

// Record returns a record with this index, as long as size if that is possible.
func Record(index uint64, size int) []byte {
	b := segment.AppendPrefix(nil, index)
	b = fmt.Appendf(b, `,"kind":"decision","id":"%d","fill":"`, index*7919)
	return append(b, strings.Repeat("x", max(0, size-len(b)-2))+`"}`...)
}

// Append writes n records of size bytes and adds them to the tree.
func (l *Log) Append(n, size int) {
	l.t.Helper()
	if l.file == nil {
		l.Rotate()
	}
	var b []byte
	for range n {
		r := Record(uint64(l.Tree.Size()), size)
		b = append(append(b, r...), '\n')
		l.Tree.Append(tree.LeafHash(r))
		if len(b) > 1<<20 {
			l.Raw(string(b))
			b = b[:0]
		}
	}
	l.Raw(string(b))
}

// Raw writes text to the newest segment.
func (l *Log) Raw(text string) {
	l.t.Helper()
	if _, err := l.file.WriteString(text); err != nil {
		l.t.Fatal(err)
	}
}

// Rotate begins another segment.
func (l *Log) Rotate() {
	l.t.Helper()
	if l.file != nil {
		if err := l.file.Close(); err != nil {
			l.t.Fatal(err)
		}
	}
	var err error
	name := filepath.Join(l.Segments(), segment.Name(uint64(l.Tree.Size())))
	if l.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// Head returns the checkpoint of the tree as it is now, without writing
// anything.
func (l *Log) Head() tree.Checkpoint {
	return tree.Checkpoint{Origin: l.Signer.Name(), Size: l.Tree.Size(), Root: l.Tree.Root()}
}

// Checkpoint writes the tiles and a signed checkpoint, which it returns.
func (l *Log) Checkpoint() []byte {
	l.t.Helper()
	if err := l.Tree.Flush(); err != nil {
		l.t.Fatal(err)
	}
	signed, err := tree.Sign(l.Head(), l.Signer)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Dir, tree.CheckpointFile), signed, 0o600); err != nil {
		l.t.Fatal(err)
	}
	return signed
}

// Close closes the log's files. It may be called again.
func (l *Log) Close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	l.Tree.Close()
}
