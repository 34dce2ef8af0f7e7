package etcdtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
)

// Whatever strange stands in the ledger, nothing is claimed over it.
func TestLedgerDamage(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	raw := c.Raw()
	one := ledgertest.NewClaim(1)
	const place = "/writ/ledger/"
	for name, test := range map[string]struct{ key, value, why string }{
		"grant":             {"grants/" + one.Grant, "x", "who has redeemed"},
		"empty grant":       {"grants/" + one.Grant, "", "who has redeemed"},
		"proposal":          {"proposals/" + one.Proposal, "D1 sha256:00 x", "who has redeemed"},
		"done":              {"done/" + one.Plan.IdempotencyKey, "", "who has had its effect"},
		"strange done":      {"done/" + one.Plan.IdempotencyKey, "D 2", "who has had its effect"},
		"instance":          {"instance", "another1", "restart this server"},
		"overwritten grant": {"grants/" + one.Grant, "D1 " + one.Attempt.String() + " CALL", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(c)
			cfg.Prefix = fmt.Sprintf("/damage-%x/", name)
			l := openLedger(t, cfg, etcd.LedgerConfig{})
			key := strings.Replace(place, "/writ/", cfg.Prefix, 1) + test.key
			claims(t, l, ledgertest.NewClaim(9), grant.Claimed) // all else is in place
			if test.why == "" {                                 // claimed, and then written over
				claims(t, l, one, grant.Claimed)
				test.why = "who has redeemed"
			}
			if _, err := raw.Put(t.Context(), key, test.value); err != nil {
				t.Fatal(err)
			}
			refuses(t, l, one, test.why)
		})
	}
	l := openLedger(t, config(c), etcd.LedgerConfig{})
	claims(t, l, one, grant.Claimed)
	for _, value := range []string{"", "{}", "null", `{"id":"D1"}`} {
		if _, err := raw.Put(t.Context(), place+"redemptions/D1", value); err != nil {
			t.Fatal(err)
		}
		_, err := l.Redemption(t.Context(), "D1")
		mustFail(t, err, "/writ/ledger/redemptions/D1")
		_, err = l.Attempt(t.Context(), one.Proposal)
		mustFail(t, err, "/writ/ledger/redemptions/D1")
		got, err := l.Settle(t.Context(), ledgertest.NewEffect(1))
		mustFail(t, err, "/writ/ledger/redemptions/D1")
		if got != grant.Unknown {
			t.Errorf("settled: %v", got)
		}
	}
	if _, err := raw.Delete(t.Context(), place+"redemptions/D1"); err != nil {
		t.Fatal(err)
	}
	_, err := l.Attempt(t.Context(), one.Proposal)
	mustFail(t, err, "is not there")
	claims(t, l, one, grant.Repeated)

	three := ledgertest.NewClaim(3)
	claims(t, l, three, grant.Claimed)
	if _, err := raw.Put(t.Context(), place+"done/"+three.Plan.IdempotencyKey, "D/3"); err != nil {
		t.Fatal(err)
	}
	_, err = l.Attempt(t.Context(), three.Proposal)
	mustFail(t, err, "/writ/ledger/done/"+three.Plan.IdempotencyKey)
	refuses(t, l, three, "who has had its effect")

	two := ledgertest.NewClaim(2)
	two.Revocations = 1
	refuses(t, l, two, "backup")
	if _, err := raw.Put(t.Context(), "/writ/state/sequence", "1"); err != nil {
		t.Fatal(err)
	}
	refuses(t, l, two, "no end of a log")

	// What is due can't name what is never forgotten.
	for _, value := range []string{`["instance"]`, `["../state/source"]`, `["grants/../../state/source"]`, `["timers/1"]`, `[]`, `["grants/"]`, "x"} {
		if _, err := raw.Put(t.Context(), place+"due/00000000000000000001/D9", value); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Sweep(t.Context(), one.Now); err == nil || n != 0 {
			t.Errorf("%s: removed %d, %v", value, n, err)
		}
	}
}

