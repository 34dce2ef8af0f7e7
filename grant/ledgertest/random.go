package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/grant"
)

// model is what the contract says of calls that come one after another.
type model struct {
	claims  []grant.Claim // with their outcomes
	effects []grant.Effect
	done    map[string]string // by idempotency key: the id of the first redemption that had its effect
	last    uint64            // entry of the revocation log
}

func (m *model) claim(c grant.Claim) grant.Standing {
	if c.Revocations < m.last {
		return grant.Overtaken
	}
	for _, k := range m.claims {
		if k.Grant == c.Grant && k.Proposal == c.Proposal && k.Attempt == c.Attempt {
			if by := m.done[c.Plan.IdempotencyKey]; by != "" && by != k.ID {
				return grant.AlreadyClaimed
			}
			return grant.Repeated
		}
	}
	for _, k := range m.claims {
		if k.Grant == c.Grant || k.Proposal == c.Proposal || k.ID == c.ID {
			return grant.AlreadyClaimed
		}
	}
	if m.done[c.Plan.IdempotencyKey] != "" {
		return grant.AlreadyClaimed
	}
	m.claims = append(m.claims, c)
	return grant.Claimed
}

func (m *model) settle(e grant.Effect) (grant.Standing, error) {
	for i, k := range m.claims {
		if k.ID != e.Redemption {
			continue
		}
		for _, before := range m.effects {
			same := before
			same.Now = e.Now
			if same == e {
				return grant.Repeated, nil
			}
			if before.Redemption == e.Redemption || e.ID != "" && before.Observer == e.Observer && before.ID == e.ID {
				return grant.AlreadyClaimed, nil
			}
		}
		m.effects = append(m.effects, e)
		m.claims[i].Outcome = e.Outcome
		if key := k.Plan.IdempotencyKey; e.Outcome == writ.CodeEffectVerified && m.done[key] == "" {
			m.done[key] = k.ID
		}
		return grant.Claimed, nil
	}
	return grant.Unknown, grant.ErrNotFound
}

func (m *model) find(is func(*grant.Claim) bool) (grant.Claim, error) {
	for i := range m.claims {
		if is(&m.claims[i]) {
			return m.claims[i], nil
		}
	}
	return grant.Claim{}, grant.ErrNotFound
}

// testRandom makes random calls, with few names so that they meet, and wants
// what the model says.
func testRandom(t *testing.T, o *Opened) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 12 {
		m := &model{done: map[string]string{}}
		if round > 0 {
			m.last = o.Revoke() // what was revoked in the rounds before counts, too
		}
		name := func(kind string, n int) string { return fmt.Sprintf("%s-%d-%d", kind, round, r.IntN(n)) }
		for range 60 {
			l := o.Replicas[r.IntN(len(o.Replicas))]
			var got, want any
			var gotErr, wantErr error
			switch r.IntN(10) {
			case 0, 1, 2, 3:
				c := NewClaim(r.IntN(5))
				c.ID, c.Grant, c.Proposal = name("D", 8), name("G", 5), name("P", 5)
				c.Attempt = Attempt(r.IntN(3))
				c.Plan.IdempotencyKey = name("K", 6)
				c.Now = start.Add(time.Duration(r.IntN(120)-60) * time.Second) // clocks are not one clock
				c.Expires = start.Add(lifetime)
				c.Revocations = m.last
				if m.last > 0 && r.IntN(6) == 0 {
					c.Revocations--
				}
				got, gotErr = l.Claim(t.Context(), c)
				want = m.claim(c)
			case 4, 5, 6:
				e := NewEffect(r.IntN(2))
				e.Redemption, e.ID, e.Observer = name("D", 8), name("E", 3), name("O", 2)
				if r.IntN(4) == 0 {
					e.ID = ""
				}
				if r.IntN(3) == 0 {
					e.Outcome = writ.CodePostconditionFailed
				}
				got, gotErr = l.Settle(t.Context(), e)
				want, wantErr = m.settle(e)
			case 7:
				id := name("D", 8)
				got, gotErr = l.Redemption(t.Context(), id)
				want, wantErr = m.find(func(c *grant.Claim) bool { return c.ID == id })
			case 8:
				proposal := name("P", 5)
				got, gotErr = l.Attempt(t.Context(), proposal)
				of, err := m.find(func(c *grant.Claim) bool { return c.Proposal == proposal })
				by := m.done[of.Plan.IdempotencyKey]
				of.DoneElsewhere = by != "" && by != of.ID
				want, wantErr = of, err
			default:
				if r.IntN(4) == 0 {
					m.last = o.Revoke()
				}
				continue
			}
			if !errors.Is(gotErr, wantErr) || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, round %d: got %+v, %v; want %+v, %v", seed, round, got, gotErr, want, wantErr)
			}
		}
	}
}
