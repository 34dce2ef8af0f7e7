package pdp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// behind is a ledger that knows of revocations before the world does.
type behind struct {
	grant.Ledger
	claims    int
	overtake  int    // how many claims are overtaken
	meanwhile func() // at each of them
	fail      error
}

func (b *behind) Claim(ctx context.Context, c grant.Claim) (grant.Standing, error) {
	b.claims++
	if b.fail != nil {
		return grant.Unknown, b.fail
	}
	if b.claims <= b.overtake {
		if b.meanwhile != nil {
			b.meanwhile()
		}
		return grant.Overtaken, nil
	}
	return b.Ledger.Claim(ctx, c)
}

func overtaken(t *testing.T, d *desk, b *behind) *pdp.PDP {
	t.Helper()
	memory, err := grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return d.world.Revocations.Sequence() }})
	if err != nil {
		t.Fatal(err)
	}
	b.Ledger = memory
	reviews, err := approval.NewMemory(approval.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keyring.New(keyring.Config{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p, err := pdp.New(pdp.Config{Snapshots: d.holder, Log: d.log, Keys: keys, Ledger: b, Reviews: reviews})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOvertaken: what was revoked between the judgement and the claim is judged
// again, in the world that has it; where that does not arrive, nothing is
// redeemed.
func TestOvertaken(t *testing.T) {
	tool := revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment"}
	other := revocation.Entry{Kind: revocation.Tool, ID: "x/y"}
	for name, c := range map[string]struct {
		times   int
		revoked *revocation.Entry
		want    writ.Code
	}{
		"something else": {1, &other, writ.CodeRedeemed},
		"the tool":       {1, &tool, writ.CodeGrantRevoked},
		"late":           {3, nil, writ.CodeRedeemed},
		"never":          {1000, nil, writ.CodeSnapshotStale},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				b := &behind{overtake: c.times}
				if c.revoked != nil {
					b.meanwhile = func() { d.revoke(*c.revoked) }
				}
				d.pdp = overtaken(t, d, b)
				p := d.proposal(small)
				g := d.granted(p)
				before := len(d.log.records)
				a := d.redeem(redemption(g, p))
				if a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Errorf("%+v, want %s", a.Decision(), c.want)
				}
				if n := len(d.log.records) - before; n != 1 {
					t.Errorf("%d records of one answer", n)
				}
			})
		})
	}
}

// TestLedgerFails: what the ledger can't answer is not redeemed.
func TestLedgerFails(t *testing.T) {
	for name, fail := range map[string]error{"full": grant.ErrFull, "unreachable": errors.New("no leader"), "late": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				b := &behind{fail: fail}
				d.pdp = overtaken(t, d, b)
				p := d.proposal(small)
				r := redemption(d.granted(p), p)
				if a := d.redeem(r); a.MayAct() || a.Decision().Code != writ.CodeAuditUnavailable {
					t.Errorf("%+v", a.Decision())
				}
				b.fail = nil
				if a := d.redeem(r); !a.MayAct() {
					t.Errorf("afterwards: %+v", a.Decision())
				}
			})
		})
	}
}
