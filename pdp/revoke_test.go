package pdp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/examples"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// revocations is a revocation log in memory that puts in force what it takes,
// and that can fail.
type revocations struct {
	h    *snapshot.Holder
	b    *bundle.Bundle
	fail error
	hold bool // take entries, and put nothing in force

	mu   sync.Mutex
	view *revocation.View // guarded by mu
}

func (l *revocations) Append(_ context.Context, entries []revocation.Entry) ([]revocation.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return nil, l.fail
	}
	next, err := l.view.With(entries)
	if err != nil {
		return nil, err
	}
	added := slices.Collect(next.Entries(l.view.Sequence()))
	l.view = next
	if !l.hold && l.b != nil {
		l.h.Store(l.b.Snapshot.At("test", 1, next))
	}
	return added, nil
}

// revoking is a PDP with such a log.
func revoking(t *testing.T, b *bundle.Bundle, log *memory) (*pdp.PDP, *revocations) {
	t.Helper()
	h := &snapshot.Holder{}
	l := &revocations{h: h, b: b}
	if b != nil {
		h.Store(b.Snapshot.At("test", 1, nil))
	}
	p, err := pdp.New(pdp.Config{Snapshots: h, Log: log, Revocations: l})
	if err != nil {
		t.Fatal(err)
	}
	return p, l
}

var someone = &writ.Caller{Name: "op", Roles: []writ.Role{writ.RoleOperator}}

// TestRevoke: what is revoked is in force and recorded when Revoke returns,
// by whoever said so.
func TestRevoke(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p, _ := revoking(t, b, log)
	s := named(t, b, "small allowlisted payment")
	caller := b.Snapshot.Callers[s.Caller]
	until := time.Now().Add(time.Hour).UTC().Round(0)
	added, revision, err := p.Revoke(t.Context(), someone, []revocation.Entry{
		{Kind: revocation.Server, ID: "elsewhere", Reason: "closed", Author: "ann"},
		{Kind: revocation.Principal, Issuer: s.Proposal.Principal.Issuer, ID: s.Proposal.Principal.Subject, Reason: "left", Until: until, IssuedBefore: until},
	})
	if err != nil || len(added) != 2 || added[0].Sequence != 1 || added[1].Sequence != 2 || added[0].Author != "op for ann" || added[1].Author != "op" {
		t.Fatalf("%+v, %v", added, err)
	}
	a, err := p.Decide(t.Context(), caller, &s.Proposal, pdp.Ask{AtLeastAsFresh: revision})
	if err != nil || a.Decision().Code != writ.CodePrincipalRevoked || a.Decision().Revision != revision {
		t.Errorf("%+v, %v", a.Decision(), err)
	}
	if len(log.records) != 3 || log.durable[0] || !log.durable[1] {
		t.Fatalf("%d records, durable %v", len(log.records), log.durable)
	}
	want := audit.Revoked{
		Sequence: 2, Kind: "principal", Issuer: s.Proposal.Principal.Issuer, ID: s.Proposal.Principal.Subject,
		Until: until, IssuedBefore: until, Reason: "left", Author: "op",
	}
	if r := log.records[1]; r.Kind != audit.KindRevocation || r.Caller != "op" || r.Revision != revision || r.Revoked == nil || *r.Revoked != want {
		t.Errorf("recorded %+v", r)
	}
	view, _, _ := p.Revocations()
	if view.Sequence() != 2 {
		t.Errorf("the view is at %d", view.Sequence())
	}
}

