package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells on a terminal at once, elsewhere every two seconds, how far a
// long run is.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	things   string // what is counted
	terminal bool
	last     time.Time
	shown    bool
}

func newProgress(w io.Writer, things string) *progress {
	p := &progress{w: w, things: things, last: time.Now()}
	p.terminal = isTerminal(w)
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) done(n, total int) {
	every := 2 * time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if p.terminal {
		fmt.Fprintf(p.w, "\r%d of %d %s", n, total, p.things)
		p.shown = true
		return
	}
	fmt.Fprintf(p.w, "%d of %d %s\n", n, total, p.things)
}

// end clears the line.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
