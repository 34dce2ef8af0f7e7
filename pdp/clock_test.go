package pdp_test

import (
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
)

// TestGrantLivesItsSeconds: where the clock was ahead and has been put back, no
// time passes for what was decided until it has caught up; but nobody holds a
// grant for longer than it was given, however long that takes.
func TestGrantLivesItsSeconds(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second, time.Minute, 24 * time.Hour} {
		for after, want := range map[time.Duration]writ.Code{
			0: writ.CodeRedeemed, pdp.DefaultGrantLifetime - 1: writ.CodeRedeemed,
			pdp.DefaultGrantLifetime: writ.CodeGrantExpired, time.Hour: writ.CodeGrantExpired,
		} {
			atDesk(t, func(t *testing.T, d *desk) {
				p := d.proposal(small)
				intent, token := *p.Intent, *p.Token
				intent.ExpiresAt, token.ExpiresAt = monday.Add(72*time.Hour), monday.Add(72*time.Hour)
				p.Intent, p.Token = &intent, &token
				d.pdp.Read(monday.Add(ahead)) // and back
				g := d.granted(p)
				if want := monday.Add(ahead + pdp.DefaultGrantLifetime); g.ExpiresAt != want {
					t.Fatalf("until %v, want %v", g.ExpiresAt, want)
				}
				r := redemption(g, p)
				if after > 0 && want == writ.CodeGrantExpired {
					time.Sleep(time.Second)
					if a := d.redeem(r); !a.MayAct() {
						t.Fatalf("%+v", a.Decision())
					}
				}
				time.Sleep(time.Until(monday.Add(after)))
				if a := d.redeem(r); a.Decision().Code != want || a.MayAct() != (want == writ.CodeRedeemed) {
					t.Errorf("ahead by %v, after %v: %+v, want %s", ahead, after, a.Decision(), want)
				}
			})
		}
	}
}
