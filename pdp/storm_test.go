package pdp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// unreliable is a log that fails now and then.
type unreliable struct {
	memory
	appends atomic.Int64
}

func (u *unreliable) Append(ctx context.Context, r audit.Record, durable bool) error {
	if u.appends.Add(1)%17 == 0 {
		return errAway
	}
	return u.memory.Append(ctx, r, durable)
}

// TestStorm lets a hundred at one PDP, who propose, redeem, approve, reject,
// verify, revoke and change the world at once, with a log that fails now and
// then. Of each proposal one attempt may act, and every answer is recorded.
func TestStorm(t *testing.T) {
	atDesk(t, storm)
}

func storm(t *testing.T, d *desk) {
	log := &unreliable{}
	var world sync.Mutex // guards the order of worlds
	holder := d.holder
	p := newPDP(t, log, holder)
	host, payments, desk := d.host(), d.payments(), d.desk()
	type shared struct {
		proposal *writ.Proposal
		acted    sync.Map // attempts
		grants   sync.Map // tokens
	}
	var proposals []*shared
	for i := range 20 {
		name := small
		if i%2 == 0 {
			name = above
		}
		proposals = append(proposals, &shared{proposal: d.proposal(name)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var answers [2]atomic.Int64 // redeemed, verified
	act := func(rng *rand.Rand) {
		s := proposals[rng.IntN(len(proposals))]
		q := s.proposal
		switch rng.IntN(10) {
		case 0, 1, 2: // propose, alone or among others
			var all []pdp.Answer
			if rng.IntN(3) == 0 {
				answers, err := p.DecideBatch(ctx, host, []pdp.Item{{Proposal: q}, {}, {Proposal: q}}, pdp.Ask{Grant: true})
				if err != nil {
					t.Error(err)
				}
				all = answers
			} else {
				a, err := p.Decide(ctx, host, q, pdp.Ask{})
				if err != nil {
					t.Error(err)
				}
				all = append(all, a)
			}
			for _, a := range all {
				if g := a.Grant(); g.Token != "" {
					s.grants.Store(g.Token, g)
				}
			}
		case 3, 4, 5: // redeem, the same attempt more than once
			s.grants.Range(func(_, g any) bool {
				r := redemption(g.(pdp.Grant), q)
				for range 1 + rng.IntN(2) {
					a, err := p.Redeem(ctx, payments, r)
					if err != nil {
						t.Error(err)
					}
					if !a.MayAct() {
						continue
					}
					s.acted.Store(r.Attempt, a.ID())
					answers[0].Add(1)
					v, err := p.VerifyEffect(ctx, payments, &pdp.Receipt{
						Redemption: a.ID(), Observer: "payments", Status: effect.StatusObserved, EffectID: a.ID(), ObservedJSON: []byte(`{}`),
					})
					if err != nil || v.Decision().Outcome == writ.Allow {
						t.Errorf("%+v, %v", v.Decision(), err)
					}
					answers[1].Add(1)
				}
				return rng.IntN(2) == 0
			})
		case 6, 7: // approve, or now and then reject
			reviews, _, _, err := p.Reviews(ctx, false, 5)
			if err != nil {
				t.Error(err)
			}
			for i := range reviews {
				r := &reviews[i]
				who := r.Proposal.Principal
				who.Subject = "ann"
				st := &pdp.Statement{Review: r.ID, Shown: r.Shown.Digest, Approver: who, Token: &writ.Token{
					Issuer: who.Issuer, Subject: "ann", Tenant: who.Tenant, Audience: []string{pdp.DefaultIssuer}, ExpiresAt: time.Now().Add(time.Hour),
				}}
				say := p.Approve
				if rng.IntN(20) == 0 {
					say = p.Reject
				}
				if a, err := say(ctx, desk, st); err != nil || a.Approval() != "" && a.Decision().Outcome != writ.Allow {
					t.Errorf("%+v, %v", a.Decision(), err)
				}
			}
		case 8: // something is revoked that matters, or does not
			world.Lock()
			now := holder.Load()
			entry := revocation.Entry{Kind: revocation.Tool, ID: fmt.Sprint("x/", rng.IntN(100))}
			if rng.IntN(30) == 0 {
				entry = revocation.Entry{Kind: revocation.Intent, ID: q.Intent.ID, IssuedBefore: time.Now().Add(-time.Hour)}
			}
			view, err := now.Revocations.With([]revocation.Entry{entry})
			if err != nil {
				t.Error(err)
			} else {
				holder.Store(now.At("test", 1, view))
			}
			world.Unlock()
		case 9: // another bundle, or the same one again
			world.Lock()
			now := holder.Load()
			changed := *now
			changed.LoadedAt = time.Now()
			holder.Store(changed.At("test", 1+rng.Uint64N(3), now.Revocations))
			world.Unlock()
		}
	}
	var all sync.WaitGroup
	for g := range 100 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 6 {
				act(rng)
			}
		})
	}
	all.Wait()
	recorded := map[string]bool{}
	for _, r := range log.records {
		if r.Kind == audit.KindRedemption && r.Code == writ.CodeRedeemed {
			recorded[r.ID], recorded[r.Redemption] = true, true
		}
	}
	for _, s := range proposals {
		n := 0
		s.acted.Range(func(attempt, id any) bool {
			n++
			if !recorded[id.(string)] {
				t.Errorf("%s acted by %s, which is not recorded", s.proposal.RequestID, id)
			}
			return true
		})
		if n > 1 {
			t.Errorf("%s: %d attempts may act", s.proposal.RequestID, n)
		}
	}
	if answers[0].Load() == 0 {
		t.Error("nothing was redeemed")
	}
	t.Logf("%d answers that let act, %d effects told, %d records", answers[0].Load(), answers[1].Load(), len(log.records))
}