// TestRevokeFails: what goes wrong before the log has taken it revokes
// nothing; what goes wrong afterwards undoes nothing, and is told as that.
func TestRevokeFails(t *testing.T) {
	b := lab(t)
	entry := []revocation.Entry{{Kind: revocation.Server, ID: "payments", Reason: "r"}}
	inForce := func(p *pdp.PDP) bool {
		view, now, _ := p.Revocations()
		_, is := view.Revoked(revocation.Server, "", "payments", time.Time{}, now)
		return is
	}
	t.Run("no log", func(t *testing.T) {
		p := newPDP(t, &memory{}, holding(b.Snapshot))
		if _, _, err := p.Revoke(t.Context(), someone, entry); !errors.Is(err, pdp.ErrNoRevocationLog) {
			t.Error(err)
		}
	})
	t.Run("nobody, nothing", func(t *testing.T) {
		p, l := revoking(t, b, &memory{})
		if _, _, err := p.Revoke(t.Context(), nil, entry); err == nil {
			t.Error("nobody revokes")
		}
		if _, _, err := p.Revoke(t.Context(), someone, nil); err == nil {
			t.Error("nothing is revoked")
		}
		if l.view != nil {
			t.Error("something is in the log")
		}
	})
	t.Run("the log fails", func(t *testing.T) {
		log := &memory{}
		p, l := revoking(t, b, log)
		l.fail = errors.New("disk full")
		if _, _, err := p.Revoke(t.Context(), someone, entry); !errors.Is(err, l.fail) || inForce(p) || len(log.records) != 0 {
			t.Errorf("%v, in force %t", err, inForce(p))
		}
	})
	t.Run("bad entries", func(t *testing.T) {
		p, _ := revoking(t, b, &memory{})
		_, _, err := p.Revoke(t.Context(), someone, []revocation.Entry{{Kind: revocation.Server, ID: "payments"}, {Kind: "x", ID: "y"}})
		if errs, ok := errors.AsType[revocation.Errors](err); !ok || errs[0].Index != 1 || inForce(p) {
			t.Errorf("%v, in force %t", err, inForce(p))
		}
	})
	t.Run("unrecorded", func(t *testing.T) {
		p, _ := revoking(t, b, &memory{fail: errors.New("disk full")})
		_, _, err := p.Revoke(t.Context(), someone, entry)
		if e, ok := errors.AsType[*pdp.UnsettledError](err); !ok || !e.InForce || len(e.Entries) != 1 || !inForce(p) {
			t.Errorf("%v, in force %t", err, inForce(p))
		}
	})
	t.Run("not in force yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log := &memory{}
			p, l := revoking(t, b, log)
			l.hold = true
			_, _, err := p.Revoke(t.Context(), someone, entry)
			if e, ok := errors.AsType[*pdp.UnsettledError](err); !ok || e.InForce || len(log.records) != 1 {
				t.Errorf("%v, %d records", err, len(log.records))
			}
		})
	})
	t.Run("who asked has gone", func(t *testing.T) {
		log := &memory{}
		p, l := revoking(t, b, log)
		ctx, cancel := context.WithCancel(t.Context())
		p2, err := pdp.New(pdp.Config{Snapshots: l.h, Log: log, Revocations: leaving{l, cancel}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p2.Revoke(ctx, someone, entry); err != nil || !inForce(p) || len(log.records) != 1 {
			t.Errorf("%v, in force %t, %d records", err, inForce(p), len(log.records))
		}
	})
	t.Run("who asks goes while the log takes it", func(t *testing.T) {
		log := &memory{}
		p, l := revoking(t, b, log)
		ctx, cancel := context.WithCancel(t.Context())
		p2, err := pdp.New(pdp.Config{Snapshots: l.h, Log: log, Revocations: left{l, cancel}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p2.Revoke(ctx, someone, entry); err != nil || !inForce(p) || len(log.records) != 1 {
			t.Errorf("%v, in force %t, %d records", err, inForce(p), len(log.records))
		}
		if _, _, err := p2.Revoke(ctx, someone, entry); !errors.Is(err, context.Canceled) || len(log.records) != 1 {
			t.Errorf("of somebody who has gone before: %v, %d records", err, len(log.records))
		}
	})
	t.Run("without a bundle", func(t *testing.T) {
		log := &memory{}
		p, l := revoking(t, nil, log)
		if _, revision, err := p.Revoke(t.Context(), someone, entry); err != nil || revision != "" || l.view.Sequence() != 1 || len(log.records) != 1 {
			t.Errorf("%q, %v", revision, err)
		}
		if view, _, _ := p.Revocations(); view != nil {
			t.Error("there is a view without a world")
		}
	})
}

// left takes the entries after its caller's context has ended, as a disk may: it
// says that it doesn't know, to who asks it to give up then.
type left struct {
	*revocations
	cancel context.CancelFunc
}

func (l left) Append(ctx context.Context, entries []revocation.Entry) ([]revocation.Entry, error) {
	l.cancel()
	added, err := l.revocations.Append(ctx, entries)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("nothing ever ends this")
	}
	return added, err
}

// leaving ends its caller's context once the log has taken the entries.
type leaving struct {
	*revocations
	cancel context.CancelFunc
}

func (l leaving) Append(ctx context.Context, entries []revocation.Entry) ([]revocation.Entry, error) {
	defer l.cancel()
	return l.revocations.Append(ctx, entries)
}

// TestRevokedBeforeItExists: what doesn't exist may be revoked, and is when it
// comes.
func TestRevokedBeforeItExists(t *testing.T) {
	b := lab(t)
	s := named(t, b, "small allowlisted payment")
	empty := &bundle.Bundle{Snapshot: &snapshot.Snapshot{Revision: b.Snapshot.Revision, Zone: time.UTC, Callers: b.Snapshot.Callers}}
	log := &memory{}
	p, l := revoking(t, empty, log)
	if _, _, err := p.Revoke(t.Context(), someone, []revocation.Entry{{Kind: revocation.Tool, ID: s.Proposal.Server.ID + "/" + s.Proposal.Tool, Reason: "not that one"}}); err != nil {
		t.Fatal(err)
	}
	l.h.Store(b.Snapshot.At("test", 2, l.view)) // now it comes
	a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
	if err != nil || a.Decision().Code != writ.CodeToolRevoked {
		t.Errorf("%+v, %v", a.Decision(), err)
	}
}

// TestRevokingNeverAllows: of all scenarios of all examples, no revocation
// ever turns a denial into anything else, nor a review into an ALLOW.
func TestRevokingNeverAllows(t *testing.T) {
	rank := map[writ.Outcome]int{writ.Deny: 0, writ.ReviewRequired: 1, writ.Allow: 2}
	bitten := map[writ.Code]int{}
	for name, fsys := range map[string]fs.FS{
		"hello": examples.Hello(), "lab": examples.Lab(), "filesystem": examples.Filesystem(), "github": examples.GitHub(), "accounts-payable": examples.AccountsPayable(),
	} {
		b := built(t, fsys)
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 31))
			for _, s := range b.Scenarios {
				s = s.At(time.Now())
				if s.Proposal.Token != nil { // so that it can be named
					token := *s.Proposal.Token
					token.ID, token.KeyID = "jti", "kid"
					s.Proposal.Token = &token
				}
				if s.Proposal.Intent != nil {
					intent := *s.Proposal.Intent
					intent.ID = "intent"
					s.Proposal.Intent = &intent
				}
				var log []revocation.Entry
				view := b.Snapshot.Revocations
				before := decideIn(b, view, &s)
				for range 1 + random.IntN(4) {
					e := randomRevocation(random, &s)
					log = append(log, e)
					next, err := view.With([]revocation.Entry{e})
					if err != nil {
						t.Fatalf("%+v: %v", e, err)
					}
					view = next
					after := decideIn(b, view, &s)
					if rank[after.Outcome] > rank[before.Outcome] {
						t.Fatalf("%s, %s: %s with %+v, %s without the last", name, s.Name, after.Code, log, before.Code)
					}
					if after.Code != before.Code {
						bitten[after.Code]++
					}
					before = after
				}
			}
		}
	}
	for _, code := range []writ.Code{
		writ.CodePrincipalRevoked, writ.CodeActorRevoked, writ.CodeCallerRevoked, writ.CodeIssuerRevoked, writ.CodeTokenRevoked,
		writ.CodeIntentRevoked, writ.CodeServerRevoked, writ.CodeToolRevoked,
	} {
		if bitten[code] == 0 {
			t.Errorf("no revocation led to %s: %v", code, bitten)
		}
	}
}

