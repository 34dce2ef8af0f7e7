package etcdtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// Config says what cluster to run.
type Config struct {
	Members int   // 0: 3
	Quota   int64 // bytes of each member's store; 0: etcd's default
	// Sync has members sync their logs to the disk, as in earnest. Otherwise
	// they don't, to be faster.
	Sync bool
	// Processes has each member be a process of its own, which can be killed and
	// paused. The package's TestMain must call [RunMember].
	Processes bool
	// TLS has each member show its certificate to clients, and demand one of the
	// CA's. Members are in this process then. Nil: no TLS.
	TLS *TLS
}

// TLS is how members meet clients.
type TLS struct {
	CA      *CA
	Members []Pair // one for each
	Most    string // the greatest version that they speak, as --tls-max-version has it; empty: all
}

// Cluster is a cluster of etcd members in this process.
type Cluster struct {
	Members []*Member
	t       testing.TB

	mu  sync.Mutex
	cut map[string]bool // guarded by mu: ids of members that are cut off from the others
}

// Member is one member. Clients reach it through its proxy.
type Member struct {
	Client *Proxy
	Dir    string
	peers  *Proxy
	apart  bool // it is a process
	config func() *embed.Config
	etcd   *embed.Etcd  // nil: stopped, or a process
	child  *child       // nil: stopped, or in this process
	id     atomic.Value // a string: as members name it to each other
}

// name is how members name m to each other; empty before its first start.
func (m *Member) name() string {
	id, _ := m.id.Load().(string)
	return id
}

// Start runs a cluster until the test ends.
func Start(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	if cfg.Members == 0 {
		cfg.Members = 3
	}
	c := &Cluster{t: t, cut: map[string]bool{}}
	var initial []string
	for i := range cfg.Members {
		clientAddr, peerAddr := free(t), free(t)
		m := &Member{Dir: filepath.Join(t.TempDir(), "etcd"), apart: cfg.Processes}
		m.Client = newProxy(t, clientAddr, nil)
		m.peers = newProxy(t, peerAddr, func(from string) bool { return c.mayReach(from, m) })
		name := fmt.Sprintf("m%d", i)
		initial = append(initial, name+"=http://"+m.peers.Addr())
		m.config = func() *embed.Config {
			e := memberConfig()
			e.Name, e.Dir, e.InitialCluster = name, m.Dir, strings.Join(initial, ",")
			e.ListenClientUrls, e.AdvertiseClientUrls = urls(clientAddr), urls(m.Client.Addr())
			if cfg.TLS != nil {
				e.ListenClientUrls[0].Scheme, e.AdvertiseClientUrls[0].Scheme = "https", "https"
				door, own := &e.ClientTLSInfo, cfg.TLS.Members[i]
				door.CertFile, door.KeyFile, door.TrustedCAFile, door.ClientCertAuth = own.Cert, own.Key, cfg.TLS.CA.File, true
				e.TlsMaxVersion = cfg.TLS.Most
			}
			e.ListenPeerUrls, e.AdvertisePeerUrls = urls(peerAddr), urls(m.peers.Addr())
			e.UnsafeNoFsync = !cfg.Sync
			e.QuotaBackendBytes = cfg.Quota
			e.LogOutputs = []string{filepath.Join(filepath.Dir(m.Dir), "log")}
			return e
		}
		c.Members = append(c.Members, m)
	}
	t.Cleanup(func() {
		c.each(func(m *Member) { m.stop() })
	})
	c.each(func(m *Member) { m.start(t) })
	if t.Failed() {
		t.FailNow()
	}
	for _, m := range c.Members {
		m.wait(t)
	}
	return c
}

// memberConfig is what all members have in common.
func memberConfig() *embed.Config {
	e := embed.NewConfig()
	e.TickMs, e.ElectionMs = 50, 1000
	e.SocketOpts.ReuseAddress = true
	e.EnableGRPCGateway = false
	e.BcryptCost = 4 // the least: passwords of tests are no secrets
	e.Logger, e.LogLevel = "zap", "fatal"
	return e
}

// each runs f for all members at once.
func (c *Cluster) each(f func(*Member)) {
	var group sync.WaitGroup
	for _, m := range c.Members {
		group.Go(func() { f(m) })
	}
	group.Wait()
}

func urls(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }

// free returns an address that nobody listens at. Its port is below those that
// systems give to whoever connects, so that nobody gets it until it is used.
func free(t testing.TB) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

func (m *Member) start(t testing.TB) {
	if m.apart {
		m.startChild(t)
		return
	}
	var err error
	for range 50 { // the port may be taken for a moment
		if m.etcd, err = embed.StartEtcd(m.config()); err == nil {
			m.id.Store(m.etcd.Server.MemberID().String())
			return
		}
		m.etcd = nil
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("starting a member: %v", err)
}

// patience is how long anything may take.
const patience = 60 * time.Second

func (m *Member) wait(t testing.TB) {
	t.Helper()
	if m.apart {
		m.waitChild(t)
		return
	}
	select {
	case <-m.etcd.Server.ReadyNotify():
	case <-time.After(patience):
		t.Fatal("a member is not ready")
	}
}

func (m *Member) stop() {
	m.stopChild()
	if m.etcd != nil {
		m.Client.cut()
		m.etcd.Server.HardStop() // as if killed: it would first try to give leadership to members that may be stopping, too
		m.etcd.Close()
		m.etcd = nil
	}
}

// Stop ends a member. Its data stays.
func (c *Cluster) Stop(m *Member) { m.stop() }

// Restart starts a member that was stopped.
func (c *Cluster) Restart(m *Member) {
	c.t.Helper()
	m.start(c.t)
	m.wait(c.t)
}

// RestartAll stops all members, then runs change, then starts them again.
func (c *Cluster) RestartAll(change func()) {
	c.t.Helper()
	c.each((*Member).stop)
	change()
	c.each(func(m *Member) { m.start(c.t) })
	for _, m := range c.Members {
		m.wait(c.t)
	}
}

// Leader waits until there is a leader, and returns it.
func (c *Cluster) Leader() *Member {
	c.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, m := range c.Members {
			if m.name() != "" && !c.isCut(m.name()) && m.leader() == m.name() {
				return m
			}
		}
	}
	c.t.Fatal("there is no leader")
	return nil
}

// Other returns a member that isn't m.
func (c *Cluster) Other(m *Member) *Member {
	for _, o := range c.Members {
		if o != m {
			return o
		}
	}
	return nil
}

// Isolate cuts a member off from the others, not from clients; or joins it
// again.
func (c *Cluster) Isolate(m *Member, on bool) {
	c.mu.Lock()
	c.cut[m.name()] = on
	c.mu.Unlock()
	for _, m := range c.Members {
		m.peers.cut()
	}
}

func (c *Cluster) isCut(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut[id]
}

func (c *Cluster) mayReach(from string, to *Member) bool {
	return !c.isCut(from) && !c.isCut(to.name())
}

// Endpoints returns where clients reach these members; without any, all.
func (c *Cluster) Endpoints(members ...*Member) []string {
	if len(members) == 0 {
		members = c.Members
	}
	var all []string
	for _, m := range members {
		all = append(all, m.Client.Addr())
	}
	return all
}

// Raw returns a client of etcd itself.
func (c *Cluster) Raw() *clientv3.Client {
	c.t.Helper()
	raw, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: 5 * time.Second,
		Logger: clientv3.NewCtxClient(c.t.Context()).GetLogger()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { raw.Close() })
	return raw
}

// Copy copies a member's data, which must be stopped, to a directory or back.
func Copy(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
