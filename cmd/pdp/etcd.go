package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
)

// etcdFlags say how to reach an etcd cluster.
type etcdFlags struct {
	Etcd             []string `help:"Client addresses of the etcd members that keep the bundle and the revocations: HOST:PORT, or with https://." env:"WRIT_ETCD" placeholder:"HOST:PORT" group:"etcd"`
	EtcdPrefix       string   `help:"What the keys begin with." default:"/writ/" env:"WRIT_ETCD_PREFIX" placeholder:"/NAME/" group:"etcd"`
	EtcdCA           string   `name:"etcd-ca" help:"File of the CA certificates (PEM) of the members. Without it, the system's." env:"WRIT_ETCD_CA" placeholder:"FILE" group:"etcd"`
	EtcdCert         string   `help:"File of the client certificate (PEM); re-read for each connection." env:"WRIT_ETCD_CERT" placeholder:"FILE" group:"etcd"`
	EtcdKey          string   `help:"File of its key (PEM)." env:"WRIT_ETCD_KEY" placeholder:"FILE" group:"etcd"`
	EtcdUser         string   `help:"Name of the etcd user." env:"WRIT_ETCD_USER" placeholder:"NAME" group:"etcd"`
	EtcdPasswordFile string   `help:"File that holds the user's password." env:"WRIT_ETCD_PASSWORD_FILE" placeholder:"FILE" group:"etcd"`
	EtcdPlaintext    bool     `help:"Allow connections without TLS to other machines: only where the network itself authenticates." env:"WRIT_ETCD_PLAINTEXT" group:"etcd"`
}

// config is what the flags say.
func (f *etcdFlags) config(log *slog.Logger) (etcd.Config, error) {
	cfg := etcd.Config{Endpoints: f.Etcd, Prefix: f.EtcdPrefix, Plaintext: f.EtcdPlaintext, Username: f.EtcdUser, Log: log}
	if f.EtcdPasswordFile != "" {
		text, err := os.ReadFile(f.EtcdPasswordFile)
		if err != nil {
			return cfg, fmt.Errorf("reading the etcd user's password: %w", err)
		}
		if cfg.Password = strings.TrimRight(string(text), "\r\n"); cfg.Password == "" {
			return cfg, fmt.Errorf("the file %s holds no password", f.EtcdPasswordFile)
		}
	}
	var err error
	cfg.TLS, err = f.tls()
	return cfg, err
}

// tls is nil where no file is named.
func (f *etcdFlags) tls() (*tls.Config, error) {
	if f.EtcdCA == "" && f.EtcdCert == "" && f.EtcdKey == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13}
	if f.EtcdCA != "" {
		text, err := os.ReadFile(f.EtcdCA)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of etcd: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the file %s holds no certificate in PEM", f.EtcdCA)
		}
	}
	if (f.EtcdCert == "") != (f.EtcdKey == "") {
		return nil, usage("--etcd-cert and --etcd-key belong together")
	}
	if f.EtcdCert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.EtcdCert, f.EtcdKey)
			if err != nil {
				return nil, fmt.Errorf("reading the client certificate for etcd: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return cfg, nil
}

// source is where serve follows its worlds from, or nil where no flag names
// etcd.
func (f *etcdFlags) source(s *serveCmd, log *slog.Logger) (*etcd.Config, error) {
	if len(f.Etcd) == 0 {
		if f.EtcdCA != "" || f.EtcdCert != "" || f.EtcdKey != "" || f.EtcdUser != "" || f.EtcdPasswordFile != "" || f.EtcdPlaintext || s.ReplicaKeys != "" {
			return nil, usage("there are flags for etcd, but --etcd names no member")
		}
		return nil, nil
	}
	if s.Bundle != nil || s.Persist {
		return nil, usage("with --etcd the bundle comes from there: leave out --bundle and --persist, and push with pdp push")
	}
	if s.ReplicaKeys == "" {
		return nil, usage("with --etcd there may be several replicas, and each needs a key that the others know, or they would forget each other's grants: " +
			"make one with pdp keys replica, and name its directory with --replica-keys")
	}
	cfg, err := f.config(log)
	return &cfg, err
}

// Without another limit, what could have consequences is denied when etcd has
// been silent for staleEtcd.
const staleEtcd = 10 * time.Second

// Waiting for etcd at a start.
const (
	reachEtcd  = 20 * time.Second // until it answers: else the start fails
	firstWorld = 10 * time.Second // until its bundle is in force: else everything is denied until it is
)

// openEtcd begins to follow etcd, and waits a while for the first world.
func (w *worlds) openEtcd(ctx context.Context, cfg etcd.Config, data string) error {
	if err := noJournal(data); err != nil {
		return err
	}
	reaching, cancel := context.WithTimeout(ctx, reachEtcd)
	defer cancel()
	var err error
	if w.etcd, err = etcd.Open(reaching, cfg); err != nil {
		return err
	}
	if w.follower, err = bundle.NewFollower(bundle.FollowerConfig{
		Holder: w.holder, Source: w.etcd.ID(), AllowEmpty: w.cfg.allowEmpty, Import: w.etcd.Import, Changed: w.changed,
	}); err != nil {
		return err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.ended = make(chan struct{})
	w.stopEtcd = stop
	go func() {
		defer close(w.ended)
		w.failed = w.etcd.Run(following, w.follower)
	}()
	waiting, cancel := context.WithTimeout(ctx, firstWorld)
	defer cancel()
	for {
		changed := w.holder.Changed()
		if w.holder.Load() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-w.ended:
			return w.failed
		case <-waiting.Done():
			if err := ctx.Err(); err != nil {
				return err
			}
			w.log.Warn("etcd has given no bundle that is in force: everything is denied until it does; push one with pdp push", "fault", w.follower.Status().Fault)
			return nil
		}
	}
}

// runEtcd goes on following until ctx ends.
func (w *worlds) runEtcd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		w.stopEtcd()
		<-w.ended
	case <-w.ended:
	}
	return w.failed
}

func (w *worlds) closeEtcd() error {
	if w.stopEtcd != nil {
		w.stopEtcd()
		<-w.ended
	}
	return w.etcd.Close()
}

// etcdTroubles are what /readyz tells of etcd.
func (w *worlds) etcdTroubles() []server.Trouble {
	s := w.etcd.Status()
	if s.Fault == nil {
		return nil
	}
	return []server.Trouble{{Part: "source", Since: s.Since, Message: "etcd is not followed, and the last world stays: the server's log says why"}}
}

// noJournal refuses a data directory that has revocations of its own: they
// would no longer be in force.
func noJournal(data string) error {
	dir := filepath.Join(data, "revocations")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	journal, err := revocation.OpenJournal(dir)
	if err != nil {
		return err
	}
	n := journal.View().Len()
	if err := journal.Close(); err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%s holds %d revocations, which would not be in force with --etcd: "+
			"revoke what still counts in etcd's log, then name another --data or move that directory away", dir, n)
	}
	return nil
}
