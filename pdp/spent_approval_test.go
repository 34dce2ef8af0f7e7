package pdp_test

import (
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
)

// TestApprovalIsSpentOnce: a proposal that people have agreed to is redeemed
// once for as long as their word counts, however short the ledger's memory is.
func TestApprovalIsSpentOnce(t *testing.T) {
	for _, elsewhere := range []bool{false, true} { // redeemed by who has not minted the grant
		atDesk(t, func(t *testing.T, d *desk) {
			keys, err := keyring.New(keyring.Config{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ledger, err := grant.NewMemory(grant.MemoryConfig{Retention: time.Minute, Revocations: func() uint64 { return d.holder.Load().Revocations.Sequence() }})
			if err != nil {
				t.Fatal(err)
			}
			reviews, err := approval.NewMemory(approval.MemoryConfig{})
			if err != nil {
				t.Fatal(err)
			}
			var both [2]*pdp.PDP
			for i := range both {
				if both[i], err = pdp.New(pdp.Config{
					Snapshots: d.holder, Log: d.log, Keys: keys, Ledger: ledger, Reviews: reviews, Shared: true, ApprovalLifetime: 2 * time.Hour,
				}); err != nil {
					t.Fatal(err)
				}
			}
			redeem := func(g pdp.Grant, p *writ.Proposal) pdp.Redeemed {
				d.pdp = both[0]
				if elsewhere {
					d.pdp = both[1]
				}
				defer func() { d.pdp = both[0] }()
				return d.redeem(redemption(g, p))
			}
			d.pdp = both[0]
			p := d.lasting(above)
			_, ticket := d.asked(p)
			d.approve(d.statement(p, ticket, "ann"))
			if a := redeem(d.granted(p), p); !a.MayAct() {
				t.Fatalf("%+v", a.Decision())
			}
			for _, after := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 2*time.Hour - time.Minute} {
				time.Sleep(time.Until(monday.Add(after)))
				if a := redeem(d.granted(p), p); a.Decision().Code != writ.CodeGrantAlreadyUsed {
					t.Errorf("elsewhere %t, after %v: %+v", elsewhere, after, a.Decision())
				}
				d.paid(d.lasting(small)) // something else, at which the ledger forgets what is due
			}
			time.Sleep(2 * time.Minute)
			d.asked(p) // nobody's word counts any more
		})
	}
}
