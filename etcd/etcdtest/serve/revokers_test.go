package serve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest/history"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// pdpIssuer is the iss of grants, as it is without a bundle.yaml that says
// another.
const pdpIssuer = "writ"

// entry is the revocation of a subject.
func entry(subject string) *writv1.Revocation {
	kind, id, _ := strings.Cut(subject, ":")
	e := &writv1.Revocation{Kind: kind, Id: id, Reason: "test"}
	switch kind {
	case "principal":
		e.Issuer = issuer
	case "key":
		e.Issuer = pdpIssuer
	case "tool":
		e.Id = store + "/" + id
	}
	return e
}

// revokers is how many there are: one for each of minted.subjects, so that no two
// have the same.
const revokers = 4

// revoker revokes one thing after another on which a grant depends that may be
// redeemed yet, and gives back what others depend on, too. As soon as a revocation is
// acknowledged, the grant is tried at all replicas at once.
func (s *system) revoker(id int, stop <-chan struct{}) {
	for n := 0; wait(stop, rand.N(200*time.Millisecond)); n++ {
		caller := -1 - id
		g := s.group(rand.IntN(lanes))
		own := rand.IntN(3) > 0 // one that nobody else goes for
		if own {
			g = s.fresh(caller, fmt.Sprintf("revoked-%d-%d", id, n))
		}
		if id%2 == 1 && rand.IntN(3) > 0 { // tools and keys void much
			continue
		}
		subject := g.subject(id)
		// A replica with a revoked key mints nothing until it is given another one:
		// TestKeyRevoked is about that.
		if subject == "" || len(s.replicas) > 1 && strings.HasPrefix(subject, "key:") {
			continue
		}
		acknowledged := s.revoke(caller, history.Revoke, subject)
		if acknowledged {
			s.try(caller, g)
		}
		// What may have been revoked although the answer was lost is given back, too.
		if shared := strings.HasPrefix(subject, "key:") || strings.HasPrefix(subject, "tool:"); !shared && (own || !acknowledged) {
			continue
		}
		wait(stop, rand.N(150*time.Millisecond))
		for !s.revoke(caller, history.Lift, subject) { // what depends on it would be of no more use
			if !wait(stop, 50*time.Millisecond) {
				return
			}
		}
	}
}

// fresh is a new group, with a grant if a replica that was asked answers.
func (s *system) fresh(caller int, name string) *group {
	g := newGroup(name)
	at := rand.IntN(len(s.replicas))
	if l := s.replicas[at].life.Load(); l != nil {
		s.mint(caller, at, l, g)
	}
	return g
}

// try redeems from a group at all replicas at once.
func (s *system) try(caller int, g *group) {
	var all sync.WaitGroup
	for at := range s.replicas {
		if l := s.replicas[at].life.Load(); l != nil {
			all.Go(func() { s.redeem(caller, at, l, g) })
		}
	}
	all.Wait()
}

// subject is one on which a grant of the group depends; empty: it has none.
func (g *group) subject(kind int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.grants) == 0 {
		return ""
	}
	return strings.Fields(g.grants[rand.IntN(len(g.grants))].subjects)[kind]
}

// revoke revokes or lifts, and reports whether that was acknowledged.
func (s *system) revoke(id int, kind history.Kind, subject string) bool {
	l := s.replicas[rand.IntN(len(s.replicas))].life.Load()
	if l == nil {
		return false
	}
	e := entry(subject)
	e.Lift = kind == history.Lift
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	done := s.recorder.Begin(history.Operation{Client: id, Kind: kind, Subject: subject})
	_, err := l.revoke(ctx, e)
	if !s.answered("revoke", err) {
		done(history.Lost, 0)
		return false
	}
	done(history.Done, 0)
	return true
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