func built(t testing.TB, fsys fs.FS) *bundle.Bundle {
	t.Helper()
	var files []bundle.File
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, path)
		files = append(files, bundle.File{Name: path, Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	return b
}

// decideIn decides a scenario at its own time.
func decideIn(b *bundle.Bundle, view *revocation.View, s *bundle.Scenario) writ.Decision {
	return decide.Decide(b.Snapshot.At("test", 1, view), b.Snapshot.Callers[s.Caller], &s.Proposal, s.Now, nil)
}

// randomRevocation names something of the proposal, or nothing of it, at once
// or at some time, for everything or what was issued before.
func randomRevocation(random *rand.Rand, s *bundle.Scenario) revocation.Entry {
	p := &s.Proposal
	names := []revocation.Entry{
		{Kind: revocation.Principal, Issuer: p.Principal.Issuer, ID: p.Principal.Subject},
		{Kind: revocation.Issuer, ID: p.Principal.Issuer},
		{Kind: revocation.Caller, ID: s.Caller},
		{Kind: revocation.Server, ID: p.Server.ID},
		{Kind: revocation.Tool, ID: p.Server.ID + "/" + p.Tool},
		{Kind: revocation.Server, ID: "elsewhere"},
	}
	for i := range p.Actors {
		names = append(names, revocation.Entry{Kind: revocation.Actor, ID: p.Actors[i].Subject})
	}
	if p.Intent != nil {
		names = append(names, revocation.Entry{Kind: revocation.Intent, ID: p.Intent.ID})
	}
	if p.Token != nil && p.Token.ID != "" {
		names = append(names, revocation.Entry{Kind: revocation.Token, Issuer: p.Token.Issuer, ID: p.Token.ID})
	}
	if p.Token != nil && p.Token.KeyID != "" {
		names = append(names, revocation.Entry{Kind: revocation.Key, Issuer: p.Token.Issuer, ID: p.Token.KeyID})
	}
	names = slices.DeleteFunc(names, func(e revocation.Entry) bool { return e.ID == "" || e.ID == "/" })
	e := names[random.IntN(len(names))]
	now := s.Now
	switch random.IntN(4) {
	case 0:
		e.From = now.Add(time.Duration(random.IntN(3)-1) * time.Hour)
	case 1:
		e.Until = now.Add(time.Duration(random.IntN(3)-1) * time.Hour)
	case 2:
		e.IssuedBefore = now.Add(time.Duration(random.IntN(3)-1) * time.Hour)
	}
	e.Reason = fmt.Sprint(random.Uint32())
	return e
}
