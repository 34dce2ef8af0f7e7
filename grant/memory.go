package grant

import (
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/writ-pdp/writ"
)

// DefaultMaxEntries is the most redemptions that a [Memory] remembers, unless
// it is told otherwise.
const DefaultMaxEntries = 1_000_000

// MemoryConfig says how much a [Memory] keeps.
type MemoryConfig struct {
	// MaxEntries is how many redemptions are remembered; with one more, ErrFull,
	// and of one caller with more than [MaxShare] says. 0: [DefaultMaxEntries].
	MaxEntries int
	// Retention is how long each is remembered; 0: [DefaultRetention].
	Retention time.Duration
	// Revocations returns the sequence of the last entry of the revocation log
	// that is recorded, at the latest when its recording is acknowledged. It is
	// called with every claim and must not wait. Required.
	Revocations func() uint64
}

// Memory is the [Ledger] of exactly one replica. It forgets everything when the
// process ends: its instance is another one then, so that no grant of before can
// be redeemed, and [Memory.Seed] tells it which proposals were.
//
// Its time is the latest Now that it was given: it has no clock.
type Memory struct {
	cfg      MemoryConfig
	instance string
	seeds    [kinds]maphash.Seed

	mu      sync.Mutex        // guards the rest
	now     int64             // nanoseconds since 1970: the latest Now
	names   map[uint64]*entry // by the hashes of their names, one for each kind
	effects map[effectKey]*entry
	done    map[string]*entry // by idempotency key: the first whose effect was verified
	shares  map[string]*share // by caller
	queue   queue             // of all entries
	scratch []byte            // for the next record
}

// effectKey names an effect.
type effectKey struct{ observer, id string }

// entry is one redemption.
type entry struct {
	due     int64  // nanoseconds since 1970: may be forgotten from then on
	record  record // never changes
	share   *share // that it is part of
	settled *Effect
	done    bool // seeded: a retry of it has had its effect
}

// NewMemory makes an empty ledger, with an instance that no other has.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if cfg.MaxEntries == 0 {
		cfg.MaxEntries = DefaultMaxEntries
	}
	if cfg.Retention == 0 {
		cfg.Retention = DefaultRetention
	}
	switch {
	case cfg.MaxEntries < 0:
		return nil, fmt.Errorf("grant: a ledger of %d entries: name a number above 0", cfg.MaxEntries)
	case cfg.Retention < 0 || cfg.Retention > MaxRetention:
		return nil, fmt.Errorf("grant: a retention of %v: at most %v", cfg.Retention, MaxRetention)
	case cfg.Revocations == nil:
		return nil, errors.New("grant: a ledger that is not told of revocations would let revoked grants be redeemed")
	}
	m := &Memory{cfg: cfg, instance: strings.ToLower(rand.Text()), names: map[uint64]*entry{}, effects: map[effectKey]*entry{}, done: map[string]*entry{}, shares: map[string]*share{}}
	for k := range m.seeds {
		m.seeds[k] = maphash.MakeSeed()
	}
	return m, nil
}

// Instance implements [Ledger]. It is made at random for each Memory.
func (m *Memory) Instance() string { return m.instance }

// Len returns how many redemptions are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue)
}

// Claim implements [Ledger].
func (m *Memory) Claim(ctx context.Context, c Claim) (Standing, error) {
	if err := c.Check(); err != nil {
		return Unknown, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Unknown, fmt.Errorf("grant: claiming: %w", err)
	}
	m.pass(c.Now)
	// However the clock went meanwhile: what this grant's entry may have been
	// forgotten of is not claimed again.
	if late(c.Expires, m.now) {
		return Unknown, ErrForgotten
	}
	if m.cfg.Revocations() > c.Revocations {
		return Overtaken, nil
	}
	var found [kinds]*entry
	for k, name := range [kinds]string{byID: c.ID, byGrant: c.Grant, byProposal: c.Proposal} {
		var err error
		if found[k], err = m.find(kind(k), name); err != nil {
			return Unknown, err
		}
	}
	switch of := found[byGrant]; {
	case m.doneElsewhere(c.Plan.IdempotencyKey, of):
		return AlreadyClaimed, nil
	case of == nil && found[byProposal] == nil && found[byID] == nil:
	case of != nil && of == found[byProposal] && of.record.attempt() == c.Attempt:
		return Repeated, nil
	default:
		return AlreadyClaimed, nil
	}
	if m.greedy(c.Caller) {
		return Unknown, ErrFull
	}
	if err := m.add(&c); err != nil {
		return Unknown, err
	}
	return Claimed, nil
}

// Redemption implements [Ledger].
func (m *Memory) Redemption(ctx context.Context, id string) (Claim, error) {
	return m.claimed(ctx, byID, id)
}

// Attempt implements [Ledger].
func (m *Memory) Attempt(ctx context.Context, proposal string) (Claim, error) {
	return m.claimed(ctx, byProposal, proposal)
}

