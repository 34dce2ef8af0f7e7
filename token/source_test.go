package token_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// keyServer publishes a key set that tests change.
type keyServer struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int64
}

func newKeyServer(t *testing.T) *keyServer {
	t.Helper()
	s := &keyServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) with(f http.HandlerFunc) { s.answer.Store(&f) }

func (s *keyServer) publish(set []byte) {
	s.with(func(w http.ResponseWriter, _ *http.Request) { w.Write(set) })
}

func (s *keyServer) issuer() *snapshot.Issuer {
	return &snapshot.Issuer{Name: login, JWKS: s.URL, AllowPrivate: true}
}

// TestRollover: a key that appears is found, one that goes is not used any
// more, and the issuer is asked rarely whatever arrives.
func TestRollover(t *testing.T) {
	old, young := newKeyring(t), newKeyring(t)
	young.public.Keys[1].KeyID = "next"
	set, err := json.Marshal(young.public)
	if err != nil {
		t.Fatal(err)
	}
	s := newKeyServer(t)
	s.publish(old.set)
	v, w, at := verifier(t), world(s.issuer()), now
	ask := func(compact string) string {
		return v.Verify(t.Context(), w, false, proposal(compact), at).Invalid
	}
	first := sign(t, header("ES256", "p256"), claims(), old.p256)
	next := sign(t, header("ES256", "next"), claims(), young.p256)
	if why := ask(first); why != "" {
		t.Fatal(why)
	}
	if why := ask(next); !strings.Contains(why, "no key for its kid") {
		t.Fatal(why)
	}
	if n := s.asked.Load(); n != 1 {
		t.Fatalf("asked %d times within ten seconds", n)
	}
	s.publish(set)
	if why := ask(next); why == "" || s.asked.Load() != 1 {
		t.Fatalf("%q after %d fetches", why, s.asked.Load())
	}
	at = at.Add(11 * time.Second)
	if why := ask(next); why != "" {
		t.Fatal(why)
	}
	if why := ask(first); why == "" {
		t.Error("the old key is gone, and its token is accepted")
	}
	// A flood of unknown kids asks no more than one does.
	before := s.asked.Load()
	for range 50 {
		ask(sign(t, header("ES256", "unknown"), claims(), young.p256))
	}
	if n := s.asked.Load() - before; n > 0 {
		t.Errorf("asked %d times", n)
	}
}

// TestIdle: after a time without tokens the first one is not accepted under a
// key that was withdrawn meanwhile.
func TestIdle(t *testing.T) {
	k, next := newKeyring(t), newKeyring(t)
	s := newKeyServer(t)
	s.publish(k.set)
	v, w := verifier(t), world(s.issuer())
	compact := sign(t, header("ES256", "p256"), claims(), k.p256)
	if got := v.Verify(t.Context(), w, false, proposal(compact), now); !got.Verified {
		t.Fatalf("%+v", got)
	}
	s.publish(next.set)
	if got := v.Verify(t.Context(), w, false, proposal(compact), now.Add(10*time.Minute)); got.Verified {
		t.Error("the key was withdrawn ten minutes ago, and its token is accepted")
	}
}

// TestServedStale: while the issuer can't be asked the last keys serve on for
// its bound and no longer.
func TestServedStale(t *testing.T) {
	k := newKeyring(t)
	s := newKeyServer(t)
	s.publish(k.set)
	entry := s.issuer()
	entry.MaxStale = 30 * time.Minute
	v, w := verifier(t), world(entry)
	c := claims()
	c["exp"] = now.Add(24 * time.Hour).Unix()
	compact := sign(t, header("ES256", "p256"), c, k.p256)
	ask := func(after time.Duration) string {
		return v.Verify(t.Context(), w, false, proposal(compact), now.Add(after)).Invalid
	}
	if why := ask(0); why != "" {
		t.Fatal(why)
	}
	s.with(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if why := ask(29 * time.Minute); why != "" {
		t.Errorf("within the bound: %s", why)
	}
	if why := ask(30 * time.Minute); why == "" {
		t.Error("beyond the bound it is accepted")
	}
	s.publish(k.set)
	if why := ask(31 * time.Minute); why != "" {
		t.Errorf("after the issuer is well again: %s", why)
	}
}

// TestBadSources: what can't be fetched safely is not fetched, and nobody
// waits long.
func TestBadSources(t *testing.T) {
	k := newKeyring(t)
	compact := sign(t, header("ES256", "p256"), claims(), k.p256)
	good := newKeyServer(t)
	good.publish(k.set)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for _, c := range []struct {
		name    string
		private bool
		answer  http.HandlerFunc
	}{
		{"a private address that the entry does not allow", false, func(w http.ResponseWriter, _ *http.Request) { w.Write(k.set) }},
		{"a redirect", true, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, good.URL, http.StatusFound) }},
		{"an error with keys", true, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(k.set)
		}},
		{"garbage", true, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }},
		{"too much", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"keys":[`))
			for range 2 << 10 {
				w.Write([]byte(repeat(" ", 1<<10)))
			}
		}},
		{"an empty answer", true, func(http.ResponseWriter, *http.Request) {}},
		{"an answer that never comes", true, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}},
		{"somebody else's keys", true, func(w http.ResponseWriter, _ *http.Request) {
			set, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: newKeyring(t).p256.Public(), KeyID: "p256"}}})
			w.Write(set)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newKeyServer(t)
			s.with(c.answer)
			entry := s.issuer()
			entry.AllowPrivate = c.private
			v := token.New(token.Config{})
			defer v.Close()
			if got := v.Verify(t.Context(), world(entry), false, proposal(compact), now); got.Verified || got.Invalid == "" {
				t.Errorf("accepted: %+v", got)
			}
			if !c.private && s.asked.Load() > 0 {
				t.Error("the private address was asked")
			}
		})
	}
	if good.asked.Load() > 0 {
		t.Error("a redirect was followed")
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	entry := &snapshot.Issuer{Name: login, JWKS: "http://" + closed.Addr().String(), AllowPrivate: true}
	if got := verify(t, world(entry), compact); got.Verified {
		t.Error("accepted without a server")
	}
}
