package etcd_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/revocation"
)

func TestConfig(t *testing.T) {
	local := []string{"127.0.0.1:2379"}
	for _, c := range []struct {
		name string
		cfg  etcd.Config
		want string // of the error; empty: none
	}{
		{"the least", etcd.Config{Endpoints: local}, ""},
		{"several", etcd.Config{Endpoints: []string{"localhost:1", "127.0.0.1:2", "[::1]:3"}}, ""},
		{"another machine with TLS", etcd.Config{Endpoints: []string{"https://etcd:2379"}}, ""},
		{"another machine with certificates", etcd.Config{Endpoints: []string{"etcd:2379"}, TLS: &tls.Config{}}, ""},
		{"another machine, allowed", etcd.Config{Endpoints: []string{"etcd:2379"}, Plaintext: true}, ""},
		{"a user", etcd.Config{Endpoints: local, Username: "u", Password: "p"}, ""},
		{"a prefix", etcd.Config{Endpoints: local, Prefix: "/a/b/"}, ""},
		{"none", etcd.Config{}, "no endpoint"},
		{"another machine", etcd.Config{Endpoints: []string{"etcd:2379"}}, "without TLS"},
		{"another machine by http", etcd.Config{Endpoints: []string{"http://10.0.0.1:2379"}}, "without TLS"},
		{"http with certificates", etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}, TLS: &tls.Config{}}, "write https://"},
		{"two schemes", etcd.Config{Endpoints: []string{"https://a:1", "127.0.0.1:2"}}, "same scheme"},
		{"no port", etcd.Config{Endpoints: []string{"127.0.0.1"}}, "write HOST:PORT"},
		{"no host", etcd.Config{Endpoints: []string{":2379"}}, "write HOST:PORT"},
		{"a path", etcd.Config{Endpoints: []string{"https://a:1/x"}}, "write HOST:PORT"},
		{"another scheme", etcd.Config{Endpoints: []string{"unix://a:1"}}, "write HOST:PORT"},
		{"a user without a password", etcd.Config{Endpoints: local, Username: "u"}, "belong together"},
		{"a password without a user", etcd.Config{Endpoints: local, Password: "p"}, "belong together"},
		{"a prefix without an end", etcd.Config{Endpoints: local, Prefix: "/writ"}, "must start and end with /"},
		{"a prefix without a beginning", etcd.Config{Endpoints: local, Prefix: "writ/"}, "must start and end with /"},
		{"a prefix without a name", etcd.Config{Endpoints: local, Prefix: "//"}, "must start and end with /"},
		{"a prefix with spaces", etcd.Config{Endpoints: local, Prefix: "/w rit/"}, "printable ASCII"},
		{"a long prefix", etcd.Config{Endpoints: local, Prefix: "/" + strings.Repeat("p", 255) + "/"}, "at most 256 bytes"},
		{"a short request", etcd.Config{Endpoints: local, RequestTimeout: time.Millisecond}, "at least 50ms"},
		{"a short probe", etcd.Config{Endpoints: local, Probe: time.Millisecond}, "at least 10ms"},
		{"a negative probe", etcd.Config{Endpoints: local, Probe: -1}, "at least 10ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := etcd.Settled(c.cfg)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Prefix == "" || got.RequestTimeout <= 0 || got.Probe <= 0 || got.Log == nil {
				t.Errorf("%+v", got)
			}
			for i, endpoint := range got.Endpoints {
				secure := strings.HasPrefix(c.cfg.Endpoints[i], "https://") || c.cfg.TLS != nil
				if strings.Contains(endpoint, "://") || (got.TLS != nil) != secure {
					t.Errorf("%s, TLS %v", endpoint, got.TLS)
				}
			}
		})
	}
}

func intent(id string, lift bool) revocation.Entry {
	return revocation.Entry{Kind: revocation.Intent, ID: id, Reason: "r", Lift: lift}
}

