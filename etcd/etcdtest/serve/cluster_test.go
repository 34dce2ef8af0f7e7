package serve_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// cluster is three members of etcd and what is needed to run replicas on it.
type cluster struct {
	*etcdtest.Cluster
	t      testing.TB
	pusher *etcd.Client
	dir    string // of keys
	root   string // file of the root's key
}

func newCluster(t testing.TB, cfg etcdtest.Config) *cluster {
	t.Helper()
	c := &cluster{t: t, Cluster: etcdtest.Start(t, cfg), dir: t.TempDir()}
	var err error
	if c.pusher, err = etcd.Dial(etcd.Config{Endpoints: c.Endpoints(), Probe: 50 * time.Millisecond, RequestTimeout: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.pusher.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.push(version(1)); err != nil {
		t.Fatal(err)
	}
	c.root = filepath.Join(c.dir, "root.key")
	run(t, 0, "keys", "root", c.root)
	return c
}

// push pushes a bundle, again where that is not known to have been done.
func (c *cluster) push(files []bundle.File) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for {
		_, err := c.pusher.Push(ctx, files, etcd.PushOptions{By: "test"})
		if err == nil {
			return nil
		}
		if !errors.Is(err, etcd.ErrConcurrent) || ctx.Err() != nil {
			return fmt.Errorf("pushing: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// certify makes a replica's key, in a directory of this name.
func (c *cluster) certify(name string, flags ...string) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	run(c.t, 0, append([]string{"keys", "replica", name, dir, "--root", c.root}, flags...)...)
	return dir
}

// replica makes a replica with these keys, which reaches the members by proxies
// of its own, in their order.
func (c *cluster) replica(name, keys string) (*replica, []*etcdtest.Proxy) {
	c.t.Helper()
	var proxies []*etcdtest.Proxy
	var addrs []string
	for _, m := range c.Members {
		p := etcdtest.NewProxy(c.t, m.Client.Addr())
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	return newReplica(c.t, name, "--etcd", strings.Join(addrs, ","), "--replica-keys", keys), proxies
}

// replicas starts some, each with a key of its own.
func (c *cluster) replicas(n int) (all []*replica, proxies [][]*etcdtest.Proxy) {
	c.t.Helper()
	for i := range n {
		name := fmt.Sprintf("replica-%d", i)
		r, p := c.replica(name, c.certify(name))
		r.mustStart()
		all, proxies = append(all, r), append(proxies, p)
	}
	return all, proxies
}
