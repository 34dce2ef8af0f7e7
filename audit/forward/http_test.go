package forward_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/audit/forward"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
)

// serve starts a witness's server and returns the sink for it.
func serve(t testing.TB, w *treetest.Witness, h http.Handler) *forward.HTTP {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	key, err := tree.NewWitness(w.Key)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := forward.NewHTTP(forward.HTTPConfig{URL: server.URL + "/witness/", Keys: []*tree.Witness{key}})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func TestHTTP(t *testing.T) {
	l := grown(t, 5)
	w := treetest.NewWitness(t, "w1.example", l.Verifier)
	sink := serve(t, w, w)
	send := func(c forward.Checkpoint) error {
		lines, err := sink.Send(t.Context(), c)
		if (err == nil) != strings.HasPrefix(string(lines), "— w1.example ") {
			t.Errorf("lines %q and %v", lines, err)
		}
		return err
	}
	expect := func(size int64, requests int) {
		t.Helper()
		if s, r := w.Seen(); s != size || r != requests {
			t.Errorf("the witness has seen %d in %d requests, want %d in %d", s, r, size, requests)
		}
	}
	first := of(t, l)
	for _, step := range []struct {
		append, requests int
	}{{0, 1}, {1, 2}, {300, 3}, {0, 4}, {700, 5}} {
		l.Append(step.append, 100)
		if err := send(of(t, l)); err != nil {
			t.Fatal(err)
		}
		expect(l.Tree.Size(), step.requests)
	}
	if err := send(first); !errors.Is(err, forward.ErrSetBack) {
		t.Errorf("an earlier one: %v", err)
	}
	expect(1006, 5)
	// The server starts again and does not know what the witness has seen: the
	// witness says it.
	sink = serve(t, w, w)
	l.Append(50, 100)
	if err := send(of(t, l)); err != nil {
		t.Fatal(err)
	}
	expect(1056, 7)
	if err := send(first); !errors.Is(err, forward.ErrSetBack) {
		t.Errorf("an earlier one: %v", err)
	}
	// A log of the same key with other records.
	other := grown(t)
	other.Signer, other.Verifier = l.Signer, l.Verifier
	other.Append(1056, 101)
	sink = serve(t, w, w)
	if err := send(of(t, other)); !errors.Is(err, forward.ErrFork) {
		t.Errorf("a fork of the same size: %v", err)
	}
	other.Append(100, 101)
	if err := send(of(t, other)); !errors.Is(err, forward.ErrFork) {
		t.Errorf("a larger fork: %v", err)
	}
	if size, _ := w.Seen(); size != 1056 {
		t.Errorf("the witness has seen %d", size)
	}
}

// TestHTTPAnswers has witnesses that answer what they should not.
func TestHTTPAnswers(t *testing.T) {
	l := grown(t, 5)
	c := of(t, l)
	body, err := c.Head.Body()
	if err != nil {
		t.Fatal(err)
	}
	w := treetest.NewWitness(t, "w1.example", l.Verifier)
	foreign := treetest.NewWitness(t, "w2.example", l.Verifier)
	now := time.Now()
	answer := func(status int, kind, text string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if kind != "" {
				rw.Header().Set("Content-Type", kind)
			}
			rw.WriteHeader(status)
			io.WriteString(rw, text)
		})
	}
	const sizes = "text/x.tlog.size"
	asked := 0
	for _, test := range []struct {
		name    string
		handler http.Handler
		want    error
	}{
		{"nothing", answer(200, "", ""), nil},
		{"text", answer(200, "", "thank you\n"), nil},
		{"no key that is known", answer(200, "", foreign.Cosign(body, now)), nil},
		{"a cosignature of something else", answer(200, "", w.Cosign(strings.Replace(body, "\n5\n", "\n4\n", 1), now)), nil},
		{"a line without its end", answer(200, "", strings.TrimSuffix(w.Cosign(body, now), "\n")), nil},
		{"too much", answer(200, "", w.Cosign(body, now)+strings.Repeat(foreign.Cosign(body, now), 200)), nil},
		{"another checkpoint", answer(200, "", "\n"+body+"\n"+w.Cosign(body, now)), nil},
		{"202", answer(202, "", w.Cosign(body, now)), nil},
		{"a redirect", http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect), nil},
		{"400", answer(400, "", ""), nil},
		{"403", answer(403, "", ""), nil},
		{"404", answer(404, "", ""), nil},
		{"500", answer(500, "", ""), nil},
		{"422", answer(422, "", ""), forward.ErrFork},
		{"409 without a size", answer(409, "text/plain", "3\n"), forward.ErrFork},
		{"a larger size", answer(409, sizes, "6\n"), forward.ErrSetBack},
		{"the same size again", answer(409, sizes, "0\n"), nil},
		{"no size", answer(409, sizes, "many\n"), nil},
		{"a size without its end", answer(409, sizes, "3"), nil},
		{"a negative size", answer(409, sizes, "-3\n"), nil},
		{"a size with a zero in front", answer(409, sizes, "03\n"), nil},
		{"an enormous size", answer(409, sizes, "99999999999999999999\n"), nil},
		{"another size each time", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			asked++
			rw.Header().Set("Content-Type", sizes)
			rw.WriteHeader(409)
			fmt.Fprintf(rw, "%d\n", 1+asked%4)
		}), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines, err := serve(t, w, test.handler).Send(t.Context(), c)
			if err == nil || lines != nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%q and %v, want %v", lines, err, test.want)
			}
			if test.want == nil && (errors.Is(err, forward.ErrFork) || errors.Is(err, forward.ErrSetBack)) {
				t.Errorf("a false alarm: %v", err)
			}
		})
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	// What it says besides is no matter.
	if _, err := serve(t, w, answer(200, "", foreign.Cosign(body, now)+w.Cosign(body, now))).Send(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestHTTPHangs(t *testing.T) {
	l := grown(t, 5)
	w := treetest.NewWitness(t, "w1.example", l.Verifier)
	ctx, cancel := context.WithCancel(t.Context())
	sink := serve(t, w, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server see that the client has gone
		cancel()
		<-r.Context().Done()
	}))
	if lines, err := sink.Send(ctx, of(t, l)); !errors.Is(err, context.Canceled) {
		t.Errorf("%q and %v", lines, err)
	}
}

func TestNewHTTPRefuses(t *testing.T) {
	w := treetest.NewWitness(t, "w1.example", grown(t).Verifier)
	key, err := tree.NewWitness(w.Key)
	if err != nil {
		t.Fatal(err)
	}
	keys := []*tree.Witness{key}
	for _, u := range []string{"", "witness.example", "ftp://witness.example", "http://witness.example", "http://127.0.0.1.example", "https://user@witness.example", "https://witness.example?a=b", "https://witness.example#a", "https://"} {
		if _, err := forward.NewHTTP(forward.HTTPConfig{URL: u, Keys: keys}); err == nil {
			t.Errorf("%q is taken", u)
		}
	}
	for _, u := range []string{"https://witness.example", "https://witness.example/a/b/", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"} {
		if _, err := forward.NewHTTP(forward.HTTPConfig{URL: u, Keys: keys}); err != nil {
			t.Errorf("%q: %v", u, err)
		}
	}
	if _, err := forward.NewHTTP(forward.HTTPConfig{URL: "https://witness.example"}); err == nil {
		t.Error("a witness without a key is taken")
	}
}
