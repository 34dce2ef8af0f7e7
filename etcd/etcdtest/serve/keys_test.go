package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/etcd/etcdtest"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// copyFiles copies what a replica is certified with.
func copyFiles(t testing.TB, from, to string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var keyFiles = []string{"root.pub", "replica.jws", "replica.key"}

// TestServeRefusesKeys: a replica whose key the others could not know does not
// start.
func TestServeRefusesKeys(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Config{})
	good := c.certify("good")
	other := c.certify("other")
	elsewhere := filepath.Join(c.dir, "elsewhere.key")
	run(t, 0, "keys", "root", elsewhere)
	foreign := filepath.Join(c.dir, "foreign")
	run(t, 0, "keys", "replica", "foreign", foreign, "--root", elsewhere)
	short := c.certify("short", "--valid", "1s")
	time.Sleep(time.Second) // as long as it is certified for
	for name, test := range map[string]struct {
		files map[string][]string // by directory
		flags []string            // of certify, in place of files
		want  string
	}{
		"another root's statement": {files: map[string][]string{good: {"root.pub", "replica.key"}, foreign: {"replica.jws"}}, want: "another root signed it"},
		"another root":             {files: map[string][]string{foreign: {"root.pub"}, good: {"replica.jws", "replica.key"}}, want: "another root signed it"},
		"another key's statement":  {files: map[string][]string{good: {"root.pub", "replica.key"}, other: {"replica.jws"}}, want: "statement of another key"},
		"expired":                  {files: map[string][]string{short: keyFiles}, want: "its time is over"},
		"of another instance":      {flags: []string{"--instance", "zzzzzzzz"}, want: "is for the decision point zzzzzzzz"},
		"no statement":             {files: map[string][]string{good: {"root.pub", "replica.key"}}, want: "the root's statement"},
		"no root":                  {files: map[string][]string{good: {"replica.jws", "replica.key"}}, want: "the root's public key"},
		"no key":                   {files: map[string][]string{good: {"root.pub", "replica.jws"}}, want: "replica.key"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "keys")
			if test.flags != nil {
				dir = c.certify("flags", test.flags...)
			}
			for from, names := range test.files {
				copyFiles(t, from, dir, names...)
			}
			out := run(t, 1, "serve", "--etcd", strings.Join(c.Endpoints(), ","), "--replica-keys", dir, "--data", t.TempDir(), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
			if !strings.Contains(out, test.want) {
				t.Errorf("it says\n%s\nand not %q", out, test.want)
			}
		})
	}
	t.Run("no directory", func(t *testing.T) {
		out := run(t, 2, "serve", "--etcd", strings.Join(c.Endpoints(), ","), "--data", t.TempDir(), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
		if !strings.Contains(out, "--replica-keys") {
			t.Error(out)
		}
	})
	// A key that others may read is nobody's own.
	t.Run("permissions", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "keys")
		copyFiles(t, good, dir, keyFiles...)
		if err := os.Chmod(filepath.Join(dir, "replica.key"), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, 1, "serve", "--etcd", strings.Join(c.Endpoints(), ","), "--replica-keys", dir, "--data", t.TempDir(), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
	})
}

// granted proposes, and returns what redeems the grant.
func granted(t testing.TB, r *replica, name string) *writv1.RedeemRequest {
	t.Helper()
	p := propose("u-"+name, putTool(0), name)
	a, err := r.life.Load().decide(t.Context(), p)
	if err != nil || a.GetGrant().GetToken() == "" {
		t.Fatalf("%s: %v %v", name, a, err)
	}
	return redemption(p, a.GetGrant().GetToken(), redemptionID())
}

