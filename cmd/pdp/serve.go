package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/telemetry"
)

type serveCmd struct {
	Bundle     *directory `help:"Directory of the bundle, which is followed; without it, the one that comes with Writ." env:"WRIT_BUNDLE" placeholder:"DIR"`
	Data       *directory `help:"Directory of the log, the revocations and the credentials, made where it is missing. Default: ${default_data}." env:"WRIT_DATA_DIR" placeholder:"DIR"`
	GRPCAddr   string     `name:"grpc-addr" help:"Address for gRPC; port 0 takes a free one. Without mTLS a loopback address." default:"127.0.0.1:7600" env:"WRIT_GRPC_ADDR"`
	HTTPAddr   string     `name:"http-addr" help:"Address for JSON over HTTP; port 0 takes a free one. Without mTLS a loopback address." default:"127.0.0.1:7601" env:"WRIT_HTTP_ADDR"`
	Reflection bool       `help:"Serve gRPC reflection, so that tools such as grpcurl can list the API." env:"WRIT_REFLECTION"`
	etcdFlags  `embed:""`

	ledgerFlags `embed:""`

	ReplicaKeys string `help:"Directory with this replica's key and the root's statement of it, as pdp keys replica makes them. Required with --etcd." env:"WRIT_REPLICA_KEYS" placeholder:"DIR" group:"etcd"`

	identityFlags `embed:""`

	forwardFlags `embed:""`

	Persist      bool          `help:"Keep the last good bundle in the data directory, and start with it while the one in --bundle is broken." env:"WRIT_PERSIST" group:"Reload"`
	MaxAge       time.Duration `help:"Start with the kept bundle only if --bundle held it at most this long ago." default:"24h" env:"WRIT_MAX_AGE" group:"Reload"`
	AllowEmpty   bool          `help:"Take a bundle that has suddenly lost all its policies, servers or entities." env:"WRIT_ALLOW_EMPTY" group:"Reload"`
	MaxStaleness time.Duration `help:"Deny calls of tools with effect write (SNAPSHOT_STALE) when --bundle could not be read, or etcd not be heard of, for this long. 0: never; with --etcd: after 10s." default:"0s" env:"WRIT_MAX_STALENESS" group:"Reload"`
}

func (*serveCmd) Help() string {
	return `When it is ready, one line of JSON goes to standard output:
  {"event":"ready","grpc":"127.0.0.1:PORT","http":"127.0.0.1:PORT",
   "revision":"sha256:…","credentials":"DIR"}
Logs go to standard error. Every call needs a secret of DIR: the file host for
proposals, server for grants, operator for the rest. They are made anew at each start, and count on
this machine only. Others are known by their client certificates:
  pdp serve --grpc-addr 0.0.0.0:7600 --http-addr 0.0.0.0:7601 \
    --tls-cert server.pem --tls-key server-key.pem --tls-client-ca ca.pem
A certificate is the caller whose mtls in the bundle's callers.yaml is its SPIFFE
id, another URI or DNS name in it, or whose subject is its subject. At the socket
of --unix-socket a caller is known by its user: unix: {uid: 1000}. The files are
re-read when they change, with no restart; replace each with mv.
The bundle is followed: about a second after its files changed they are in
force, all of them or none. While there is a fault in them the last good ones
stay, and the log, GET /readyz and GET /metrics of the HTTP address say so. A
bundle with a fault at the start is an error, unless --persist has kept a good
one. Run pdp check before you change a bundle: serve runs no scenarios.
Stop it with an interrupt: calls in flight end first.
Spans and the log's records go to where OTEL_EXPORTER_OTLP_ENDPOINT says (OTLP
over gRPC), if it does; OTEL_LOGS_EXPORTER=none keeps the records here. No answer
waits for a collector that is away; a stop may take some seconds longer.`
}

func (s *serveCmd) Run(c *console) error {
	data, err := dataDir(s.Data)
	if err != nil {
		return err
	}
	source := sourceConfig{persist: s.Persist, maxAge: s.MaxAge, allowEmpty: s.AllowEmpty, maxStaleness: s.MaxStaleness}
	log := newLogger(c.err)
	identity, err := s.identityFlags.open(log)
	if err != nil {
		return err
	}
	if source.etcd, err = s.source(s, log); err != nil {
		return err
	}
	switch {
	case source.etcd != nil:
		if source.maxStaleness == 0 {
			source.maxStaleness = staleEtcd
		}
	case s.Bundle != nil:
		source.dir = string(*s.Bundle)
	default:
		if source.files, err = readBundle(nil); err != nil {
			return err
		}
	}
	if err := s.ledgerFlags.check(); err != nil {
		return err
	}
	if s.MaxAge <= 0 || s.MaxStaleness < 0 {
		return usage("--max-age is more than 0, and --max-staleness not less")
	}
	sinks, err := s.sinks()
	if err != nil {
		return err
	}
	service, err := start(c.ctx, serviceConfig{
		sinks:  sinks,
		source: source, data: data, grpcAddr: s.GRPCAddr, httpAddr: s.HTTPAddr, reflection: s.Reflection,
		log: log, identity: identity, replicaKeys: s.ReplicaKeys, remember: s.ledgerFlags,
	})
	if unloaded, ok := errors.AsType[*bundle.LoadError](err); ok {
		faults, ok := errors.AsType[writ.Faults](unloaded.Fault)
		if !ok {
			return err
		}
		for _, f := range faults {
			fmt.Fprintln(c.err, f)
		}
		err = fmt.Errorf("the bundle %s has faults and was not loaded", place(s.Bundle))
		if unloaded.Kept != nil {
			err = fmt.Errorf("%w, %w", err, unloaded.Kept)
		}
	}
	if err != nil {
		return err
	}
	for _, f := range service.worlds.follower.Status().Warnings {
		fmt.Fprintln(c.err, f)
	}
	return service.run(c.ctx, func() error { return service.announce(c.out) })
}

// newLogger returns a logger of JSON lines, each with the trace that it
// belongs to.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(telemetry.Handler(slog.NewJSONHandler(w, nil)))
}

// announce prints the line that says the service is ready.
func (s *service) announce(out io.Writer) error {
	socket := ""
	if s.socket != nil {
		socket = s.socket.Addr().String()
	}
	return json.NewEncoder(out).Encode(struct {
		Event       string `json:"event"`
		GRPC        string `json:"grpc"`
		HTTP        string `json:"http"`
		Unix        string `json:"unix,omitempty"`
		TLS         bool   `json:"tls,omitempty"`
		Revision    string `json:"revision"`
		Credentials string `json:"credentials"`
	}{"ready", s.grpc.Addr().String(), s.http.Addr().String(), socket, s.tls != nil, s.worlds.revision(), s.credentials.Dir()})
}

// dataDir is where a service keeps its log and credentials: dir, or the
// user's state directory (XDG Base Directory Specification).
func dataDir(dir *directory) (string, error) {
	if dir != nil {
		return string(*dir), nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "writ"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no home directory to keep data in: name one with --data: %w", err)
	}
	return filepath.Join(home, ".local", "state", "writ"), nil
}
