package grant_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/keyring/keyringtest"
)

// TestWholeSeconds: what is less than a second is cut off at both ends.
func TestWholeSeconds(t *testing.T) {
	k := keyringtest.Key(t, 1)
	c := payment()
	c.IssuedAt, c.ExpiresAt = mintedAt.Add(900*time.Millisecond), mintedAt.Add(30*time.Second+900*time.Millisecond)
	got, err := grant.Open(mintRing(t, k), mint(t, k, c), mintedAt, minter, minterInstance)
	if err != nil || !got.IssuedAt.Equal(mintedAt) || !got.ExpiresAt.Equal(mintedAt.Add(30*time.Second)) {
		t.Errorf("%v to %v, %v", got.IssuedAt, got.ExpiresAt, err)
	}
}

// TestTimes: a grant ends at the very second, and begins five seconds early.
func TestTimes(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := mintRing(t, k)
	token := mint(t, k, payment())
	for _, c := range []struct {
		at   time.Duration
		code writ.Code
		why  string
	}{
		{-5*time.Second - 1, writ.CodeGrantExpired, "has not come yet"},
		{-5 * time.Second, "", ""},
		{0, "", ""},
		{30*time.Second - 1, "", ""},
		{30 * time.Second, writ.CodeGrantExpired, "is over"},
		{time.Hour, writ.CodeGrantExpired, "is over"},
	} {
		got, err := grant.Open(r, token, mintedAt.Add(c.at), minter, minterInstance)
		if c.code == "" {
			if err != nil {
				t.Errorf("after %v: %v", c.at, err)
			}
			continue
		}
		wantFault(t, err, c.code, c.why)
		if !reflect.ValueOf(got).IsZero() {
			t.Errorf("after %v it still gives claims", c.at)
		}
	}
}

// TestOther: whose grant it is.
func TestOther(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := mintRing(t, k)
	token := mint(t, k, payment())
	_, err := grant.Open(r, token, mintedAt, "https://other.example", minterInstance)
	wantFault(t, err, writ.CodeGrantInvalid, "another decision point")
	_, err = grant.Open(r, token, mintedAt, minter, "another1")
	wantFault(t, err, writ.CodeGrantInvalid, "was restarted since")

	// After a restart the key is another one as well.
	fresh := mintRing(t, keyring.Generate())
	_, err = grant.Open(fresh, token, mintedAt, minter, "another1")
	wantFault(t, err, writ.CodeGrantInvalid, "was restarted since")
	_, err = grant.Open(fresh, token, mintedAt, minter, minterInstance)
	wantFault(t, err, writ.CodeGrantInvalid, "no key of its kid")
	_, err = grant.Open(fresh, token, mintedAt, "https://other.example", "another1")
	wantFault(t, err, writ.CodeGrantInvalid, "no key of its kid")
}

// TestHostile: what is too large, or made of dots, is refused.
func TestHostile(t *testing.T) {
	r := mintRing(t, keyringtest.Key(t, 1))
	good := mint(t, keyringtest.Key(t, 1), payment())
	for name, token := range map[string]string{
		"100,000 dots":       strings.Repeat(".", 100_000),
		"a good one, padded": good + strings.Repeat("A", grant.MaxSize),
		"megabytes":          strings.Repeat("A", 4<<20),
	} {
		_, err := grant.Open(r, token, mintedAt, minter, minterInstance)
		wantFault(t, err, writ.CodeGrantInvalid, "more than 4096 bytes")
		if n := testing.AllocsPerRun(10, func() { _, _ = grant.Open(r, token, mintedAt, minter, minterInstance) }); n > 20 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestRotatedKey: a grant that was minted just before its key was replaced
// serves out its time.
func TestRotatedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := keyring.New(keyring.Config{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - time.Second)
		c := payment()
		c.IssuedAt, c.ExpiresAt = time.Now(), time.Now().Add(grant.MaxLifetime)
		first := r.Current(time.Now())
		token := mint(t, first, c)
		time.Sleep(grant.MaxLifetime - 1)
		if r.Current(time.Now()) == first {
			t.Fatal("the key is the same")
		}
		if _, err := grant.Open(r, token, time.Now(), minter, minterInstance); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		_, err = grant.Open(r, token, time.Now(), minter, minterInstance)
		wantFault(t, err, writ.CodeGrantExpired, "is over")
		time.Sleep(keyring.DefaultKeep)
		_, err = grant.Open(r, token, time.Now(), minter, minterInstance)
		wantFault(t, err, writ.CodeGrantInvalid, "its key's time is over")
	})
}
