package pdp_test

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/snapshot"
)

// stranger is a replica that has not heard of the other's key yet.
type stranger struct {
	first, second *pdp.PDP
	reviews       *watched                 // the second's
	asked         int                      // how often the second asked for keys
	learn         func() error             // what it is told then
	trust         func() error             // has it know the first's key
	sign          func(text string) string // an approval under another key, of which nobody knows
}

// watched are reviews that a test counts questions to, and that can be away.
type watched struct {
	approval.Store
	asked int // by proposal
	away  error
	then  func() // what happens once they have been asked
}

func (w *watched) ByProposal(ctx context.Context, proposal canon.Digest) ([]approval.Review, error) {
	w.asked++
	if w.away != nil {
		return nil, w.away
	}
	reviews, err := w.Store.ByProposal(ctx, proposal)
	if then := w.then; then != nil {
		w.then = nil
		then()
	}
	return reviews, err
}

// strangers makes two replicas with one ledger. Their reviews are the same ones,
// or not.
func strangers(t *testing.T, d *desk, alone, apart bool) *stranger {
	t.Helper()
	key, one := certified(t)
	ledger, err := grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return d.world.Revocations.Sequence() }})
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{}
	var reviews *watched
	var pdps [2]*pdp.PDP
	var rings [2]*keyring.Ring
	for i, k := range []*keyring.Key{key, keyring.Generate()} {
		if rings[i], err = keyring.New(keyring.Config{Key: k}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if i == 0 || apart {
			kept, err := approval.NewMemory(approval.MemoryConfig{})
			if err != nil {
				t.Fatal(err)
			}
			reviews = &watched{Store: kept}
		}
		cfg := pdp.Config{Snapshots: d.holder, Log: d.log, Keys: rings[i], Ledger: ledger, Reviews: reviews, Shared: true}
		if i == 1 && !alone {
			cfg.LearnKeys = func(context.Context) error {
				s.asked++
				return s.learn()
			}
		}
		if pdps[i], err = pdp.New(cfg); err != nil {
			t.Fatal(err)
		}
	}
	s.first, s.second, s.reviews = pdps[0], pdps[1], reviews
	s.trust = func() error { return rings[1].Trust([]keyring.Replica{one}) }
	s.learn = func() error { return nil }
	s.sign = func(text string) string {
		payload, _, err := rings[0].Open(keyring.TypeApproval, text, approval.MaxStatement, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return keyring.Generate().Sign(keyring.TypeApproval, payload)
	}
	return s
}

// TestLearnKeysForApprovals: an approval whose key is not known yet is held
// against the keys that there are now, whether a host brings it or it is kept
// here. Where nobody can say which keys there are, it is nobody's agreement, and
// what a host brings denies.
func TestLearnKeysForApprovals(t *testing.T) {
	for name, c := range map[string]struct {
		known, learns, alone bool
		fault                error
		brought, kept        writ.Code
		asked                int
	}{
		"known":              {known: true, brought: writ.CodeAllow, kept: writ.CodeAllow},
		"learnt":             {learns: true, brought: writ.CodeAllow, kept: writ.CodeAllow, asked: 1},
		"nobody's":           {brought: writ.CodeApprovalInvalid, kept: writ.CodeApprovalRequired, asked: 1},
		"nobody can say":     {fault: errors.New("away"), brought: writ.CodeSnapshotStale, kept: writ.CodeApprovalRequired, asked: 1},
		"nobody to be asked": {alone: true, brought: writ.CodeApprovalInvalid, kept: writ.CodeApprovalRequired},
	} {
		for _, brought := range []bool{true, false} {
			way, want := "kept", c.kept
			if brought {
				way, want = "brought", c.brought
			}
			t.Run(name+"/"+way, func(t *testing.T) {
				atDesk(t, func(t *testing.T, d *desk) {
					s := strangers(t, d, c.alone, brought)
					if c.known {
						if err := s.trust(); err != nil {
							t.Fatal(err)
						}
					}
					s.learn = func() error {
						if c.learns {
							return s.trust()
						}
						return c.fault
					}
					d.pdp = s.first
					p := d.proposal(above)
					_, ticket := d.asked(p)
					signed := d.approve(d.statement(p, ticket, "ann")).Approval()
					if brought {
						p.SignedApprovals = []string{signed}
					}
					d.pdp = s.second
					a := d.decide(p)
					if a.Decision().Code != want || a.Allowed() != (want == writ.CodeAllow) || (a.Grant().Token != "") != a.Allowed() || s.asked != c.asked {
						t.Errorf("%+v, want %s; asked %d times, want %d", a.Decision(), want, s.asked, c.asked)
					}
					if e, err := s.second.Explain(t.Context(), d.world.LocalOperator, "ap-host", p, ""); err != nil || e.Decision.Code != want {
						t.Errorf("explained: %s, %v, want %s", e.Decision.Code, err, want)
					}
				})
			})
		}
	}
}

// TestStrangersAskOnce: whatever a host brings, one call asks for keys once; and
// what no key can have signed asks nobody.
func TestStrangersAskOnce(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		s := strangers(t, d, false, true)
		d.pdp = s.first
		p := d.proposal(above)
		_, ticket := d.asked(p)
		signed := d.approve(d.statement(p, ticket, "ann")).Approval()
		d.pdp = s.second
		bring := func(approvals ...string) pdp.Item {
			q := *p
			q.SignedApprovals = approvals
			return pdp.Item{Proposal: &q}
		}
		var hostile []string
		for range 16 {
			hostile = append(hostile, s.sign(signed))
		}
		batch := func(want int, codes []writ.Code, items ...pdp.Item) {
			t.Helper()
			s.asked = 0
			answers, err := s.second.DecideBatch(t.Context(), d.host(), items, pdp.Ask{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range answers {
				if got := answers[i].Decision(); got.Code != codes[i] || got.Outcome == writ.Allow {
					t.Errorf("%d: %+v, want %s", i, got, codes[i])
				}
			}
			if s.asked != want {
				t.Errorf("asked %d times, want %d", s.asked, want)
			}
		}
		const invalid, stale, required = writ.CodeApprovalInvalid, writ.CodeSnapshotStale, writ.CodeApprovalRequired
		batch(1, []writ.Code{invalid, invalid, required}, bring(hostile...), bring(hostile[8:]...), bring())
		s.learn = func() error { return errors.New("away") }
		batch(1, []writ.Code{stale, stale, required}, bring(hostile[0]), bring(hostile[1]), bring())
		if err := s.trust(); err != nil {
			t.Fatal(err)
		}
		batch(0, []writ.Code{invalid, invalid, invalid}, bring(signed[:len(signed)-8]+"AAAAAAAA"), bring("a.b.c"), bring(d.granted(d.proposal(small)).Token))
	})
}

// unreviewed is the world in which nobody is asked to agree to anything.
func unreviewed(d *desk) *snapshot.Snapshot {
	d.t.Helper()
	note := regexp.MustCompile(`@review\("\d"\)`)
	_, files := payable()
	files = slices.Clone(files)
	for i := range files {
		files[i].Data = note.ReplaceAll(files[i].Data, []byte(`@code("TOO_MUCH")`))
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		d.t.Fatal(faults)
	}
	return b.Snapshot.At("test", 2, d.world.Revocations)
}

// TestRejectionReachesGrants: a grant that people's agreement has brought is
// refused once somebody has rejected their review, also by a replica that has
// not minted it; one that rests on no approval is not.
func TestRejectionReachesGrants(t *testing.T) {
	reject := func(d *desk, p *writ.Proposal, ticket pdp.Ticket) {
		d.t.Helper()
		if r, err := d.pdp.Reject(d.t.Context(), d.desk(), d.statement(p, ticket, "max")); err != nil || r.Decision().Code != writ.CodeAllow {
			d.t.Fatalf("%+v, %v", r.Decision(), err)
		}
	}
	for name, c := range map[string]struct {
		scenario  string
		before    func(d *desk, s *stranger, p *writ.Proposal) // before people agree
		after     func(d *desk, s *stranger, p *writ.Proposal, ticket pdp.Ticket)
		want      writ.Code
		elsewhere writ.Code // if it is another
		why       string
	}{
		"nothing":  {scenario: above, want: writ.CodeRedeemed},
		"rejected": {scenario: above, after: func(d *desk, _ *stranger, p *writ.Proposal, ticket pdp.Ticket) { reject(d, p, ticket) }, want: writ.CodeGrantRevoked, why: "has rejected the call's review"},
		"rejected while it is claimed": {scenario: above, after: func(d *desk, s *stranger, p *writ.Proposal, ticket pdp.Ticket) {
			s.reviews.then = func() { reject(d, p, ticket) }
		}, want: writ.CodeGrantRevoked, why: "has rejected the call's review"},
		"another's review is": {scenario: above, after: func(d *desk, _ *stranger, _ *writ.Proposal, _ pdp.Ticket) {
			q := d.proposal(above)
			_, ticket := d.asked(q)
			d.approve(d.statement(q, ticket, "ann"))
			reject(d, q, ticket)
		}, want: writ.CodeRedeemed},
		"it was, in another world": {scenario: above, before: func(d *desk, _ *stranger, p *writ.Proposal) {
			_, ticket := d.asked(p)
			d.approve(d.statement(p, ticket, "ann"))
			reject(d, p, ticket)
			time.Sleep(61 * time.Second)
			d.rebuild("entities/suppliers.json", func(s string) string {
				return strings.NewReplacer("150000.00", "150001.00", "20000.00", "20001.00").Replace(s)
			})
		}, want: writ.CodeRedeemed},
		"nobody can say": {scenario: above, after: func(_ *desk, s *stranger, _ *writ.Proposal, _ pdp.Ticket) { s.reviews.away = errors.New("away") },
			want: writ.CodeSnapshotStale, why: "could not be asked"},
		"nobody was asked": {scenario: small, after: func(_ *desk, s *stranger, _ *writ.Proposal, _ pdp.Ticket) { s.reviews.away = errors.New("away") },
			want: writ.CodeRedeemed, elsewhere: writ.CodeSnapshotStale},
		"nobody is ever asked": {scenario: small, before: func(d *desk, s *stranger, _ *writ.Proposal) {
			d.put(unreviewed(d))
			s.reviews.away = errors.New("away")
		}, want: writ.CodeRedeemed},
	} {
		for _, minted := range []bool{true, false} {
			way := "elsewhere"
			if minted {
				way = "here"
			}
			t.Run(name+"/"+way, func(t *testing.T) {
				atDesk(t, func(t *testing.T, d *desk) {
					s := strangers(t, d, true, false)
					if err := s.trust(); err != nil {
						t.Fatal(err)
					}
					d.pdp = s.first
					p := d.proposal(c.scenario)
					if c.before != nil {
						c.before(d, s, p)
					}
					var ticket pdp.Ticket
					if c.scenario == above {
						_, ticket = d.asked(p)
						if r := d.approve(d.statement(p, ticket, "ann")); r.Approval() == "" {
							t.Fatalf("%+v", r.Decision())
						}
					}
					g := d.granted(p)
					if c.after != nil {
						c.after(d, s, p, ticket)
					}
					want := c.want
					if !minted {
						d.pdp, want = s.second, cmp.Or(c.elsewhere, want)
					}
					s.reviews.asked = 0
					got := d.redeem(redemption(g, p))
					if got.Decision().Code != want || got.MayAct() != (want == writ.CodeRedeemed) || !strings.Contains(got.Decision().Explanation, c.why) {
						t.Errorf("%+v, want %s", got.Decision(), want)
					}
					// Before the claim, and once more after it.
					if most := 2 * len(ticket.ID) / 26; minted && got.MayAct() && s.reviews.asked != most || s.reviews.asked > 2 {
						t.Errorf("the reviews were asked %d times", s.reviews.asked)
					}
				})
			})
		}
	}
}
