package pdp_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// payable is the bundle of examples/accounts-payable, with its files; its host
// vouches for tokens, so that tests need not sign any.
var payable = sync.OnceValues(func() (*bundle.Bundle, []bundle.File) {
	files, err := bundle.ReadDir("../examples/accounts-payable")
	if err != nil {
		panic(err)
	}
	for i := range files {
		if files[i].Name == "callers.yaml" {
			files[i].Data = bytes.Replace(files[i].Data, []byte("[user, document"), []byte("[token, user, document"), 1)
			files[i].Data = bytes.Replace(files[i].Data, []byte("/review-desk\"}"), []byte("/review-desk\", vouches_for: [token]}"), 1)
		}
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		panic(faults)
	}
	return b, files
})

// monday is a working hour.
var monday = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// desk is a PDP over accounts payable, with a clock that stands still but for
// what a test sleeps.
type desk struct {
	t      *testing.T
	world  *snapshot.Snapshot
	holder *snapshot.Holder
	log    *memory
	pdp    *pdp.PDP
	cases  []bundle.Scenario
	count  int
}

func atDesk(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Helper()
	b, _ := payable()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(monday))
		d := &desk{t: t, log: &memory{}, cases: b.Scenarios, holder: &snapshot.Holder{}}
		d.put(b.Snapshot.At("test", 1, &revocation.View{}))
		d.pdp = newPDP(t, d.log, d.holder)
		test(t, d)
	})
}

// put puts a world in force.
func (d *desk) put(world *snapshot.Snapshot) {
	d.world = world
	d.holder.Store(world)
}

// revoke puts a world in force that differs by revocations.
func (d *desk) revoke(entries ...revocation.Entry) {
	d.t.Helper()
	view, err := d.world.Revocations.With(entries)
	if err != nil {
		d.t.Fatal(err)
	}
	d.put(d.world.At("test", 1, view))
}

// rebuild puts a world in force in which one file's text is another.
func (d *desk) rebuild(name string, edit func(text string) string) {
	d.t.Helper()
	before, files := payable()
	changed := make([]bundle.File, len(files))
	found := false
	for i, f := range files {
		if f.Name == name {
			text := edit(string(f.Data))
			found = text != string(f.Data)
			f.Data = []byte(text)
		}
		changed[i] = f
	}
	b, faults := bundle.Build(changed, before)
	if b == nil || !found {
		d.t.Fatal(found, faults)
	}
	d.put(b.Snapshot.At("test", 2, d.world.Revocations))
}

// proposal is that of a scenario, as of now, with a request id of its own.
func (d *desk) proposal(name string) *writ.Proposal {
	d.t.Helper()
	for i := range d.cases {
		if d.cases[i].Name == name {
			s := d.cases[i].At(time.Now())
			d.count++
			p := s.Proposal
			p.RequestID = fmt.Sprintf("%s-%d", p.RequestID, d.count)
			p.Approvals = nil
			return &p
		}
	}
	d.t.Fatalf("there is no scenario %q", name)
	return nil
}

func (d *desk) host() *writ.Caller     { return d.world.Callers["ap-host"] }
func (d *desk) payments() *writ.Caller { return d.world.Callers["payments"] }

// decide asks as the host.
func (d *desk) decide(p *writ.Proposal) pdp.Answer {
	d.t.Helper()
	a, err := d.pdp.Decide(d.t.Context(), d.host(), p, pdp.Ask{})
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// granted is a decision that must bring a grant.
func (d *desk) granted(p *writ.Proposal) pdp.Grant {
	d.t.Helper()
	a := d.decide(p)
	if a.Decision().Code != writ.CodeAllow || a.Grant().Token == "" {
		d.t.Fatalf("%+v: grant %+v", a.Decision(), a.Grant())
	}
	return a.Grant()
}

// redemption is the call as an honest server sees it.
func redemption(g pdp.Grant, p *writ.Proposal) *pdp.Redemption {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return &pdp.Redemption{
		Grant: g.Token, Server: p.Server.ID, Tool: p.Tool, ArgumentsJSON: p.ArgumentsJSON, ExtraParamsJSON: p.ExtraParamsJSON,
		Principal: p.Principal, Attempt: base64.RawURLEncoding.EncodeToString(id[:]),
	}
}

// redeem redeems as the payment server.
func (d *desk) redeem(r *pdp.Redemption) pdp.Redeemed {
	d.t.Helper()
	a, err := d.pdp.Redeem(d.t.Context(), d.payments(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// last is the newest record.
func (d *desk) last() (kind string, code writ.Code, durable bool) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	n := len(d.log.records) - 1
	return string(d.log.records[n].Kind), d.log.records[n].Code, d.log.durable[n]
}
