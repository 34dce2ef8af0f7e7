package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// TestTLS: with members that demand certificates, the command pushes, and two
// replicas share bundle, keys, ledger, reviews and revocations. A certificate
// is read for each connection: one that has ended is told of, and renewed
// without a restart.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := etcdtest.NewCA(t)
	door := &etcdtest.TLS{CA: ca}
	for i := range 3 {
		door.Members = append(door.Members, ca.Server(fmt.Sprint("member-", i), "127.0.0.1"))
	}
	c := &cluster{t: t, Cluster: etcdtest.Start(t, etcdtest.Config{TLS: door}), dir: t.TempDir()}
	members := "https://" + strings.Join(c.Endpoints(), ",https://")
	with := func(own etcdtest.Pair, args ...string) []string {
		return append(args, "--etcd", members, "--etcd-ca", ca.File, "--etcd-cert", own.Cert, "--etcd-key", own.Key)
	}
	run(t, 0, with(ca.Client("pusher", time.Hour), "push", write(t, version(1)))...)
	c.root = filepath.Join(c.dir, "root.key")
	run(t, 0, "keys", "root", c.root)
	var all []*replica
	var shown []etcdtest.Pair
	for i := range 2 {
		name := fmt.Sprint("replica-", i)
		own := ca.Client(name, time.Hour)
		r := newReplica(t, name, with(own, "--replica-keys", c.certify(name))...)
		r.mustStart()
		all, shown = append(all, r), append(shown, own)
	}
	one, two := all[0], all[1]

	first := granted(t, one, "first")
	redeemed(t, two, first, "REDEEMED")
	first.RedemptionId = redemptionID()
	redeemed(t, one, first, "GRANT_ALREADY_USED")
	p := propose("ann", large, "large")
	a, err := one.life.Load().decide(t.Context(), p)
	if err != nil || a.GetReview().GetId() == "" {
		t.Fatalf("%v %v", a, err)
	}
	run(t, 0, append([]string{"review", "reject", a.GetReview().GetId(), "--as", "bob", "--yes", "--reason", "no"}, two.at()...)...)
	second := granted(t, one, "second")
	run(t, 0, append([]string{"revoke", "server", store, "--reason", "test"}, one.at()...)...)
	redeemed(t, two, second, "GRANT_REVOKED")
	run(t, 0, append([]string{"revoke", "server", store, "--reason", "test", "--lift"}, two.at()...)...)

	swap := func(p etcdtest.Pair) {
		for from, to := range map[string]string{p.Cert: shown[0].Cert, p.Key: shown[0].Key} {
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	swap(ca.Client("ended", -time.Hour))
	for _, m := range c.Members {
		m.Client.Refuse(true)
		m.Client.Refuse(false)
	}
	eventually(t, func() error {
		if told := troublesOf(t, one); len(told["source"]) == 0 || !strings.Contains(one.told(), "wants another client certificate") {
			return fmt.Errorf("/readyz tells %v, and the log %s", told, one.told())
		}
		return nil
	})
	swap(ca.Client("renewed", time.Hour))
	eventually(t, func() error {
		if told := troublesOf(t, one); len(told) > 0 {
			return fmt.Errorf("/readyz still tells of %v", told)
		}
		return nil
	})
	redeemed(t, one, granted(t, two, "third"), "REDEEMED")
}

// TestTLSRefused: a command whose certificates are wrong ends, and says what to
// do; and one that would write to another machine in the open does not begin.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	ca := etcdtest.NewCA(t)
	c := etcdtest.Start(t, etcdtest.Config{Members: 1, TLS: &etcdtest.TLS{CA: ca, Members: []etcdtest.Pair{ca.Server("member", "127.0.0.1")}}})
	member, own := c.Endpoints()[0], ca.Client("own", time.Hour)
	keys := t.TempDir()
	root, certified := filepath.Join(keys, "root.key"), filepath.Join(keys, "one")
	run(t, 0, "keys", "root", root)
	run(t, 0, "keys", "replica", "one", certified, "--root", root)
	serve := func(flags ...string) []string {
		return append([]string{"serve", "--replica-keys", certified, "--data", t.TempDir(), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, flags...)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{serve("--etcd", "https://"+member, "--etcd-ca", ca.File), "--etcd-cert"},
		{[]string{"push", "--list", "--etcd", "https://" + member, "--etcd-cert", own.Cert, "--etcd-key", own.Key}, "--etcd-ca"},
		{[]string{"push", "--list", "--etcd", "https://" + member, "--etcd-ca", own.Key}, own.Key},
		{[]string{"push", "--list", "--etcd", "http://" + member, "--etcd-ca", ca.File}, "write https://"},
		{[]string{"push", "--list", "--etcd", "http://192.0.2.1:2379"}, "--etcd-plaintext"},
		{[]string{"push", "--list", "--etcd", "192.0.2.1:2379"}, "--etcd-plaintext"},
		{serve("--etcd", "http://192.0.2.1:2379"), "--etcd-plaintext"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel() // two take the time that is given to reach etcd
			if out := run(t, 1, test.args...); !strings.Contains(out, test.want) {
				t.Errorf("pdp %s: %s\nwant %q", strings.Join(test.args, " "), out, test.want)
			}
		})
	}
}
