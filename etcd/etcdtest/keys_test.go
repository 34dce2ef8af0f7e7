package etcdtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/keyring"
)

// signer is a replica that signs, and knows the keys of the others.
type signer struct {
	*etcd.Keys
	key       *keyring.Key
	ring      *keyring.Ring
	statement string
	stop      func()
}

// certify has the root say that a key is a replica's.
func certify(t testing.TB, root *keyring.Key, key *keyring.Key, instance string, life time.Duration) string {
	t.Helper()
	now := time.Now()
	statement, err := keyring.CertifyReplica(root, keyring.Replica{Name: "replica", Public: key.Public(), Instance: instance,
		IssuedAt: now.Add(-time.Minute), ExpiresAt: now.Add(life)})
	if err != nil {
		t.Fatal(err)
	}
	return statement
}

func startSigner(t testing.TB, cfg etcd.Config, root *keyring.Key) *signer {
	t.Helper()
	s := &signer{key: keyring.Generate()}
	var err error
	if s.ring, err = keyring.New(keyring.Config{Key: s.key}, time.Now()); err != nil {
		t.Fatal(err)
	}
	client, err := etcd.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if s.Keys, err = etcd.OpenKeys(ctx, client, etcd.KeysConfig{Root: root.Public(), Instance: "here", Ring: s.ring}); err != nil {
		t.Fatal(err)
	}
	s.statement = certify(t, root, s.key, "here", time.Hour)
	if err := s.Publish(ctx, s.statement); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(running) }()
	s.stop = func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	return s
}

// opens reports whether a replica believes what a key signs.
func (s *signer) opens(key *keyring.Key) bool {
	_, _, err := s.ring.Open(keyring.TypeGrant, key.Sign(keyring.TypeGrant, []byte("{}")), 1<<12, time.Now())
	return err == nil
}

