package etcdtest_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/approval/storetest"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
	"github.com/writ-pdp/writ/keyring"
)

// What is under the prefix and is not as it must be is refused and reported,
// the last world stays, nothing is heard, and all goes on once it is mended.
func TestDamage(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	p := newPusher(t, c)
	raw := c.Raw()
	p.push(version(1))
	first := startReplica(t, &worlds{}, config(c))
	first.append(intent("a"))
	first.await(1, 1)
	first.stop()

	put := func(key, value string) {
		t.Helper()
		if _, err := raw.Put(t.Context(), "/writ/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(key string) {
		t.Helper()
		if _, err := raw.Delete(t.Context(), "/writ/"+key); err != nil {
			t.Fatal(err)
		}
	}
	read := func(key string) string {
		t.Helper()
		got, err := raw.Get(t.Context(), "/writ/"+key)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatal(got, err)
		}
		return string(got.Kvs[0].Value)
	}
	const entry, next = "state/revocations/00000000000000000001", "state/revocations/00000000000000000002"
	log, pointer, source, sequence := read(entry), read("state/current"), read("state/source"), read("state/sequence")
	id := strings.TrimPrefix(sequence, "1 ")
	after := strings.Replace(log, `"id":"`+id+`"`, `"id":"next","previous":"`+id+`"`, 1) // what could come next
	if !strings.Contains(pointer, `"generation":1,`) || after == log {
		t.Fatal(pointer, log)
	}
	for _, d := range []struct {
		name string
		do   func()
		mend func()
		want string
	}{
		{"a strange key", func() { put("state/x", "y") }, func() { remove("state/x") }, "Writ writes no such key"},
		{"a pointer that is none", func() { put("state/current", "garbage") }, func() { put("state/current", pointer) }, "not as Writ writes it"},
		{"a pointer with more", func() { put("state/current", `{"more":1,`+pointer[1:]) }, func() { put("state/current", pointer) }, "not as Writ writes it"},
		{"a pointer to another bundle of that number", func() { put("state/current", strings.Replace(pointer, `"id":"`, `"id":"X`, 1)) },
			func() { put("state/current", pointer) }, "generation 1 comes after 1"},
		{"no pointer", func() { remove("state/current") }, func() { put("state/current", pointer) }, "it was deleted"},
		{"another source", func() { put("state/source", "another") }, func() { put("state/source", source) }, "the source is"},
		{"no source", func() { remove("state/source") }, func() { put("state/source", source) }, "it was deleted"},
		{"a sequence that is ahead", func() { put("state/sequence", "2 x") }, func() { put("state/sequence", sequence) }, "the log ends with 1"},
		{"a sequence that is none", func() { put("state/sequence", "01 x") }, func() { put("state/sequence", sequence) }, "it is no end of the log"},
		{"entries with a gap", func() { put("state/revocations/00000000000000000003", log) },
			func() { remove("state/revocations/00000000000000000003") }, "goes on with entry 2"},
		{"entries without a number", func() { put("state/revocations/2", log) }, func() { remove("state/revocations/2") }, "no place in the log"},
		{"entries that are none", func() { put(next, "{}") }, func() { remove(next) }, "no id or no entries"},
		{"entries of no kind", func() { put(next, strings.Replace(after, `"intent"`, `"nobody"`, 1)) }, func() { remove(next) }, "the log ends with 2"},
		{"entries under a generation that didn't stand", func() {
			if _, err := raw.Txn(t.Context()).Then(clientv3.OpPut("/writ/"+next, strings.Replace(after, `"generation":1`, `"generation":7`, 1)),
				clientv3.OpPut("/writ/state/sequence", "2 next")).Commit(); err != nil {
				t.Fatal(err)
			}
		}, func() { remove(next); put("state/sequence", sequence) }, "did not stand"},
		{"an entry that says nothing", func() {
			if _, err := raw.Txn(t.Context()).Then(clientv3.OpPut("/writ/"+next, strings.Replace(after, `"intent"`, `"nobody"`, 1)),
				clientv3.OpPut("/writ/state/sequence", "2 next")).Commit(); err != nil {
				t.Fatal(err)
			}
		}, func() { remove(next); put("state/sequence", sequence) }, "no entry may say"},
		{"entries of another history", func() { put(next, strings.Replace(after, `"previous":"`, `"previous":"X`, 1)) }, func() { remove(next) }, "does not follow"},
		{"entries written over", func() { put(entry, strings.Replace(log, `"a"`, `"z"`, 1)) }, func() { remove(entry); put(entry, log) }, "written over"},
		{"entries taken away", func() { remove(entry) }, func() { put(entry, log) }, "deleted"},
		{"entries replaced", func() { remove(entry); put(entry, strings.Replace(log, `"a"`, `"z"`, 1)) }, func() { remove(entry); put(entry, log) }, "deleted"},
	} {
		t.Run(d.name, func(t *testing.T) {
			r := startReplica(t, &worlds{}, config(c))
			r.await(1, 1)
			r.awaitHeard()
			d.do()
			eventually(t, func() error {
				err := fmt.Sprint(r.follower.Status().Fault, r.Status().Fault)
				if r.follower.Status().Fault == nil || !strings.Contains(err, d.want) {
					return fmt.Errorf("the fault is %v; want %q", err, d.want)
				}
				return nil
			})
			heard := r.holder.HeardAt()
			time.Sleep(200 * time.Millisecond)
			if now := r.holder.HeardAt(); now != heard {
				t.Error("a source that can't be read counts as heard of")
			}
			if at := r.at(); at.Generation != 1 || at.Sequence != 1 || !r.revokes(intent("a")) {
				t.Errorf("the last world does not stay: %v", at)
			}
			d.mend()
			eventually(t, func() error { return r.follower.Status().Fault })
			r.awaitHeard()
		})
	}
}

