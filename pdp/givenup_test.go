package pdp_test

import (
	"context"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
)

// impatient is a log that records nothing for whoever has given up, and at which
// something may happen first.
type impatient struct {
	memory
	before func()
}

func (i *impatient) Append(ctx context.Context, r audit.Record, durable bool) error {
	if i.before != nil {
		i.before()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return i.memory.Append(ctx, r, durable)
}

// impatiently gives the desk a PDP with such a log, and a faulty ledger.
func impatiently(d *desk) (*faulty, *impatient) {
	d.t.Helper()
	f, log := withFaulty(d), &impatient{}
	keys, err := keyring.New(keyring.Config{}, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	if d.pdp, err = pdp.New(pdp.Config{Snapshots: d.holder, Log: log, Keys: keys, Ledger: f, Reviews: f}); err != nil {
		d.t.Fatal(err)
	}
	return f, log
}

// TestGivenUpRedeeming: whoever gives up at any point of a redemption is not let
// act; nothing is forgotten of what was claimed, and the attempt that is made
// again, and no other, is let act with a record of its own.
func TestGivenUpRedeeming(t *testing.T) {
	for name, c := range map[string]struct {
		at      func(d *desk, f *faulty, log *impatient, give func())
		claimed bool
		fails   bool // there is no answer at all
	}{
		"before it is claimed": {func(_ *desk, f *faulty, _ *impatient, give func()) {
			f.claim = func(grant.Claim) (grant.Standing, error, bool) { give(); return 0, nil, false }
		}, false, false},
		"after it is claimed": {func(d *desk, f *faulty, _ *impatient, give func()) {
			f.claim = func(c grant.Claim) (grant.Standing, error, bool) {
				s, err := f.Ledger.Claim(d.t.Context(), c)
				give()
				return s, err, true
			}
		}, true, false},
		"and the ledger does not know": {func(d *desk, f *faulty, _ *impatient, give func()) {
			f.claim = func(c grant.Claim) (grant.Standing, error, bool) {
				_, _ = f.Ledger.Claim(d.t.Context(), c)
				give()
				return grant.Unknown, context.Canceled, true
			}
		}, true, false},
		"while it is recorded": {func(_ *desk, _ *faulty, log *impatient, give func()) { log.before = give }, true, false},
		"while it is judged again": {func(_ *desk, f *faulty, _ *impatient, give func()) {
			f.claim = func(grant.Claim) (grant.Standing, error, bool) { give(); return grant.Overtaken, nil, true }
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				f, log := impatiently(d)
				p := d.proposal(small)
				g := d.granted(p)
				r := redemption(g, p)
				ctx, give := context.WithCancel(t.Context())
				c.at(d, f, log, give)
				before := len(log.records)
				a, err := d.pdp.Redeem(ctx, d.payments(), r)
				if a.MayAct() || (err != nil) != c.fails || err == nil && a.Decision().Code != writ.CodeAuditUnavailable || len(log.records) != before {
					t.Fatalf("given up: %+v, %v, %d records", a.Decision(), err, len(log.records)-before)
				}
				f.claim, log.before = nil, nil
				if c.claimed {
					if a := d.redeem(redemption(g, p)); a.Decision().Code != writ.CodeGrantAlreadyUsed {
						t.Errorf("another attempt: %+v", a.Decision())
					}
				}
				again := d.redeem(r)
				if !again.MayAct() || again.Repeated() != c.claimed {
					t.Fatalf("the same attempt: %+v, repeated %t", again.Decision(), again.Repeated())
				}
				last := log.records[len(log.records)-1]
				if last.Code != writ.CodeRedeemed || !log.durable[len(log.durable)-1] || last.ID != again.ID() && last.Redemption != again.ID() {
					t.Errorf("recorded as %+v", last)
				}
				if a := d.redeem(redemption(g, p)); a.Decision().Code != writ.CodeGrantAlreadyUsed {
					t.Errorf("another attempt: %+v", a.Decision())
				}
			})
		})
	}
}

// TestGivenUpVerifying: a receipt whose sender gave up verifies nothing then, and
// the same thing afterwards.
func TestGivenUpVerifying(t *testing.T) {
	for name, at := range map[string]func(d *desk, f *faulty, log *impatient, give func()){
		"before it is settled": func(_ *desk, f *faulty, _ *impatient, give func()) {
			f.settle = func() (grant.Standing, error, bool) { give(); return 0, nil, false }
		},
		"while it is recorded": func(_ *desk, _ *faulty, log *impatient, give func()) { log.before = give },
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				f, log := impatiently(d)
				_, r := d.paid(d.proposal(small))
				ctx, give := context.WithCancel(t.Context())
				at(d, f, log, give)
				before := len(log.records)
				v, err := d.pdp.VerifyEffect(ctx, d.payments(), r)
				if err != nil || v.Decision().Code != writ.CodeAuditUnavailable || v.Results() != nil || len(log.records) != before {
					t.Fatalf("given up: %+v, %v", v, err)
				}
				f.settle, log.before = nil, nil
				if v := d.verify(r); v.Decision().Code != writ.CodeEffectVerified {
					t.Errorf("the same receipt: %+v", v.Decision())
				}
				other := *r
				other.EffectID += "x"
				if v := d.verify(&other); v.Decision().Code != writ.CodeReceiptMismatch {
					t.Errorf("another effect: %+v", v.Decision())
				}
				other.Status = effect.StatusAbsent
				other.EffectID, other.ObservedJSON = "", nil
				if v := d.verify(&other); v.Decision().Code != writ.CodeReceiptMismatch || !v.Retry().Retries.IsZero() {
					t.Errorf("nothing there after all: %+v", v)
				}
			})
		})
	}
}

// TestRoomIsGivenBack: of a grant that was never given, nothing is remembered,
// whatever kept it from being given.
func TestRoomIsGivenBack(t *testing.T) {
	for name, at := range map[string]func(give func()){
		"given up":  func(give func()) { give() },
		"a mistake": func(func()) { panic("a mistake") },
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				_, log := impatiently(d)
				ctx, give := context.WithCancel(t.Context())
				defer give()
				log.before = func() { at(give) }
				p := d.proposal(small)
				items := []pdp.Item{{Proposal: p}, {Proposal: d.proposal(small)}, {Proposal: p}}
				func() {
					defer func() { _ = recover() }()
					if answers, err := d.pdp.DecideBatch(ctx, d.host(), items, pdp.Ask{}); err == nil {
						for i, a := range answers {
							if a.Allowed() || a.Grant() != (pdp.Grant{}) || a.Decision().Code != writ.CodeAuditUnavailable {
								t.Errorf("%d: %+v", i, a)
							}
						}
					}
				}()
				func() {
					defer func() { _ = recover() }()
					if a, err := d.pdp.Decide(ctx, d.host(), p, pdp.Ask{}); err == nil {
						t.Errorf("%+v", a)
					}
				}()
				if n := d.pdp.Remembered(); n != 0 {
					t.Errorf("%d bytes are remembered of grants that were not given", n)
				}
				log.before = nil
				g := d.granted(p)
				if n := d.pdp.Remembered(); n == 0 || !d.redeem(redemption(g, p)).MayAct() {
					t.Errorf("%d bytes are remembered", n)
				}
			})
		})
	}
}
