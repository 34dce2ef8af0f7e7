package server

import (
	"container/heap"
	"context"
	"time"

	"google.golang.org/grpc"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/revocation"
)

// WatchRevocations tells the log, what is added, and when an entry begins or
// ceases to be in force by its times. A watcher holds nothing but immutable
// views: one that reads slowly keeps nobody waiting.
func (r *revocations) WatchRevocations(req *writv1.WatchRevocationsRequest, stream grpc.ServerStreamingServer[writv1.WatchRevocationsResponse]) error {
	ctx := stream.Context()
	view, now, changed, err := r.inForce()
	if err != nil {
		return err
	}
	w := &watch{send: stream.Send, told: req.GetAfter()}
	// What another watch has told may yet begin or end.
	for e := range view.Entries(0) {
		if e.Sequence > w.told {
			break
		}
		w.schedule(&e, now)
	}
	timer := time.NewTimer(0) // it is set before each wait
	defer timer.Stop()
	for {
		if err := w.tell(ctx, view, now); err != nil {
			return err
		}
		timer.Stop()
		if next, ok := w.next(); ok {
			// The machine's clock may be put forward meanwhile: then this is late
			// by as much. Decisions read the clock themselves. And now may stand
			// still, when the clock was put back: hence the least wait.
			timer.Reset(max(next.Sub(now), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-timer.C:
		}
		if view, now, changed, err = r.inForce(); err != nil {
			return err
		}
	}
}

// watch is what one watcher has been told.
type watch struct {
	send  func(*writv1.WatchRevocationsResponse) error
	told  uint64 // the sequence number of the last entry told
	edges edges  // that are yet to be told
}

// tell tells what has been added, then what has begun and ended up to now, in
// the order of the instants. Of what it has told as added it tells every edge,
// also a past one: so nobody needs a clock to know what is in force.
func (w *watch) tell(ctx context.Context, view *revocation.View, now time.Time) error {
	for e := range view.Entries(w.told) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.event(writv1.RevocationEvent_REVOCATION_EVENT_ADDED, &e); err != nil {
			return err
		}
		w.told = e.Sequence
		w.schedule(&e, time.Time{})
	}
	for len(w.edges) > 0 && !w.edges[0].at.After(now) {
		edge := heap.Pop(&w.edges).(edge)
		if edge.event == writv1.RevocationEvent_REVOCATION_EVENT_BEGAN && !edge.entry.Until.IsZero() {
			heap.Push(&w.edges, ended(edge.entry))
		}
		if !view.Stands(edge.entry) {
			continue // a lift has told the rest
		}
		if err := w.event(edge.event, edge.entry); err != nil {
			return err
		}
	}
	return nil
}

func (w *watch) event(event writv1.RevocationEvent, e *revocation.Entry) error {
	if err := w.send(&writv1.WatchRevocationsResponse{Event: event, Revocation: revocationToProto(e)}); err != nil {
		return refuse(ReasonCanceled, "the watcher is gone")
	}
	return nil
}

// schedule notes the entry's first edge after an instant.
func (w *watch) schedule(e *revocation.Entry, after time.Time) {
	switch {
	case e.Lift:
	case e.From.After(after): // a zero one is not
		heap.Push(&w.edges, edge{e.From, writv1.RevocationEvent_REVOCATION_EVENT_BEGAN, e})
	case e.Until.After(after):
		heap.Push(&w.edges, ended(e))
	}
}

// next returns the instant of the next edge.
func (w *watch) next() (time.Time, bool) {
	if len(w.edges) == 0 {
		return time.Time{}, false
	}
	return w.edges[0].at, true
}

// edge is an instant at which an entry begins or ceases to be in force.
type edge struct {
	at    time.Time
	event writv1.RevocationEvent
	entry *revocation.Entry
}

func ended(e *revocation.Entry) edge {
	return edge{e.Until, writv1.RevocationEvent_REVOCATION_EVENT_ENDED, e}
}

// edges is a heap, the earliest on top; of one instant in the order of the
// log.
type edges []edge

// Len, Less, Swap, Push and Pop are for container/heap.
func (h edges) Len() int { return len(h) }
func (h edges) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].entry.Sequence < h[j].entry.Sequence
}
func (h edges) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *edges) Push(x any)   { *h = append(*h, x.(edge)) }
func (h *edges) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = edge{}
	*h = old[:len(old)-1]
	return last
}
