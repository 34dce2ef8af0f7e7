package pdp_test

import (
	"maps"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// TestObserverWithdrawn: the word of an observer that is revoked, or whose
// registration is over, verifies nothing, and fails nothing, since both are for
// good. What else is revoked meanwhile takes nothing from what was seen.
func TestObserverWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *desk)
		want   writ.Code
	}{
		"the observer's caller": {func(d *desk) { d.revoke(revocation.Entry{Kind: revocation.Caller, ID: "payments"}) }, writ.CodeReceiptMismatch},
		"the observer":          {func(d *desk) { d.revoke(revocation.Entry{Kind: revocation.Server, ID: "payments"}) }, writ.CodeReceiptMismatch},
		"the observer, from just now on": {func(d *desk) {
			d.revoke(revocation.Entry{Kind: revocation.Server, ID: "payments", From: time.Now().Add(time.Second)})
			time.Sleep(time.Second)
		}, writ.CodeReceiptMismatch},
		"the observer, from later on": {func(d *desk) {
			d.revoke(revocation.Entry{Kind: revocation.Server, ID: "payments", From: time.Now().Add(time.Second)})
		}, writ.CodeEffectVerified},
		"its registration is over": {func(d *desk) { d.put(ended(d, "payments")) }, writ.CodeReceiptMismatch},
		"it is not in the bundle":  {func(d *desk) { d.put(withoutServer(d, "payments")) }, writ.CodeReceiptMismatch},
		"who proposed":             {func(d *desk) { d.revoke(revocation.Entry{Kind: revocation.Caller, ID: "ap-host"}) }, writ.CodeEffectVerified},
		"the tool that acted":      {func(d *desk) { d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment"}) }, writ.CodeEffectVerified},
		"another server":           {func(d *desk) { d.revoke(revocation.Entry{Kind: revocation.Server, ID: "invoices"}) }, writ.CodeEffectVerified},
		"the observer, and let again": {func(d *desk) {
			d.revoke(revocation.Entry{Kind: revocation.Server, ID: "payments"})
			d.revoke(revocation.Entry{Kind: revocation.Server, ID: "payments", Lift: true})
		}, writ.CodeEffectVerified},
	} {
		t.Run(name, func(t *testing.T) {
			for _, told := range []writ.Code{writ.CodeEffectVerified, writ.CodePostconditionFailed} {
				atDesk(t, func(t *testing.T, d *desk) {
					before, payments := d.world, d.payments()
					_, r := d.paid(d.proposal(small))
					good := *r
					if told == writ.CodePostconditionFailed {
						r.ObservedJSON = []byte(`{}`)
					}
					c.change(d)
					want := c.want
					if want == writ.CodeEffectVerified {
						want = told
					}
					v, err := d.pdp.VerifyEffect(t.Context(), payments, r)
					if err != nil || v.Decision().Code != want || (v.Decision().Outcome == writ.Allow) != (want == writ.CodeEffectVerified) {
						t.Fatalf("%+v, %v, want %s", v.Decision(), err, want)
					}
					if kind, code, _ := d.last(); kind != "effect" || code != want {
						t.Errorf("recorded %s %s", kind, code)
					}
					if c.want != writ.CodeReceiptMismatch {
						return
					}
					d.put(before.At("test", 9, &revocation.View{})) // whatever it was is over
					if v := d.verify(&good); v.Decision().Code != writ.CodeEffectVerified {
						t.Errorf("something was settled: %+v", v.Decision())
					}
				})
			}
		})
	}
}

// TestObserverOfStaleWorld: nothing is settled in a world in which the observer
// may have been revoked without anybody here having heard.
func TestObserverOfStaleWorld(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		var err error
		if d.pdp, err = pdp.New(pdp.Config{Snapshots: d.holder, Log: d.log, MaxStaleness: time.Minute}); err != nil {
			t.Fatal(err)
		}
		d.holder.Heard(time.Now())
		_, r := d.paid(d.proposal(small))
		time.Sleep(time.Minute + 1)
		if v := d.verify(r); v.Decision().Code != writ.CodeSnapshotStale || v.Decision().Outcome != writ.Deny || v.Results() != nil {
			t.Errorf("%+v", v.Decision())
		}
		d.holder.Heard(time.Now())
		if v := d.verify(r); v.Decision().Code != writ.CodeEffectVerified {
			t.Errorf("and when it is heard again: %+v", v.Decision())
		}
	})
}

// ended is the world in which a server's registration ends now.
func ended(d *desk, id string) *snapshot.Snapshot {
	world := *d.world
	world.Servers = maps.Clone(world.Servers)
	server := *world.Servers[id]
	server.Valid = &contract.Window{Until: time.Now()}
	world.Servers[id] = &server
	return world.At("test", 2, world.Revocations)
}

// withoutServer is the world without a server.
func withoutServer(d *desk, id string) *snapshot.Snapshot {
	world := *d.world
	world.Servers = maps.Clone(world.Servers)
	delete(world.Servers, id)
	return world.At("test", 2, world.Revocations)
}
