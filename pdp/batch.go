package pdp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/writ-pdp/writ"
)

// MaxBatch is how many proposals DecideBatch takes.
const MaxBatch = 256

// Item is one proposal of a batch.
type Item struct {
	Proposal *writ.Proposal // nil: denied as malformed
	// Unreadable says in one sentence why the proposal could not be read, and
	// Field which part of it; empty: it could. See [PDP.Refuse].
	Unreadable, Field string
}

// keysWithin is how long the tokens of a batch wait for their issuers' keys, all
// together: the world that it is decided in gets no older. A token whose key is
// not there then is invalid.
const keysWithin = time.Second

// DecideBatch answers proposals in their order, all from one snapshot and at
// one instant. A bad one denies itself alone. More than MaxBatch, or none, are
// an error, as is a ctx that ends before everything is decided; an error, or a
// panic, counts as a denial of all.
func (p *PDP) DecideBatch(ctx context.Context, caller *writ.Caller, items []Item, ask Ask) ([]Answer, error) {
	if caller == nil {
		return nil, errors.New("pdp: nothing was decided: there is no caller")
	}
	if len(items) == 0 || len(items) > MaxBatch {
		return nil, fmt.Errorf("pdp: a batch has 1 to %d proposals, not %d", MaxBatch, len(items))
	}
	s, err := p.setting(ctx, ask.AtLeastAsFresh)
	if err != nil {
		return nil, err
	}
	as := s.caller(caller)
	items = slices.Clone(items) // the tokens in them are judged
	decisions := make([]writ.Decision, len(items))
	took := make([]time.Duration, len(items))
	read := s.read
	within := make([]context.Context, len(items)) // each may have a span of its own
	ends := make([]func(...trace.SpanEndOption), len(items))
	for i, item := range items {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("pdp: nothing was decided: %w", err)
		}
		within[i], ends[i] = itemSpan(ctx, i)
		defer ends[i]() // in case of an error; to end it again does nothing
		if item.Unreadable != "" {
			decisions[i] = malformed(s.world, item.Proposal, item.Field, item.Unreadable)
		} else {
			judging, judged := context.WithDeadline(within[i], s.read.Add(keysWithin))
			items[i].Proposal = p.judge(judging, &s, as, item.Proposal)
			judged()
			items[i].Proposal, decisions[i] = p.answer(within[i], &s, as, items[i].Proposal, observer(within[i]))
		}
		done := time.Now()
		took[i], read = done.Sub(read), done
	}
	// Durable records share a group commit only if they wait together.
	answers := make([]Answer, len(items))
	var settling sync.WaitGroup
	var failed atomic.Pointer[settlingFailed]
	for i, item := range items {
		settling.Go(func() {
			defer func() {
				if p := recover(); p != nil { // it is the caller's, and may not take the process along
					failed.Store(&settlingFailed{p, debug.Stack()})
				}
			}()
			answers[i] = p.settle(within[i], &s, asked{caller: caller, as: as, proposal: item.Proposal, grant: ask.Grant}, decisions[i], took[i])
			ends[i]()
		})
	}
	settling.Wait()
	if f := failed.Load(); f != nil {
		panic(f)
	}
	return answers, nil
}

// settlingFailed is a panic while an item was settled, and where. It is a
// runtime.Error, since its text quotes no values: it may be logged.
type settlingFailed struct {
	panicked any
	stack    []byte
}

// RuntimeError makes it a runtime.Error.
func (*settlingFailed) RuntimeError() {}

// Error names the panic, unless it is the runtime's by its type only, and where
// it was.
func (f *settlingFailed) Error() string {
	what := fmt.Sprintf("%T", f.panicked)
	if e, ok := f.panicked.(runtime.Error); ok {
		what = e.Error()
	}
	return "settling an item of a batch: " + what + ", at " + string(f.stack)
}