// awaitOpens waits until a replica believes a key, or does not.
func (s *signer) awaitOpens(t testing.TB, key *keyring.Key, want bool) {
	t.Helper()
	eventually(t, func() error {
		if s.opens(key) != want {
			return fmt.Errorf("a replica should believe a key: %v; %+v", want, s.Status())
		}
		return nil
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	raw, root := c.Raw(), keyring.Generate()
	one, two := startSigner(t, config(c), root), startSigner(t, config(c), root)
	defer one.stop()
	one.awaitOpens(t, two.key, true)
	two.awaitOpens(t, one.key, true)

	// Who has not been told yet may ask.
	third := startSigner(t, config(c), root)
	if err := one.Refresh(t.Context()); err != nil || !one.opens(third.key) {
		t.Errorf("a key that was published is not known: %v", err)
	}
	third.stop()
	two.awaitOpens(t, third.key, true) // what it signed is still good
	got, err := raw.Get(t.Context(), "/writ/keys/"+third.key.ID())
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	left, err := raw.TimeToLive(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease))
	if want := int64((24*time.Hour + 10*time.Minute) / time.Second); err != nil || left.GrantedTTL != want || left.TTL < want-120 {
		t.Errorf("its lease is %+v, %v", left, err)
	}
	// When its lease ends, it is not.
	if _, err := raw.Revoke(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	one.awaitOpens(t, third.key, false)

	// Who runs publishes again what somebody has removed, or written over.
	place := "/writ/keys/" + two.key.ID()
	for _, vandal := range []func() error{
		func() error { _, err := raw.Delete(t.Context(), place); return err },
		func() error { _, err := raw.Put(t.Context(), place, "x"); return err },
		func() error { _, err := raw.Put(t.Context(), place, two.statement); return err },
	} {
		if err := vandal(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			got, err := raw.Get(t.Context(), place)
			if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != two.statement || got.Kvs[0].Lease == 0 {
				return fmt.Errorf("%v, %v", got, err)
			}
			return nil
		})
		one.awaitOpens(t, two.key, true)
	}
	// Another key of the same replica; the one before stays.
	next := keyring.Generate()
	if err := two.Publish(t.Context(), certify(t, root, next, "", time.Hour)); err != nil {
		t.Fatal(err)
	}
	two.ring.Use(next, time.Now())
	one.awaitOpens(t, next, true)
	one.awaitOpens(t, two.key, true)
	two.stop()

	// etcd goes, and comes back: who was trusted is.
	c.RestartAll(func() {
		eventually(t, func() error {
			if one.Status().Fault == nil {
				return fmt.Errorf("etcd is gone and nobody says so")
			}
			return nil
		})
		if !one.opens(next) {
			t.Error("a key is gone with etcd")
		}
	})
	eventually(t, func() error { return one.Status().Fault })
	fourth := startSigner(t, config(c), root)
	defer fourth.stop()
	one.awaitOpens(t, fourth.key, true)
}

// Whatever the root has not said is not trusted, and is told.
func TestKeysRefused(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	raw, root, foreign := c.Raw(), keyring.Generate(), keyring.Generate()
	one := startSigner(t, config(c), root)
	defer one.stop()
	lease, err := raw.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	good := keyring.Generate()
	for name, test := range map[string]struct {
		key   *keyring.Key
		value func(k *keyring.Key) string
		place string // empty: the key's
		why   string
	}{
		"another root":     {value: func(k *keyring.Key) string { return certify(t, foreign, k, "here", time.Hour) }, why: "another root signed it"},
		"another instance": {value: func(k *keyring.Key) string { return certify(t, root, k, "there", time.Hour) }, why: "another decision point"},
		"of another key":   {value: func(*keyring.Key) string { return certify(t, root, good, "here", time.Hour) }, why: "of another key"},
		"malformed":        {value: func(*keyring.Key) string { return "x" }, why: "not trusted"},
		"empty":            {value: func(*keyring.Key) string { return "" }, why: "not trusted"},
		"large":            {value: func(*keyring.Key) string { return strings.Repeat("x", 1<<20) }, why: "not trusted"},
		"forged":           {value: func(k *keyring.Key) string { return k.Sign(keyring.TypeReplica, []byte("{}")) }, why: "another root signed it"},
		"over":             {value: func(k *keyring.Key) string { return certify(t, root, k, "here", -time.Second) }, why: "its time is over"},
		"elsewhere":        {value: func(k *keyring.Key) string { return certify(t, root, k, "here", time.Hour) }, place: "x/y", why: "of another key"},
	} {
		t.Run(name, func(t *testing.T) {
			key := keyring.Generate()
			place := "/writ/keys/" + key.ID()
			if test.place != "" {
				place = "/writ/keys/" + test.place
			}
			if _, err := raw.Put(t.Context(), place, test.value(key), clientv3.WithLease(lease.ID)); err != nil {
				t.Fatal(err)
			}
			told := func() bool {
				for _, what := range one.Status().Refused {
					if strings.Contains(what, place) && strings.Contains(what, test.why) {
						return true
					}
				}
				return false
			}
			eventually(t, func() error {
				if !told() {
					return fmt.Errorf("%s is not told: %q", place, one.Status().Refused)
				}
				return nil
			})
			if one.opens(key) || one.opens(good) {
				t.Error("it is trusted")
			}
			if _, err := raw.Delete(t.Context(), place); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				if told() {
					return fmt.Errorf("it is still told")
				}
				return nil
			})
		})
	}
	// Without a lease, it would stay for ever.
	if _, err := raw.Put(t.Context(), "/writ/keys/"+good.ID(), certify(t, root, good, "here", time.Hour)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if len(one.Status().Refused) != 1 {
			return fmt.Errorf("%+v", one.Status())
		}
		return nil
	})
	if one.opens(good) {
		t.Error("it is trusted")
	}
	mustFail(t, one.Publish(t.Context(), certify(t, foreign, one.key, "here", time.Hour)), "another root")
	mustFail(t, one.Publish(t.Context(), certify(t, root, one.key, "there", time.Hour)), "another decision point")
}

func TestKeysConfig(t *testing.T) {
	t.Parallel()
	client, err := etcd.Dial(etcd.Config{Endpoints: []string{"127.0.0.1:1"}, RequestTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ring, err := keyring.New(keyring.Config{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	root := keyring.Generate().Public()
	for _, cfg := range []etcd.KeysConfig{{Ring: ring}, {Root: root}, {Root: root[:5], Ring: ring}, {Root: root, Ring: ring, Keep: time.Second}} {
		if k, err := etcd.OpenKeys(t.Context(), client, cfg); k != nil || err == nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = etcd.OpenKeys(ctx, client, etcd.KeysConfig{Root: root, Ring: ring})
	mustFail(t, err, "reading /writ/keys/")
}