// A file in etcd that is not what was pushed is refused; pushing it again with
// every file mends it.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	p := newPusher(t, c)
	raw := c.Raw()
	p.push(version(1))
	got, err := raw.Get(t.Context(), "/writ/files/", clientPrefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		if _, err := raw.Put(t.Context(), string(kv.Key), "other"); err != nil {
			t.Fatal(err)
		}
	}
	r := startReplica(t, &worlds{}, config(c))
	eventually(t, func() error {
		if err := r.follower.Status().Fault; err == nil || !strings.Contains(err.Error(), "--again") {
			return fmt.Errorf("the fault is %v", err)
		}
		return nil
	})
	if r.holder.Load() != nil || !r.holder.HeardAt().IsZero() {
		t.Error("a damaged bundle is in force, or etcd counts as heard of without it")
	}
	for _, kv := range got.Kvs { // put back, and found by itself
		if _, err := raw.Put(t.Context(), string(kv.Key), string(kv.Value)); err != nil {
			t.Fatal(err)
		}
	}
	r.await(1, 0)
	out, err := p.Push(t.Context(), version(1), etcd.PushOptions{Again: true})
	if err != nil || out.Generation.Number != 2 || out.Uploaded != 4 {
		t.Fatalf("%+v %v", out, err)
	}
	r.await(2, 0)
	eventually(t, func() error { return r.follower.Status().Fault })
	r.awaitHeard()
}

// The roles of docs/etcd.md are enough for a replica and for a push.
func TestRoles(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	raw := c.Raw()
	ctx := t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	allow := func(role, key, end string, kind clientv3.PermissionType) {
		t.Helper()
		_, err := raw.RoleGrantPermission(ctx, role, key, end, kind)
		do(nil, err)
	}
	do(raw.RoleAdd(ctx, "root"))
	do(raw.RoleAdd(ctx, "pusher"))
	do(raw.RoleAdd(ctx, "replica"))
	allow("pusher", "/writ/", clientv3.GetPrefixRangeEnd("/writ/"), clientv3.PermissionType(clientv3.PermReadWrite))
	text, err := os.ReadFile("../../docs/etcd.md")
	do(nil, err)
	granted := regexp.MustCompile(`etcdctl role grant-permission writ-replica +(--prefix=true)? +(read|readwrite) +(\S+)`).FindAllStringSubmatch(string(text), -1)
	if len(granted) < 5 {
		t.Fatalf("docs/etcd.md grants %q", granted)
	}
	for _, g := range granted {
		end, kind := "", clientv3.PermissionType(clientv3.PermRead)
		if g[1] != "" {
			end = clientv3.GetPrefixRangeEnd(g[3])
		}
		if g[2] == "readwrite" {
			kind = clientv3.PermissionType(clientv3.PermReadWrite)
		}
		allow("replica", g[3], end, kind)
	}
	for _, user := range []string{"root", "pusher", "replica"} {
		do(raw.UserAdd(ctx, user, "secret-of-"+user))
		do(raw.UserGrantRole(ctx, user, user))
	}
	do(raw.AuthEnable(ctx))

	as := func(user string) etcd.Config {
		cfg := config(c)
		cfg.Username, cfg.Password = user, "secret-of-"+user
		return cfg
	}
	_, err = etcd.Open(ctx, config(c))
	mustFail(t, err, "wants a user")
	wrong := as("replica")
	wrong.Password = "wrong"
	_, err = etcd.Open(ctx, wrong)
	mustFail(t, err, "refused the user name or password")
	_, err = etcd.Open(ctx, as("replica"))
	mustFail(t, err, "may not do this")

	client, err := etcd.Dial(as("pusher"))
	do(nil, err)
	defer client.Close()
	do(client.Push(ctx, version(1), etcd.PushOptions{}))
	r := startReplica(t, &worlds{}, as("replica"))
	r.await(1, 0)
	r.append(intent("a"))
	do(client.Push(ctx, version(2), etcd.PushOptions{Grace: time.Nanosecond, Keep: 2}))
	r.await(2, 1)
	r.awaitHeard()

	// What replicas share, in each of its ways.
	l := openLedger(t, as("replica"), etcd.LedgerConfig{})
	one := ledgertest.NewClaim(1)
	one.Revocations = 1
	claims(t, l, one, grant.Claimed)
	do(l.Settle(ctx, ledgertest.NewEffect(1)))
	do(l.Sweep(ctx, one.Now))
	do(openReviews(t, as("replica"), approval.Limits{}).Open(ctx, storetest.Review("a", storetest.Start)))
	startSigner(t, as("replica"), keyring.Generate()).stop()

	weak, err := etcd.Dial(as("replica"))
	do(nil, err)
	defer weak.Close()
	_, err = weak.Push(ctx, version(3), etcd.PushOptions{})
	mustFail(t, err, "may not do this")
}