// etcd is brought back from a copy that has forgotten a redemption.
func TestLedgerBackup(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	l, idle := openLedger(t, config(c), etcd.LedgerConfig{}), openLedger(t, config(c), etcd.LedgerConfig{})
	claims(t, l, ledgertest.NewClaim(1), grant.Claimed)
	backup := t.TempDir() + "/backup"
	c.RestartAll(func() { etcdtest.Copy(t, c.Members[0].Dir, backup) })
	claims(t, l, ledgertest.NewClaim(2), grant.Claimed)
	claims(t, l, ledgertest.NewClaim(3), grant.Claimed)
	c.RestartAll(func() { etcdtest.Copy(t, backup, c.Members[0].Dir) })
	two := ledgertest.NewClaim(2)
	two.Attempt = ledgertest.Attempt(9)
	eventually(t, func() error {
		got, err := l.Claim(t.Context(), two)
		if got != grant.Unknown {
			t.Fatalf("claimed twice: %v", got)
		}
		if err == nil || !strings.Contains(err.Error(), "backup") {
			return fmt.Errorf("an older etcd is believed: %v", err)
		}
		return nil
	})
	// Who did not redeem what was forgotten is told, and does not redeem it again.
	three := ledgertest.NewClaim(3)
	three.Attempt = ledgertest.Attempt(9)
	refuses(t, idle, three, "restart this server")
	again := openLedger(t, config(c), etcd.LedgerConfig{})
	if again.Instance() == l.Instance() {
		t.Error("the instance is the one of before")
	}
	claims(t, again, ledgertest.NewClaim(1), grant.Repeated)
	// What is new is nobody's to void.
	refuses(t, l, ledgertest.NewClaim(4), "backup")
	claims(t, again, ledgertest.NewClaim(4), grant.Claimed)
}

// Nobody redeems in an etcd that has gone back, whoever looks at it: what is due
// is looked for every other minute.
func TestLedgerBackupUnused(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	l, idle := openLedger(t, config(c), etcd.LedgerConfig{}), openLedger(t, config(c), etcd.LedgerConfig{})
	backup := t.TempDir() + "/backup"
	c.RestartAll(func() { etcdtest.Copy(t, c.Members[0].Dir, backup) })
	one := ledgertest.NewClaim(1)
	claims(t, l, one, grant.Claimed)
	c.RestartAll(func() { etcdtest.Copy(t, backup, c.Members[0].Dir) })
	eventually(t, func() error {
		if _, err := l.Sweep(t.Context(), one.Now); err == nil || !strings.Contains(err.Error(), "backup") {
			return fmt.Errorf("an older etcd is believed: %v", err)
		}
		return nil
	})
	one.Attempt = ledgertest.Attempt(9)
	refuses(t, idle, one, "restart this server")
}

// Who restores a backup and gives the store another source id, as docs/etcd.md
// says, must void what was granted before, too.
func TestLedgerOfAnotherSource(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	openLog(t, config(c)) // which makes the source
	before := openLedger(t, config(c), etcd.LedgerConfig{})
	if again := openLedger(t, config(c), etcd.LedgerConfig{}); again.Instance() != before.Instance() {
		t.Error("two replicas have two instances")
	}
	raw := c.Raw()
	if _, err := raw.Put(t.Context(), "/writ/state/source", "restored"); err != nil {
		t.Fatal(err)
	}
	client, err := etcd.Dial(config(c))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = etcd.OpenLedger(t.Context(), client, etcd.LedgerConfig{})
	mustFail(t, err, "delete /writ/ledger/instance")
	if _, err := raw.Delete(t.Context(), "/writ/ledger/instance"); err != nil {
		t.Fatal(err)
	}
	if after := openLedger(t, config(c), etcd.LedgerConfig{}); after.Instance() == before.Instance() {
		t.Error("what was granted before is not void")
	}
	openLedger(t, config(c), etcd.LedgerConfig{})
}

// A ledger that a replica does not know any more, since it was made anew.
func TestLedgerAnew(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	l := openLedger(t, config(c), etcd.LedgerConfig{})
	claims(t, l, ledgertest.NewClaim(1), grant.Claimed)
	if _, err := c.Raw().Delete(t.Context(), "/writ/ledger/", clientPrefix); err != nil {
		t.Fatal(err)
	}
	refuses(t, l, ledgertest.NewClaim(1), "restart this server")
	other := openLedger(t, config(c), etcd.LedgerConfig{})
	refuses(t, l, ledgertest.NewClaim(1), "restart this server")
	claims(t, other, ledgertest.NewClaim(1), grant.Claimed)
}
