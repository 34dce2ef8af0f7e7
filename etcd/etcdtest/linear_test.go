package etcdtest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest/history"
	"github.com/writ-pdp/writ/grant"
)

// operations is how many calls are made: few, for so long at most, or what
// WRIT_LINEARIZABLE_OPERATIONS says, without end.
func operations(t *testing.T, few int, most time.Duration) (int, time.Duration) {
	text := os.Getenv("WRIT_LINEARIZABLE_OPERATIONS")
	if text == "" {
		return few, most
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n, 24 * time.Hour
}

// speed is how much faster than ours the time passes in which grants expire and
// are forgotten: a second is two minutes.
const speed = 120

// mostSkew bounds how far each replica's clock is off: any two are never further
// apart than grant.MaxSkew.
const mostSkew = grant.MaxSkew / 2

// retention is that of the ledgers here: longer than anybody asks for a proposal.
const retention = 15 * time.Minute

// system is a ledger, and who shares it, while much goes wrong.
type system struct {
	recorder *history.Recorder
	began    time.Time
	nodes    []*node
	// revoke adds to the revocation log. head returns where it ends.
	revoke func(ctx context.Context) (uint64, error)
	head   func(ctx context.Context) (uint64, error)

	calls  atomic.Int64 // redemptions so far
	mu     sync.Mutex
	groups []*group // guarded by mu
}

// node is a replica, which is now one process and then another.
type node struct {
	life atomic.Pointer[life]
	skew atomic.Int64 // nanoseconds
}

// life is a replica from its start to its end.
type life struct {
	ledger grant.Ledger
	ctx    context.Context // ends with it
	end    func()
	known  atomic.Uint64 // of the revocation log
	// record notes what was claimed before it is told; false: there was no time
	// for that. May be nil.
	record func(c *grant.Claim) bool
}

// group is some grants for some proposals, which all go for at once.
type group struct {
	instance string
	grants   []grant.Claim // their names and ends
}

const (
	// lanes is how many groups there are at once: each client goes for those of
	// one lane, mostly. With more at one group, checking takes long.
	lanes         = 8
	callsPerGroup = 24
	attemptsEach  = 3
	callTimeout   = 1500 * time.Millisecond
)

// now is the time without any skew. It begins so that something is due soon.
func (s *system) now() time.Time {
	return time.Date(2031, 5, 6, 7, 35, 0, 0, time.UTC).Add(time.Since(s.began) * speed)
}

// group returns the present group of a client, which it makes when it is time,
// or at times an earlier one.
func (s *system) group(client int) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	round := int(s.calls.Load() / (callsPerGroup * lanes))
	for len(s.groups) < (round+1)*lanes {
		n := len(s.groups)
		g := &group{instance: s.nodes[0].life.Load().ledger.Instance()}
		for i, proposal := range []int{0, 0, 1} {
			c := grant.Claim{
				Grant: fmt.Sprintf("G%d-%d", n, i), Proposal: fmt.Sprintf("P%d-%d", n, proposal),
				Expires: s.now().Add(30*time.Second + rand.N(270*time.Second)),
			}
			s.recorder.Begin(history.Operation{Kind: history.Mint, Grant: c.Grant, Proposal: c.Proposal})(history.Done, 0)
			g.grants = append(g.grants, c)
		}
		s.groups = append(s.groups, g)
	}
	if rand.IntN(8) == 0 {
		return s.groups[len(s.groups)-1-rand.IntN(min(40, len(s.groups)))]
	}
	return s.groups[round*lanes+client%lanes]
}

// client calls until enough has been called.
func (s *system) client(id, enough int, until time.Time) {
	for i := 0; int(s.calls.Load()) < enough && time.Now().Before(until); i++ {
		if rand.IntN(200) == 0 {
			s.tryRevoke(id)
			continue
		}
		g := s.group(id)
		c := g.grants[rand.IntN(len(g.grants))]
		s.redeem(id, i, s.nodes[rand.IntN(len(s.nodes))], g, c)
	}
}

