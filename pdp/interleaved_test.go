package pdp_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// TestRevokedAmongOthers: while worlds, keys and revocations come and go, each
// grant is redeemed by one attempt at most, and nobody is let act, not even
// again, by a call that began when its revocation was in force.
func TestRevokedAmongOthers(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		payments := d.payments()
		var world sync.Mutex // guards the order of worlds
		revoke := func(entry revocation.Entry) {
			world.Lock()
			defer world.Unlock()
			now := d.holder.Load()
			view, err := now.Revocations.With([]revocation.Entry{entry})
			if err != nil {
				t.Error(err)
				return
			}
			d.holder.Store(now.At("test", 1, view))
		}
		type open struct {
			proposal *writ.Proposal
			grants   [2]pdp.Grant // for one proposal
			attempts [2]*pdp.Redemption
			gone     [2]atomic.Bool
			acted    [2]atomic.Bool
		}
		all := make([]*open, 60)
		for i := range all {
			o := &open{proposal: d.proposal(small)}
			for k := range o.grants {
				o.grants[k] = d.granted(o.proposal)
				o.attempts[k] = redemption(o.grants[k], o.proposal)
			}
			all[i] = o
		}
		var work, noise sync.WaitGroup
		stop := make(chan struct{})
		noise.Go(func() { // other things are revoked, and the key that signs
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				switch i % 3 {
				case 0:
					revoke(revocation.Entry{Kind: revocation.Tool, ID: fmt.Sprint("x/", i)})
				case 1:
					world.Lock()
					now := d.holder.Load()
					changed := *now
					d.holder.Store(changed.At("test", 1+uint64(i%5), now.Revocations))
					world.Unlock()
				case 2:
					if _, err := d.pdp.Decide(t.Context(), d.host(), all[i%len(all)].proposal, pdp.Ask{}); err != nil {
						t.Error(err)
					}
				}
				runtime.Gosched()
			}
		})
		var acted, revoked atomic.Int64
		for i, o := range all {
			for k := range o.grants {
				work.Go(func() { // redeems, and repeats
					for range 12 {
						gone := o.gone[k].Load()
						a, err := d.pdp.Redeem(t.Context(), payments, o.attempts[k])
						switch {
						case err != nil:
							t.Error(err)
						case a.MayAct() && gone:
							t.Errorf("%d acts by a grant that was revoked", i)
						case a.MayAct():
							o.acted[k].Store(true)
							acted.Add(1)
						}
						runtime.Gosched()
					}
				})
				work.Go(func() {
					for range rand.IntN(40) {
						runtime.Gosched()
					}
					revoke(revocation.Entry{Kind: revocation.Grant, ID: o.grants[k].ID})
					o.gone[k].Store(true)
					revoked.Add(1)
				})
			}
		}
		work.Wait()
		close(stop)
		noise.Wait()
		for i, o := range all {
			if o.acted[0].Load() && o.acted[1].Load() {
				t.Errorf("%d acted twice", i)
			}
			for k := range o.grants {
				if a := d.redeem(o.attempts[k]); a.MayAct() || a.Decision().Code != writ.CodeGrantRevoked {
					t.Errorf("%d, afterwards: %+v", i, a.Decision())
				}
			}
		}
		if acted.Load() == 0 || revoked.Load() != 2*int64(len(all)) {
			t.Errorf("%d acted, %d were revoked", acted.Load(), revoked.Load())
		}
		t.Logf("%d acted", acted.Load())
	})
}

// TestKeysRevokedAmongOthers: while the key that signs is revoked again and
// again, whatever is minted can be redeemed or is refused for that, and nothing
// is signed with a key whose revocation was in force before.
func TestKeysRevokedAmongOthers(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		payments, host := d.payments(), d.host()
		var world sync.Mutex // guards the order of worlds
		var gone sync.Map    // ids of keys that are revoked
		revokeKey := func() {
			world.Lock()
			defer world.Unlock()
			jwks, issuer, _ := d.pdp.Keys()
			_, rest, _ := strings.Cut(string(jwks), `"kid":"`)
			kid, _, _ := strings.Cut(rest, `"`) // the one that signs
			now := d.holder.Load()
			view, err := now.Revocations.With([]revocation.Entry{{Kind: revocation.Key, Issuer: issuer, ID: kid}})
			if err != nil {
				t.Error(err)
				return
			}
			d.holder.Store(now.At("test", 1, view))
			gone.Store(kid, true)
		}
		proposals := make([]*writ.Proposal, 160)
		for i := range proposals {
			proposals[i] = d.proposal(small)
		}
		tokens := make([]string, len(proposals))
		before := make([]map[string]bool, len(proposals)) // which keys were revoked when it was asked
		var work sync.WaitGroup
		var redeemed, refused atomic.Int64
		for i, p := range proposals {
			work.Go(func() {
				if i%8 == 0 {
					revokeKey()
				}
				before[i] = map[string]bool{}
				gone.Range(func(kid, _ any) bool { before[i][kid.(string)] = true; return true })
				a, err := d.pdp.Decide(t.Context(), host, p, pdp.Ask{})
				if err != nil || !a.Allowed() {
					t.Errorf("%+v, %v", a.Decision(), err)
					return
				}
				tokens[i] = a.Grant().Token
				switch r, err := d.pdp.Redeem(t.Context(), payments, redemption(a.Grant(), p)); {
				case err != nil:
					t.Error(err)
				case r.MayAct():
					redeemed.Add(1)
				case r.Decision().Code == writ.CodeGrantRevoked:
					refused.Add(1)
				default:
					t.Errorf("%+v", r.Decision())
				}
			})
		}
		work.Wait()
		for i, token := range tokens {
			if token != "" && before[i][kid(t, token)] {
				t.Errorf("%d is signed with a key that was revoked before", i)
			}
		}
		if redeemed.Load() == 0 {
			t.Error("nothing was redeemed")
		}
		t.Logf("%d redeemed, %d refused", redeemed.Load(), refused.Load())
	})
}
