package approval

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/writ-pdp/writ/canon"
)

// MemoryConfig is what a [Memory] needs.
type MemoryConfig struct {
	Limits Limits
}

// Memory is the [Store] of exactly one replica. It forgets everything when the
// program ends, as that replica forgets the keys that approvals were signed
// with.
type Memory struct {
	limits Limits

	mu       sync.Mutex // guards all below
	reviews  map[string]*kept
	proposed map[canon.Digest][]string // ids by proposal
	tally    Tally                     // of reviews
	swept    time.Time                 // when the last look for what can be forgotten was
	over     time.Time                 // no review makes room before; zero: one may
	watchers map[*watcher]struct{}
}

// kept is one review. It is replaced, never changed.
type kept struct {
	review Review
	size   int
}

// NewMemory makes an empty store.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if err := cfg.Limits.Check(); err != nil {
		return nil, err
	}
	return &Memory{
		limits: cfg.Limits.Filled(), reviews: map[string]*kept{}, proposed: map[canon.Digest][]string{}, watchers: map[*watcher]struct{}{},
	}, nil
}

// Open implements [Store].
func (m *Memory) Open(ctx context.Context, r Review) (Review, error) {
	if err := ctx.Err(); err != nil {
		return Review{}, err
	}
	id := ID(r.Shown.Digest)
	if have, err := m.standing(id, r.Opened); have != nil {
		return have.review, err
	}
	fresh, err := Prepare(r, m.limits) // not under the lock: it is the work of the proposer
	if err != nil {
		return Review{}, err
	}
	data, err := Encode(fresh)
	if err != nil {
		return Review{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if have, err := m.stands(id, r.Opened); have != nil {
		return have.review, err
	}
	if !m.makeRoom(id, r.Caller.Name, len(data), r.Opened) {
		return Review{}, ErrFull
	}
	m.put(fresh, len(data))
	return fresh, nil
}

func (m *Memory) standing(id string, now time.Time) (*kept, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stands(id, now)
}

// stands returns the review that is to be answered, or was rejected; nil: there
// is none. m.mu is held.
func (m *Memory) stands(id string, now time.Time) (*kept, error) {
	switch have := m.reviews[id]; {
	case have == nil:
		return nil, nil
	case have.review.Rejection != nil:
		return have, ErrRejected
	case now.Before(have.review.Expires):
		return have, nil
	}
	return nil, nil
}

// put keeps r in place of what its id named before. m.mu is held.
func (m *Memory) put(r Review, size int) {
	if before := m.reviews[r.ID]; before != nil {
		m.tally.Remove(before.review.Caller.Name, before.size)
	} else {
		m.proposed[proposalOf(&r)] = append(m.proposed[proposalOf(&r)], r.ID)
	}
	m.reviews[r.ID] = &kept{r, size}
	if end := m.end(&r); end.Before(m.over) {
		m.over = end
	}
	m.tally.Add(r.Caller.Name, size)
	for w := range m.watchers {
		w.tell(r.ID)
	}
}

// drop forgets a review. m.mu is held.
func (m *Memory) drop(id string) {
	r := m.reviews[id]
	m.tally.Remove(r.review.Caller.Name, r.size)
	delete(m.reviews, id)
	digest := proposalOf(&r.review)
	if m.proposed[digest] = slices.DeleteFunc(m.proposed[digest], func(other string) bool { return other == id }); len(m.proposed[digest]) == 0 {
		delete(m.proposed, digest)
	}
}

// sweepEvery is how often what can be forgotten is looked for.
const sweepEvery = time.Minute

// end is when a review begins to make room for others.
func (m *Memory) end(r *Review) time.Time {
	if r.Rejection != nil {
		return r.Expires.Add(m.limits.Keep)
	}
	return r.Expires
}

// makeRoom reports whether a caller's review of so many bytes can be kept in
// place of what id names. m.mu is held.
func (m *Memory) makeRoom(id, caller string, size int, now time.Time) bool {
	if have := m.reviews[id]; have != nil {
		m.tally.Remove(have.review.Caller.Name, have.size)
		defer m.tally.Add(have.review.Caller.Name, have.size)
	}
	if now.Sub(m.swept) >= sweepEvery || now.Before(m.swept) {
		m.swept = now
		for other, k := range m.reviews {
			if other != id && !now.Before(k.review.Expires.Add(m.limits.Keep)) {
				m.drop(other)
			}
		}
	}
	if m.limits.Room(&m.tally, caller, size) {
		return true
	}
	if now.Before(m.over) {
		return false // who asks often may not have all looked through each time
	}
	m.over = time.Time{}
	for other, k := range m.reviews {
		end := m.end(&k.review)
		if other != id && !now.Before(end) {
			m.drop(other)
		} else if m.over.IsZero() || end.Before(m.over) {
			m.over = end
		}
	}
	return m.limits.Room(&m.tally, caller, size)
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, id string) (Review, error) {
	if err := ctx.Err(); err != nil {
		return Review{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.reviews[id]; k != nil {
		return k.review, nil
	}
	return Review{}, ErrNotFound
}

// ByProposal implements [Store].
func (m *Memory) ByProposal(ctx context.Context, proposal canon.Digest) ([]Review, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Review
	for _, id := range m.proposed[proposal] {
		out = append(out, m.reviews[id].review)
	}
	slices.SortFunc(out, Older)
	return out, nil
}

// Older orders reviews by when they were opened.
func Older(a, b Review) int { return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.ID, b.ID)) }

// List implements [Store].
func (m *Memory) List(ctx context.Context, q Query) (reviews []Review, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	for _, k := range m.reviews {
		reviews = append(reviews, k.review)
	}
	m.mu.Unlock()
	reviews, more = q.Of(reviews)
	return reviews, more, nil
}

// Of returns those of reviews that q looks for, in their order, and whether
// there are more. It may reorder reviews.
func (q Query) Of(reviews []Review) (out []Review, more bool) {
	out = slices.DeleteFunc(reviews, func(r Review) bool {
		return !q.Closed && r.State(q.Now) != Open
	})
	slices.SortFunc(out, Older)
	if q.Limit > 0 && len(out) > q.Limit {
		return out[:q.Limit], true
	}
	return out, false
}

// Agree implements [Store].
func (m *Memory) Agree(ctx context.Context, id string, a Agreement) (Review, error) {
	return m.change(ctx, id, func(r Review) (Review, error) { return r.WithAgreement(a) })
}

// Reject implements [Store].
func (m *Memory) Reject(ctx context.Context, id string, by Rejection) (Review, error) {
	return m.change(ctx, id, func(r Review) (Review, error) { return r.WithRejection(by) })
}

func (m *Memory) change(ctx context.Context, id string, change func(Review) (Review, error)) (Review, error) {
	if err := ctx.Err(); err != nil {
		return Review{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.reviews[id]
	if have == nil {
		return Review{}, ErrNotFound
	}
	changed, err := change(have.review)
	if err != nil {
		return have.review, err
	}
	data, err := Encode(changed)
	if err != nil {
		return have.review, err
	}
	if m.tally.All.Bytes+len(data)-have.size > m.limits.MaxBytes {
		return have.review, ErrFull
	}
	m.put(changed, len(data))
	return changed, nil
}

// watcher is one reader of changes: which reviews it has not seen as they are.
type watcher struct {
	// Guarded by Memory.mu.
	waiting []string
	listed  map[string]bool // of waiting

	wake chan struct{} // holds one: there is something waiting
}

func (w *watcher) tell(id string) {
	if !w.listed[id] {
		w.listed[id] = true
		w.waiting = append(w.waiting, id)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Watch implements [Store].
func (m *Memory) Watch(ctx context.Context) iter.Seq2[Review, error] {
	return func(yield func(Review, error) bool) {
		w := &watcher{listed: map[string]bool{}, wake: make(chan struct{}, 1)}
		m.mu.Lock()
		var all []Review
		for _, k := range m.reviews {
			all = append(all, k.review)
		}
		slices.SortFunc(all, Older)
		for i := range all {
			w.tell(all[i].ID)
		}
		m.watchers[w] = struct{}{}
		m.mu.Unlock()
		defer func() {
			m.mu.Lock()
			delete(m.watchers, w)
			m.mu.Unlock()
		}()
		for ctx.Err() == nil {
			r, ok := m.next(w)
			if !ok {
				select {
				case <-w.wake:
				case <-ctx.Done():
				}
				continue
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// next returns the first review that w waits for, as it is now.
func (m *Memory) next(w *watcher) (Review, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(w.waiting) > 0 {
		id := w.waiting[0]
		w.waiting = w.waiting[1:]
		delete(w.listed, id)
		if k := m.reviews[id]; k != nil {
			return k.review, true
		}
	}
	w.waiting = nil
	return Review{}, false
}