// redeemed redeems, and wants a code; it repeats the attempt where it is told to.
func redeemed(t testing.TB, r *replica, request *writv1.RedeemRequest, want string) {
	t.Helper()
	eventually(t, func() error {
		a, err := r.life.Load().redeem(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		switch code := a.GetDecision().GetCode(); code {
		case want:
			return nil
		case "SNAPSHOT_STALE", "AUDIT_UNAVAILABLE": // of a disk that is busy, or an etcd that has no leader
			return fmt.Errorf("%s: %s", r.name, a.GetDecision())
		default:
			t.Fatalf("%s answers %s, want %s: %s", r.name, code, want, a.GetDecision().GetExplanation())
			return nil
		}
	})
}

// troublesOf are what /readyz tells, by part.
func troublesOf(t testing.TB, r *replica) map[string][]string {
	t.Helper()
	a, err := http.Get("http://" + r.life.Load().http + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	var ready struct {
		Troubles []struct{ Part, Message string }
	}
	if err == nil {
		err = json.Unmarshal(text, &ready)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	all := map[string][]string{}
	for _, trouble := range ready.Troubles {
		all[trouble.Part] = append(all[trouble.Part], trouble.Message)
	}
	return all
}

// TestKeyRenewed: a replica that is given another key signs with it, without a
// restart, and what it signed before stays good, here and elsewhere, also when
// it is started again.
func TestKeyRenewed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Config{})
	all, proxies := c.replicas(2)
	one, two := all[0], all[1]
	var before []*writv1.RedeemRequest
	for i := range 3 {
		before = append(before, granted(t, one, fmt.Sprint("before-", i)))
	}
	old := kid(t, before[0].GetGrant())

	for _, p := range proxies[1] { // the other hears late of it
		p.SetDelay(300 * time.Millisecond)
	}
	// As pdp keys replica says: made elsewhere, moved over the old, the key last.
	fresh, place := c.certify("fresh"), filepath.Join(c.dir, "replica-0")
	for _, name := range keyFiles {
		if err := os.Rename(filepath.Join(fresh, name), filepath.Join(place, name)); err != nil {
			t.Fatal(err)
		}
	}
	var after *writv1.RedeemRequest
	eventually(t, func() error {
		after = granted(t, one, fmt.Sprint("after-", time.Now().UnixNano()))
		if kid(t, after.GetGrant()) == old {
			return fmt.Errorf("it signs with the old key still: %s", one.told())
		}
		return nil
	})
	redeemed(t, two, after, "REDEEMED")
	for _, p := range proxies[1] {
		p.SetDelay(0)
	}
	redeemed(t, two, before[0], "REDEEMED")
	redeemed(t, one, before[1], "REDEEMED")
	one.kill()
	one.mustStart()
	redeemed(t, one, before[2], "REDEEMED")
	if again := granted(t, one, "again"); kid(t, again.GetGrant()) != kid(t, after.GetGrant()) {
		t.Error("it signs with another key than before it was started again")
	}
	if told := troublesOf(t, one); len(told) > 0 {
		t.Errorf("%v", told)
	}
}

// TestKeyBroken: while the files of a replica are another root's, the key before
// stays, and /readyz says so.
func TestKeyBroken(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Config{})
	all, _ := c.replicas(2)
	one, two := all[0], all[1]
	before := granted(t, one, "before")
	place, kept := filepath.Join(c.dir, "replica-0"), filepath.Join(c.dir, "kept")
	copyFiles(t, place, kept, keyFiles...)
	elsewhere := filepath.Join(c.dir, "elsewhere.key")
	run(t, 0, "keys", "root", elsewhere)
	foreign := filepath.Join(c.dir, "foreign")
	run(t, 0, "keys", "replica", "foreign", foreign, "--root", elsewhere)
	copyFiles(t, foreign, place, "replica.jws")
	eventually(t, func() error {
		if told := troublesOf(t, one)["keys"]; len(told) == 0 || !strings.Contains(one.told(), "replica.jws: another root signed it") {
			return fmt.Errorf("/readyz tells %q of it, and the log %s", told, one.told())
		}
		return nil
	})
	copyFiles(t, foreign, place, keyFiles...) // they belong together, and not here
	eventually(t, func() error {
		if told := troublesOf(t, one)["keys"]; len(told) == 0 || !strings.Contains(one.told(), "publishing this replica's key: another root signed it") {
			return fmt.Errorf("/readyz tells %q of it, and the log %s", told, one.told())
		}
		return nil
	})
	during := granted(t, one, "during")
	if kid(t, during.GetGrant()) != kid(t, before.GetGrant()) {
		t.Error("it signs with a key that this root has not certified")
	}
	redeemed(t, two, during, "REDEEMED")
	copyFiles(t, kept, place, keyFiles...)
	eventually(t, func() error {
		if told := troublesOf(t, one); len(told) > 0 {
			return fmt.Errorf("/readyz still tells of %v", told)
		}
		return nil
	})
}

