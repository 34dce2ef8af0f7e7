package grant_test

import (
	"testing"
	"time"

	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
)

// TestMemoryShares: a caller that redeems as much as it can leaves room for
// others, each time; and has room again when what it took is forgotten.
func TestMemoryShares(t *testing.T) {
	m := memory(t, grant.MemoryConfig{MaxEntries: 800, Retention: time.Hour})
	next := 0
	claim := func(caller string, after time.Duration) (grant.Claim, grant.Standing, error) {
		c := later(next, after)
		c.Caller = caller
		next++
		got, err := m.Claim(t.Context(), c)
		return c, got, err
	}
	take := func(caller string, after time.Duration) (n int, last grant.Claim) {
		for {
			c, got, err := claim(caller, after)
			if err != nil {
				if got != grant.Unknown || err != grant.ErrFull { //nolint:errorlint // as it is
					t.Fatal(got, err)
				}
				return n, last
			}
			if n, last = n+1, c; n > 800 {
				t.Fatal("there is no end")
			}
		}
	}
	// Seven eighths of the room that the caller and all those to come have.
	greedy, last := take("greedy", 0)
	if greedy != 700 {
		t.Errorf("the first has %d of 800", greedy)
	}
	if got, err := m.Claim(t.Context(), last); got != grant.Repeated || err != nil {
		t.Errorf("what it has is not answered: %v, %v", got, err)
	}
	second, _ := take("second", 10*time.Minute)
	if second < 80 || second > 90 {
		t.Errorf("the second has %d of 100", second)
	}
	if third, _ := take("third", 20*time.Minute); third == 0 {
		t.Error("the third has nothing")
	}
	if more, _ := take("greedy", 30*time.Minute); more != 0 {
		t.Errorf("the first has %d more", more)
	}
	for range 700 / 64 { // each call forgets some
		_, _, _ = claim("greedy", time.Hour)
	}
	if again, _ := take("greedy", time.Hour); again < 500 {
		t.Errorf("afterwards the first has %d", again)
	}
}

// TestMemoryShareOfSeeds: what was redeemed before counts as its caller's, and
// all of it is taken.
func TestMemoryShareOfSeeds(t *testing.T) {
	m := memory(t, grant.MemoryConfig{MaxEntries: 80, Retention: time.Hour})
	claims := make([]grant.Claim, 75)
	for i := range claims {
		claims[i] = ledgertest.NewClaim(i)
		claims[i].Caller = "greedy"
	}
	if err := m.Seed(claims, nil); err != nil || m.Len() != len(claims) {
		t.Fatal(m.Len(), err)
	}
	c := ledgertest.NewClaim(100)
	c.Caller = "greedy"
	want(t, m, c, grant.Unknown, grant.ErrFull)
	c.Caller = "another"
	want(t, m, c, grant.Claimed, nil)
}
