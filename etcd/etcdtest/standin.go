package etcdtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/writ-pdp/writ/cmd/pdp/consoletest"
)

// standInVariable holds where a stand-in listens.
const standInVariable = "WRIT_ETCDTEST_LISTEN"

// StandIn makes a command etcd in a directory: one real member, which runs until
// it is interrupted. It knows the flag --data-dir alone, and listens at the
// address that is returned in place of etcd's usual one. The package's TestMain
// must call [RunStandIn].
func StandIn(t testing.TB, dir string) (addr string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr = free(t)
	consoletest.Script(t, dir, "etcd", program, standInVariable+"="+addr)
	return addr
}

// RunStandIn makes a process that a [StandIn] has started the etcd, and does not
// return then. Call it first in TestMain.
func RunStandIn() {
	addr := os.Getenv(standInVariable)
	if addr == "" {
		return
	}
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir := flags.String("data-dir", "", "`directory` of the member's data")
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	if err := runStandIn(addr, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runStandIn(addr, dir string) error {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	e := memberConfig()
	e.Dir, e.UnsafeNoFsync, e.LogOutputs = dir, true, []string{filepath.Join(dir, "log")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	e.ListenClientUrls, e.AdvertiseClientUrls = urls(addr), urls(addr)
	e.ListenPeerUrls, e.AdvertisePeerUrls = urls("127.0.0.1:0"), urls("127.0.0.1:0") // nobody else is in the cluster
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	etcd, err := embed.StartEtcd(e)
	if err != nil {
		return err
	}
	<-interrupted.Done()
	etcd.Server.HardStop()
	etcd.Close()
	return nil
}
