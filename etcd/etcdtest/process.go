package etcdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// memberVariable holds a child's settings.
const memberVariable = "WRIT_ETCDTEST_MEMBER"

// settings are what a member is started with.
type settings struct {
	Name, Dir, Initial, Log                      string
	Client, AdvertiseClient, Peer, AdvertisePeer url.URL
	NoSync                                       bool
	Quota                                        int64
}

// RunMember makes a process that [Start] has started an etcd member, and does
// not return then. Call it first in TestMain.
func RunMember() {
	text := os.Getenv(memberVariable)
	if text == "" {
		return
	}
	if err := runMember(text); err != nil {
		fmt.Fprintln(os.Stderr, "a member of etcd:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runMember(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	e := memberConfig()
	e.Name, e.Dir, e.InitialCluster = s.Name, s.Dir, s.Initial
	e.ListenClientUrls, e.AdvertiseClientUrls = []url.URL{s.Client}, []url.URL{s.AdvertiseClient}
	e.ListenPeerUrls, e.AdvertisePeerUrls = []url.URL{s.Peer}, []url.URL{s.AdvertisePeer}
	e.UnsafeNoFsync, e.QuotaBackendBytes, e.LogOutputs = s.NoSync, s.Quota, []string{s.Log}
	etcd, err := embed.StartEtcd(e)
	if err != nil {
		return err
	}
	// Who started this process holds the other end, and ends with it.
	_, _ = io.Copy(io.Discard, os.Stdin)
	etcd.Server.HardStop()
	return nil
}

// child is a member's process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when it has ended
}

func (m *Member) startChild(t testing.TB) {
	e := m.config()
	text, err := json.Marshal(&settings{
		Name: e.Name, Dir: e.Dir, Initial: e.InitialCluster, Log: e.LogOutputs[0],
		Client: e.ListenClientUrls[0], AdvertiseClient: e.AdvertiseClientUrls[0],
		Peer: e.ListenPeerUrls[0], AdvertisePeer: e.AdvertisePeerUrls[0],
		NoSync: e.UnsafeNoFsync, Quota: e.QuotaBackendBytes,
	})
	if err != nil {
		t.Error(err)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Error(err)
		return
	}
	c := &child{cmd: exec.Command(program), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), memberVariable+"="+string(text))
	output, err := os.OpenFile(filepath.Join(filepath.Dir(m.Dir), "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer output.Close()
	c.cmd.Stdout, c.cmd.Stderr = output, output
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Error(err)
		return
	}
	if err := c.cmd.Start(); err != nil {
		t.Errorf("starting a member: %v", err)
		return
	}
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait() // it is killed
	}()
	m.child = c
}

// waitChild waits until it answers. It has an id then.
func (m *Member) waitChild(t testing.TB) {
	t.Helper()
	if m.child == nil {
		t.Fatal("a member was not started")
	}
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-m.child.done:
			output, _ := os.ReadFile(filepath.Join(filepath.Dir(m.Dir), "output"))
			t.Fatalf("a member has ended: %s", output)
		default:
		}
		var status *clientv3.StatusResponse
		if status, err = m.status(); err == nil {
			m.id.Store(strconv.FormatUint(status.Header.MemberId, 16))
			return
		}
	}
	t.Fatalf("a member is not ready: %v", err)
}

// status asks the member itself.
func (m *Member) status() (*clientv3.StatusResponse, error) {
	addr := m.config().ListenClientUrls[0].Host
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: clientv3.NewCtxClient(ctx).GetLogger()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx, addr)
}

// leader is who leads, as the member says; empty: it does not say.
func (m *Member) leader() string {
	switch {
	case m.etcd != nil:
		return m.etcd.Server.Leader().String()
	case m.child != nil:
		if status, err := m.status(); err == nil {
			return strconv.FormatUint(status.Leader, 16)
		}
	}
	return ""
}

func (m *Member) stopChild() {
	if m.child == nil {
		return
	}
	m.Client.cut()
	_ = m.child.cmd.Process.Kill() // SIGKILL, also where it is paused
	<-m.child.done
	_ = m.child.stdin.Close()
	m.child = nil
}

// Pause stops a member's process where it stands (SIGSTOP), or has it go on.
// The kernel still takes what is sent to it.
func (c *Cluster) Pause(m *Member, on bool) {
	c.t.Helper()
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	if err := m.child.cmd.Process.Signal(signal); err != nil {
		c.t.Error(err)
	}
}