// TestKeyExpired: a replica whose key is no longer certified mints nothing, and
// says so; and what it signed is worth nothing where it was not minted.
func TestKeyExpired(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Config{})
	const valid = 10 * time.Second
	began := time.Now()
	short, _ := c.replica("short", c.certify("short", "--valid", valid.String()))
	long, _ := c.replica("long", c.certify("long"))
	short.mustStart()
	long.mustStart()
	var last *writv1.RedeemRequest
	for i := 0; ; i++ {
		if time.Since(began) > 5*soon {
			t.Fatal("it mints still")
		}
		p := propose("u", putTool(1), fmt.Sprint("n-", i))
		a, err := short.life.Load().decide(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if a.GetGrant().GetToken() == "" {
			if d := a.GetDecision(); d.GetCode() != "GRANT_INVALID" || d.GetOutcome() != writv1.Outcome_OUTCOME_DENY || !strings.Contains(d.GetExplanation(), "certified") {
				t.Errorf("%v", d)
			}
			break
		}
		last = redemption(p, a.GetGrant().GetToken(), redemptionID())
		time.Sleep(50 * time.Millisecond)
	}
	if time.Since(began) < valid-time.Second {
		t.Errorf("it mints no more after %v", time.Since(began))
	}
	if last == nil {
		t.Fatal("it never minted")
	}
	redeemed(t, long, last, "GRANT_INVALID")
	told := troublesOf(t, short)["keys"]
	if len(told) == 0 || !strings.Contains(strings.Join(told, " "), "no longer certified") {
		t.Errorf("/readyz tells %v", told)
	}
	redeemed(t, short, granted(t, long, "other"), "REDEEMED") // that needs no key
	short.kill()
	if err := short.start(); err == nil || !strings.Contains(short.told(), "its time is over") {
		t.Errorf("it starts again: %v", err)
	}
}

// TestKeyRevoked: what a revoked key has signed is worth nothing, at any
// replica, and what others have signed is.
func TestKeyRevoked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Config{})
	all, _ := c.replicas(3)
	var void []*writv1.RedeemRequest
	for i := range all {
		void = append(void, granted(t, all[0], fmt.Sprint("void-", i)))
	}
	good := granted(t, all[1], "good")
	run(t, 0, append([]string{"revoke", "key", pdpIssuer, kid(t, void[0].GetGrant()), "--reason", "stolen"}, all[2].at()...)...)
	for i, r := range all {
		redeemed(t, r, void[i], "GRANT_REVOKED")
	}
	redeemed(t, all[0], good, "REDEEMED")
}

// TestKeyShared: two replicas that were given one key leave each other alone.
func TestKeyShared(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Config{})
	keys := c.certify("one")
	for range 2 {
		r, _ := c.replica("one", keys)
		r.mustStart()
	}
	raw := c.Raw()
	changes := func() (n int64) {
		got, err := raw.Get(t.Context(), "/writ/keys/", clientv3.WithPrefix())
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("%v %v", got, err)
		}
		return got.Kvs[0].Version
	}
	before := changes()
	time.Sleep(2 * time.Second) // in which nothing happens
	if after := changes(); after > before+2 {
		t.Errorf("the key was published %d times in 2s", after-before)
	}
}
