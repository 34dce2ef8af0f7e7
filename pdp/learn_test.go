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
)

// TestLearnKeys: a grant whose key is not known yet is held against the keys that
// there are now, and is not refused for good before.
func TestLearnKeys(t *testing.T) {
	for name, c := range map[string]struct {
		known  bool // from the start
		learns bool // that the key is a replica's
		fault  error
		alone  bool // there is nobody to learn from
		want   writ.Code
		asked  int
	}{
		"known":              {known: true, want: writ.CodeRedeemed},
		"learnt":             {learns: true, want: writ.CodeRedeemed, asked: 1},
		"nobody's":           {want: writ.CodeGrantInvalid, asked: 1},
		"nobody can say":     {fault: errors.New("away"), want: writ.CodeSnapshotStale, asked: 1},
		"nobody to be asked": {alone: true, want: writ.CodeGrantInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				key, one := certified(t)
				ledger, err := grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return d.world.Revocations.Sequence() }})
				if err != nil {
					t.Fatal(err)
				}
				reviews, err := approval.NewMemory(approval.MemoryConfig{})
				if err != nil {
					t.Fatal(err)
				}
				var rings [2]*keyring.Ring
				for i, k := range []*keyring.Key{key, keyring.Generate()} {
					if rings[i], err = keyring.New(keyring.Config{Key: k}, time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				trust := func() error { return rings[1].Trust([]keyring.Replica{one}) }
				asked := 0
				var pdps [2]*pdp.PDP
				for i := range pdps {
					cfg := pdp.Config{Snapshots: d.holder, Log: d.log, Keys: rings[i], Ledger: ledger, Reviews: reviews, Shared: true}
					if i == 1 && !c.alone {
						cfg.LearnKeys = func(context.Context) error {
							asked++
							if c.learns {
								return trust()
							}
							return c.fault
						}
					}
					if pdps[i], err = pdp.New(cfg); err != nil {
						t.Fatal(err)
					}
				}
				if c.known {
					if err := trust(); err != nil {
						t.Fatal(err)
					}
				}
				d.pdp = pdps[0]
				p := d.proposal(small)
				r := redemption(d.granted(p), p)
				d.pdp = pdps[1]
				if a := d.redeem(r); a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) || asked != c.asked {
					t.Errorf("%+v, want %s; asked %d times, want %d", a.Decision(), c.want, asked, c.asked)
				}
				// What no key has signed asks nobody.
				r.Grant = r.Grant[:len(r.Grant)-8] + "AAAAAAAA"
				if rings[1].Trust([]keyring.Replica{one}) != nil {
					t.Fatal("not trusted")
				}
				if a := d.redeem(r); a.Decision().Code != writ.CodeGrantInvalid || asked != c.asked {
					t.Errorf("forged: %+v; asked %d times", a.Decision(), asked)
				}
			})
		})
	}
}

// certified makes the key of a replica "one" that a root has certified for an
// hour, and the statement that says so.
func certified(t *testing.T) (*keyring.Key, keyring.Replica) {
	t.Helper()
	root, key := keyring.Generate(), keyring.Generate()
	statement, err := keyring.CertifyReplica(root, keyring.Replica{Name: "one", Public: key.Public(), IssuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	one, err := keyring.OpenReplica(root.Public(), statement, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return key, one
}