// What a world of a generation and a sequence holds depends on these alone.
func TestHistory(t *testing.T) {
	type call struct {
		add   string // "a" revokes a, "-a" lifts it
		under uint64 // the generation that stood
		force uint64 // with no add: the generation that comes into force
	}
	for _, c := range []struct {
		name  string
		calls []call
		want  string // sequences that are shown
		shows uint64 // the last sequence up to which all is shown
	}{
		{"nothing", nil, "", 0},
		{"revoked", []call{{add: "a", under: 1}, {add: "b", under: 1}}, "1 2", 2},
		{"lifted", []call{{add: "a", under: 1}, {add: "-a", under: 1}}, "1 2", 2},
		{"revoked under a generation to come", []call{{add: "a", under: 2}}, "1", 1},
		{"lifted under a generation to come", []call{{add: "a", under: 1}, {add: "-a", under: 2}}, "1", 1},
		{"and revoked after it", []call{{add: "a", under: 1}, {add: "-a", under: 2}, {add: "b", under: 2}}, "1 3", 1},
		{"it has come", []call{{add: "a", under: 1}, {add: "-a", under: 2}, {add: "b", under: 2}, {force: 2}}, "1 2 3", 3},
		{"a later one has come", []call{{add: "a", under: 1}, {add: "-a", under: 2}, {force: 3}}, "1 2", 2},
		{"one of two has come", []call{{add: "a", under: 1}, {add: "-a", under: 2}, {add: "-b", under: 3}, {add: "c", under: 3}, {force: 2}}, "1 2 4", 2},
		{"both have come, one after the other", []call{{add: "-a", under: 2}, {add: "-b", under: 3}, {add: "c", under: 3}, {force: 2}, {force: 3}}, "1 2 3", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := etcd.NewLog(1)
			for _, call := range c.calls {
				var err error
				if id, lift := strings.CutPrefix(call.add, "-"); call.add != "" {
					err = log.Add(call.under, intent(id, lift))
				} else {
					err = log.At(call.force)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var shown []string
			for e := range log.Shown().Entries(0) {
				shown = append(shown, fmt.Sprint(e.Sequence))
			}
			if got := strings.Join(shown, " "); got != c.want {
				t.Errorf("shown are %q, want %q", got, c.want)
			}
			if !log.Shows(c.shows) || log.Shows(c.shows+1) {
				t.Errorf("not all up to %d is shown, or more", c.shows)
			}
		})
	}
}

// What has been told is told again after a reconnection to a member that is
// behind: it changes nothing.
func TestToldAgain(t *testing.T) {
	s := etcd.NewState("/writ/")
	first := []string{"/writ/state/source", "abcd", "/writ/state/revocations/00000000000000000001",
		`{"id":"i","generation":0,"entries":[{"kind":"intent","id":"a"}]}`, "/writ/state/sequence", "1 i"}
	for range 2 {
		if _, err := s.Apply(5, first...); err != nil || s.Sequence() != 1 {
			t.Fatal(err)
		}
	}
	if _, err := s.Apply(4, "/writ/state/strange", "x"); err != nil {
		t.Errorf("an older revision is looked at: %v", err)
	}
	if _, err := s.Apply(6, "/writ/state/strange", "x"); err == nil {
		t.Error("a strange key passes")
	}
}

// What belongs to another history, as of a store that was brought back from a
// backup and went on, does not fit onto this one.
func TestOtherHistory(t *testing.T) {
	generation := func(n int, id, previous string) string {
		return fmt.Sprintf(`{"generation":%d,"bundle":%q,"files":1,"bytes":1,"pushed_at":"2026-01-01T00:00:00Z","id":%q,"previous":%q,"manifest":{"digest":%q,"size":0}}`,
			n, someDigest, id, previous, someDigest)
	}
	entries := func(id, previous string) string {
		return fmt.Sprintf(`{"id":%q,"previous":%q,"generation":1,"entries":[{"kind":"intent","id":"a"}]}`, id, previous)
	}
	const current, sequence, second = "/writ/state/current", "/writ/state/sequence", "/writ/state/revocations/00000000000000000002"
	for _, c := range []struct {
		name  string
		pairs []string
		want  string // empty: it fits
	}{
		{"the next generation", []string{current, generation(2, "g2", "g1")}, ""},
		{"of another history", []string{current, generation(2, "g2", "other")}, "does not follow"},
		{"of none", []string{current, generation(2, "g2", "")}, "does not follow"},
		{"one left out", []string{current, generation(3, "g3", "g1")}, "does not follow"},
		{"the next entries", []string{second, entries("b2", "b1"), sequence, "2 b2"}, ""},
		{"entries of another history", []string{second, entries("b2", "other"), sequence, "2 b2"}, "does not follow"},
		{"entries with another end", []string{second, entries("b2", "b1"), sequence, "2 b3"}, "other entries"},
		{"an end without entries", []string{sequence, "1 b3"}, "other entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := etcd.NewState("/writ/")
			if _, err := s.Apply(1, "/writ/state/source", "abcd", current, generation(1, "g1", "")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Apply(2, "/writ/state/revocations/00000000000000000001", entries("b1", ""), sequence, "1 b1"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Apply(3, c.pairs...); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