func (s *system) tryRevoke(id int) {
	done := s.recorder.Begin(history.Operation{Client: id, Kind: history.Revoke})
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	sequence, err := s.revoke(ctx)
	if err != nil {
		done(history.Lost, 0)
		return
	}
	done(history.Done, sequence)
}

// redeem makes one attempt, and once more where it was lost or overtaken.
func (s *system) redeem(id, serial int, n *node, g *group, c grant.Claim) {
	attempt := fmt.Sprint("a", rand.IntN(attemptsEach))
	c.Attempt = sha256.Sum256([]byte(attempt))
	kind := history.Redeem
	for again := range 3 {
		s.calls.Add(1)
		l := n.life.Load()
		if l.ctx.Err() != nil {
			time.Sleep(time.Millisecond) // it is starting
		}
		c.ID = fmt.Sprintf("D%d-%d-%d", id, serial, again)
		c.Now = s.now().Add(time.Duration(n.skew.Load()))
		c.Revocations = l.known.Load()
		done := s.recorder.Begin(history.Operation{Client: id, Kind: kind, Grant: c.Grant, Proposal: c.Proposal, Attempt: attempt})
		if g.instance != l.ledger.Instance() {
			done(history.Refused, c.Revocations)
			return
		}
		result := l.claim(&c)
		done(result, c.Revocations)
		switch result {
		case history.Overtaken:
			ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
			if head, err := s.head(ctx); err == nil {
				l.known.Store(head)
			}
			cancel()
		case history.Lost:
		default:
			return
		}
		if kind = history.Repeat; rand.IntN(2) == 0 { // asked elsewhere
			n = s.nodes[rand.IntN(len(s.nodes))]
		}
	}
}

func (l *life) claim(c *grant.Claim) history.Result {
	ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
	defer cancel()
	standing, err := l.ledger.Claim(ctx, *c)
	if err != nil {
		if errors.Is(err, grant.ErrForgotten) {
			return history.Refused
		}
		return history.Lost
	}
	result := map[grant.Standing]history.Result{
		grant.Claimed: history.Claimed, grant.Repeated: history.Again, grant.AlreadyClaimed: history.Taken, grant.Overtaken: history.Overtaken,
	}[standing]
	if l.record != nil && (result == history.Claimed || result == history.Again) && !l.record(c) {
		return history.Lost
	}
	return result
}

// step moves the clock of a replica.
func (n *node) step() { n.skew.Store(int64(rand.N(2*mostSkew+1) - mostSkew)) }

// run has clients call while trouble makes trouble, and checks what they were
// told. trouble returns what is to be undone before the end.
func (s *system) run(t *testing.T, clients, enough int, most time.Duration, trouble func(stop <-chan struct{}), heal func()) {
	s.began, s.recorder = time.Now(), history.NewRecorder()
	stop := make(chan struct{})
	var troubles, callers sync.WaitGroup
	troubles.Go(func() { trouble(stop) })
	for id := range clients {
		callers.Go(func() { s.client(id, enough, s.began.Add(most)) })
	}
	callers.Wait()
	close(stop)
	troubles.Wait()
	heal()
	// Everybody is asked once more for what was last.
	s.mu.Lock()
	last := s.groups[max(0, len(s.groups)-lanes):]
	s.mu.Unlock()
	serial := 0
	for i, n := range s.nodes {
		for _, g := range last {
			for _, c := range g.grants {
				s.redeem(clients+i, serial, n, g, c)
				serial++
			}
		}
	}
	all := s.recorder.Operations()
	took := time.Since(s.began).Round(time.Millisecond)
	began := time.Now()
	if err := history.Check(all, 0); err != nil {
		t.Error(err)
	}
	t.Logf("%s in %v; checked in %v", history.Counts(all), took, time.Since(began).Round(time.Millisecond))
}

// wait waits; false: it is over.
func wait(stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}
