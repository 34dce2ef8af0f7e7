package forward_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/forward"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
)

// of returns the newest checkpoint of a log, to be sent.
func of(t testing.TB, l *treetest.Log) forward.Checkpoint {
	t.Helper()
	signed := l.Checkpoint()
	head := l.Head()
	return forward.Checkpoint{Signed: signed, Head: head, Log: l.Verifier, Prove: func(old int64) ([]tlog.Hash, error) {
		return tree.ProveConsistency(l.Dir, old, head)
	}}
}

func grown(t testing.TB, records ...int) *treetest.Log {
	t.Helper()
	l := treetest.New(t)
	for _, n := range records {
		l.Append(n, 100)
	}
	return l
}

func TestFile(t *testing.T) {
	l := grown(t, 5)
	path := filepath.Join(t.TempDir(), "elsewhere")
	f, err := forward.NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	send := func(c forward.Checkpoint) error {
		lines, err := f.Send(t.Context(), c)
		if lines != nil {
			t.Errorf("a file has cosigned: %q", lines)
		}
		return err
	}
	expect := func(want []byte) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q and %v, want %q", got, err, want)
		}
	}
	first := of(t, l)
	if err := send(first); err != nil {
		t.Fatal(err)
	}
	expect(first.Signed)
	if err := send(first); err != nil {
		t.Errorf("the same again: %v", err)
	}
	l.Append(600, 100)
	second := of(t, l)
	if err := send(second); err != nil {
		t.Fatal(err)
	}
	expect(second.Signed)
	if err := send(first); !errors.Is(err, forward.ErrSetBack) {
		t.Errorf("an earlier one: %v", err)
	}
	expect(second.Signed)

	// A log of the same key with other records, of the same size and a larger one.
	other := grown(t)
	other.Signer, other.Verifier = l.Signer, l.Verifier
	other.Append(605, 101)
	if err := send(of(t, other)); !errors.Is(err, forward.ErrFork) {
		t.Errorf("a fork of the same size: %v", err)
	}
	other.Append(100, 101)
	if err := send(of(t, other)); !errors.Is(err, forward.ErrFork) {
		t.Errorf("a larger fork: %v", err)
	}
	expect(second.Signed)

	// What is no checkpoint of this log is left as it is.
	foreign := of(t, treetest.NewAt(t, t.TempDir(), "other.example"))
	for _, there := range [][]byte{nil, []byte("my shopping list\n"), foreign.Signed} {
		if err := os.WriteFile(path, there, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := send(second); err == nil {
			t.Errorf("%q was replaced", there)
		}
		expect(there)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	// Without the tiles there is no proof, and what is there stays.
	if err := send(first); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(l.Dir, tree.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := send(second); err == nil || errors.Is(err, forward.ErrFork) {
		t.Errorf("without tiles: %v", err)
	}
	expect(first.Signed)
}

func TestFileRefuses(t *testing.T) {
	if _, err := forward.NewFile(""); err == nil {
		t.Error("a file without a path")
	}
	l := grown(t, 5)
	f, err := forward.NewFile(filepath.Join(t.TempDir(), "nowhere", "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Send(t.Context(), of(t, l)); err == nil {
		t.Error("sent to a directory that isn't there")
	}
}

// TestFileHangs has a disk that doesn't answer: here, the proof that is needed
// for it.
func TestFileHangs(t *testing.T) {
	l := grown(t, 5)
	f, err := forward.NewFile(filepath.Join(t.TempDir(), "elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Send(t.Context(), of(t, l)); err != nil {
		t.Fatal(err)
	}
	l.Append(5, 100)
	c := of(t, l)
	prove := c.Prove
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	c.Prove = func(old int64) ([]tlog.Hash, error) {
		entered <- struct{}{}
		<-leave
		return prove(old)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, err := f.Send(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("the disk hangs: %v", err)
	}
	if _, err := f.Send(t.Context(), c); err == nil {
		t.Error("sent while the disk hangs")
	}
	close(leave)
	// What hung is still at work in the directory: it is waited for.
	c.Prove = prove
	for range 1000 {
		if _, err = f.Send(t.Context(), c); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the disk answers again: %v", err)
}
