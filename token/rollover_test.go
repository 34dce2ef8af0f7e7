package token_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// TestRolloverUnderLoad: while many calls are made, an issuer first publishes
// a second key, then signs with it, and then withdraws the first. No token is
// refused whose key was published all the while, and none is accepted again
// whose key was seen to be gone.
func TestRolloverUnderLoad(t *testing.T) {
	first, second := newKeyring(t), newKeyring(t)
	set := func(keys ...jose.JSONWebKey) []byte {
		data, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	one := jose.JSONWebKey{Key: first.p256.Public(), KeyID: "1"}
	two := jose.JSONWebKey{Key: second.p256.Public(), KeyID: "2"}
	s := newKeyServer(t)
	s.publish(set(one))
	v, w := verifier(t), world(s.issuer())
	var seconds atomic.Int64 // since now, of the clock
	ask := func(compact string) bool {
		at := now.Add(time.Duration(seconds.Load()) * time.Second)
		return v.Verify(t.Context(), w, false, proposal(compact), at).Verified
	}
	// Tokens that were seen before, and others.
	var olds, news []string
	for i := range 8 {
		c := claims()
		c["n"], c["exp"] = i, now.Add(24*time.Hour).Unix()
		olds = append(olds, sign(t, header("ES256", "1"), c, first.p256))
		news = append(news, sign(t, header("ES256", "2"), c, second.p256))
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	await("the first key's token is refused", func() bool { return ask(olds[0]) })
	var oldHolds, newHolds, oldGone atomic.Bool // what must be so from now on
	oldHolds.Store(true)
	var refused, revived atomic.Int64
	var calls [2]atomic.Int64
	done := make(chan struct{})
	var work sync.WaitGroup
	for n := range 4 {
		work.Go(func() {
			for i := n; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				must, gone := oldHolds.Load(), oldGone.Load()
				ok := ask(olds[i%len(olds)])
				calls[0].Add(1)
				if !ok && must && oldHolds.Load() {
					refused.Add(1)
				}
				if ok && gone {
					revived.Add(1)
				}
				must = newHolds.Load()
				ok = ask(news[i%len(news)])
				calls[1].Add(1)
				if !ok && must {
					refused.Add(1)
				}
			}
		})
	}
	settle := func() { // some rounds of calls
		t.Helper()
		until := calls[1].Load() + 200
		await("nothing is called", func() bool { return calls[1].Load() >= until })
	}
	settle()
	s.publish(set(one, two))
	seconds.Add(11) // an unknown kid may ask again
	await("the second key is never found", func() bool { return ask(news[0]) })
	newHolds.Store(true)
	settle()
	oldHolds.Store(false)
	s.publish(set(two))
	seconds.Add(301) // what is five minutes old is fetched again
	await("the first key's tokens are never refused", func() bool { return !ask(olds[0]) })
	oldGone.Store(true)
	settle()
	close(done)
	work.Wait()
	if refused.Load() > 0 || revived.Load() > 0 {
		t.Errorf("of %d calls %d were refused wrongly, and %d accepted after their key was gone", calls[0].Load()+calls[1].Load(), refused.Load(), revived.Load())
	}
	if n := s.asked.Load(); n > 4 {
		t.Errorf("the issuer was asked %d times in 312 seconds of its clock", n)
	}
}

// TestFailures: it is known since when the keys of which issuer of the bundle
// can't be fetched, and when they can again.
func TestFailures(t *testing.T) {
	k := newKeyring(t)
	s := newKeyServer(t)
	s.with(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	v, w := verifier(t), world(s.issuer(), &snapshot.Issuer{Name: other, Keys: k.set}, &snapshot.Issuer{Name: "https://never.asked", JWKS: s.URL})
	compact := sign(t, header("ES256", "p256"), claims(), k.p256)
	ask := func(after time.Duration) *writ.Token {
		return v.Verify(t.Context(), w, false, proposal(compact), now.Add(after))
	}
	if f := v.Failures(w); len(f) > 0 {
		t.Errorf("before anything was asked: %+v", f)
	}
	ask(0)
	ask(20 * time.Second) // asks again
	f := v.Failures(w)
	if len(f) != 1 || f[0].Issuer != login || !f[0].Since.Equal(now) || !strings.Contains(f[0].Err.Error(), "502") || s.asked.Load() != 2 {
		t.Errorf("%+v after %d fetches", f, s.asked.Load())
	}
	if f := v.Failures(world(&snapshot.Issuer{Name: other, Keys: k.set})); len(f) > 0 {
		t.Errorf("of an issuer that is no longer the bundle's: %+v", f)
	}
	s.publish(k.set)
	if got := ask(40 * time.Second); !got.Verified {
		t.Errorf("%+v", got)
	}
	if f := v.Failures(w); len(f) > 0 {
		t.Errorf("after it is well again: %+v", f)
	}
	var none *token.Verifier
	if f := none.Failures(w); len(f) > 0 {
		t.Errorf("of nobody: %+v", f)
	}
	if n := v.Checked(); n != 1 {
		t.Errorf("%d signatures checked", n)
	}
}
