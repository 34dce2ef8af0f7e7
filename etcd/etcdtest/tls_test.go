package etcdtest_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// startTLS runs one member, which is at 127.0.0.1.
func startTLS(t *testing.T, ca *etcdtest.CA, own etcdtest.Pair, most string) []string {
	t.Helper()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1, TLS: &etcdtest.TLS{CA: ca, Members: []etcdtest.Pair{own}, Most: most}})
	return c.Endpoints()
}

// Whoever can't be connected to as it should be is not connected to otherwise,
// and the error says where, why and what to do, in good time.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	ca, other := etcdtest.NewCA(t), etcdtest.NewCA(t)
	one := ca.Client("one", time.Hour)
	good := startTLS(t, ca, ca.Server("good", "127.0.0.1"), "")
	const another, clientFlags = "wants another client certificate", "--etcd-cert"
	var all sync.WaitGroup
	defer all.Wait()
	for name, test := range map[string]struct {
		members []string
		tls     *tls.Config
		want    []string
	}{
		"another CA":                      {good, other.Config(one), []string{"unknown authority", "--etcd-ca"}},
		"no client certificate":           {good, ca.Config(etcdtest.Pair{}), []string{another, clientFlags}},
		"a strange client certificate":    {good, ca.Config(other.Client("two", time.Hour)), []string{another, clientFlags}},
		"an expired client certificate":   {good, ca.Config(ca.Client("three", -time.Hour)), []string{another, "valid now"}},
		"without TLS":                     {good, nil, []string{"write https://"}},
		"an expired member's certificate": {startTLS(t, ca, ca.Ended("ended", "127.0.0.1"), ""), ca.Config(one), []string{"has expired", "renew the member's"}},
		"a certificate for another name":  {startTLS(t, ca, ca.Server("elsewhere", "127.0.0.9", "etcd.test"), ""), ca.Config(one), []string{"127.0.0.9, not 127.0.0.1", "write the member's address as"}},
		"TLS 1.2":                         {startTLS(t, ca, ca.Server("old", "127.0.0.1"), "TLS1.2"), ca.Config(one), []string{"protocol version", "--tls-max-version"}},
		"no TLS there":                    {etcdtest.Start(t, etcdtest.Config{Members: 1}).Endpoints(), ca.Config(one), []string{"speaks no TLS"}},
		"nobody there":                    {[]string{"127.0.0.1:1"}, ca.Config(one), []string{"connection refused", "start etcd"}},
	} {
		all.Go(func() { // all wait for most of their time
			cfg := etcd.Config{Endpoints: test.members, TLS: test.tls, RequestTimeout: 2 * time.Second}
			tells := func(what string, err error) {
				for _, want := range append(test.want, test.members[0]) {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %s: %v, want %q", name, what, err, want)
					}
				}
			}
			c, err := etcd.Dial(cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _, err = c.Generations(t.Context()) // which nothing else ends
			tells("asking", err)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = etcd.OpenLedger(ctx, c, etcd.LedgerConfig{})
			tells("the ledger", err)
			cfg.Username, cfg.Password = "writ", "secret"
			signed, err := etcd.Dial(cfg)
			if err == nil {
				signed.Close()
			}
			tells("signing in", err)
		})
	}
}

// Where TLS is asked for, whoever listens is sent the beginning of it, and
// nothing else.
func TestTLSOnly(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first, stop, done := make(chan []byte), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1<<16)
			n, _ := conn.Read(b)
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
			select {
			case first <- b[:n]:
			case <-stop:
			}
		}
	}()
	defer func() {
		close(stop)
		l.Close()
		<-done
	}()
	c, err := etcd.Dial(etcd.Config{Endpoints: []string{"https://" + l.Addr().String()}, RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, _, err := c.Generations(ctx)
		asked <- err
	}()
	for range 2 { // the client tries again, in no other way
		select {
		case b := <-first:
			// RFC 8446, section 5.1: a handshake record, of a version below 4.
			if len(b) < 5 || b[0] != 22 || b[1] != 3 || len(b) != 5+(int(b[3])<<8|int(b[4])) {
				t.Errorf("sent %q", b)
			}
		case <-time.After(soon):
			t.Fatal("it does not connect")
		}
	}
	cancel()
	mustFail(t, <-asked, "speaks no TLS")
}