func (m *Memory) claimed(ctx context.Context, k kind, name string) (Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Claim{}, fmt.Errorf("grant: asking the ledger: %w", err)
	}
	if name == "" {
		return Claim{}, ErrNotFound // of what was seeded, some have names that are not known
	}
	e, err := m.find(k, name)
	if err != nil {
		return Claim{}, err
	}
	if e == nil {
		return Claim{}, ErrNotFound
	}
	c := e.record.claim()
	if e.settled != nil {
		c.Outcome = e.settled.Outcome
	}
	if k == byProposal {
		c.DoneElsewhere = e.done || m.doneElsewhere(c.Plan.IdempotencyKey, e)
	}
	return c, nil
}

// Settle implements [Ledger].
func (m *Memory) Settle(ctx context.Context, e Effect) (Standing, error) {
	if err := e.Check(); err != nil {
		return Unknown, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Unknown, fmt.Errorf("grant: settling: %w", err)
	}
	m.pass(e.Now)
	of, err := m.find(byID, e.Redemption)
	switch {
	case err != nil:
		return Unknown, err
	case of == nil:
		return Unknown, ErrNotFound
	case of.settled != nil && of.settled.Same(&e):
		return Repeated, nil
	case of.settled != nil || m.effects[effectKey{e.Observer, e.ID}] != nil:
		return AlreadyClaimed, nil
	}
	m.settle(of, e)
	return Claimed, nil
}

// settle notes what a redemption was settled with. The caller holds mu.
func (m *Memory) settle(of *entry, e Effect) {
	e.Now = time.Unix(0, max(m.now, e.Now.UnixNano()))
	e.Redemption, e.Observer, e.ID = strings.Clone(e.Redemption), strings.Clone(e.Observer), strings.Clone(e.ID)
	of.settled = &e
	if e.ID != "" {
		m.effects[effectKey{e.Observer, e.ID}] = of
	}
	if key := of.verified(); key != "" && m.done[key] == nil {
		m.done[key] = of
	}
}

// doneElsewhere reports whether another than e, which may be nil, has had its
// effect under an idempotency key. The caller holds mu.
func (m *Memory) doneElsewhere(key string, e *entry) bool {
	by := m.done[key]
	return by != nil && by != e
}

// verified returns the idempotency key under which e has had its effect; empty:
// it has not, or has no key.
func (e *entry) verified() string {
	if e.settled == nil || e.settled.Outcome != writ.CodeEffectVerified {
		return ""
	}
	return e.record.claim().Plan.IdempotencyKey
}

// errClash keeps two names apart that hash to one value of 64 bits. Nobody
// lives to see it.
var errClash = errors.New("grant: the ledger can't tell this name from another: ask for a new decision")

func (m *Memory) hash(k kind, name string) uint64 { return maphash.String(m.seeds[k], name) }

// find returns the entry of a name; nil: there is none. The caller holds mu.
func (m *Memory) find(k kind, name string) (*entry, error) {
	e := m.names[m.hash(k, name)]
	if e != nil && e.record.name(k) != name {
		return nil, errClash
	}
	return e, nil
}

// add adds what was not there. The caller holds mu.
func (m *Memory) add(c *Claim) error {
	if len(m.queue) >= m.cfg.MaxEntries {
		return ErrFull
	}
	m.scratch = appendRecord(m.scratch[:0], c)
	e := &entry{record: record(m.scratch), share: m.share(c.Caller), done: c.DoneElsewhere, due: max(m.now+int64(m.cfg.Retention), c.Expires.Add(MaxSkew).UnixNano())}
	for k := range kinds {
		if name := e.record.name(k); name != "" {
			m.names[m.hash(k, name)] = e
		}
	}
	e.share.entries++
	heap.Push(&m.queue, e)
	return nil
}

// late reports whether MaxSkew has passed since a time.
func late(expires time.Time, now int64) bool { return now >= expires.Add(MaxSkew).UnixNano() }

// maxForgotten bounds how much one call forgets, so that none takes long.
const maxForgotten = 64

// pass notes the time, which never goes back, and forgets what is due. The
// caller holds mu.
func (m *Memory) pass(now time.Time) {
	m.now = max(m.now, now.UnixNano())
	for range maxForgotten {
		if len(m.queue) == 0 || m.queue[0].due > m.now {
			return
		}
		e := heap.Pop(&m.queue).(*entry)
		key := e.verified()
		if key != "" && m.done[key] == e {
			// Whoever claimed under the key before is remembered for so long, and can
			// be retried.
			if until := e.settled.Now.UnixNano() + int64(m.cfg.Retention); until > max(m.now, e.due) {
				e.due = until
				heap.Push(&m.queue, e)
				continue
			}
			delete(m.done, key)
		}
		m.leave(e.share)
		for k := range kinds {
			if name := e.record.name(k); name != "" {
				delete(m.names, m.hash(k, name))
			}
		}
		if s := e.settled; s != nil && s.ID != "" {
			delete(m.effects, effectKey{s.Observer, s.ID})
		}
	}
}

// queue is a heap: first what is due first.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push and Pop are for package heap.
func (q *queue) Push(x any) { *q = append(*q, x.(*entry)) }

// Pop takes the last.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
