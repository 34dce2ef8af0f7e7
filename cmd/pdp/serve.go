package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/telemetry"
)

type serveCmd struct {
	Bundle     *directory `help:"Directory of the bundle; without it, the one that comes with Writ." env:"WRIT_BUNDLE" placeholder:"DIR"`
	Data       *directory `help:"Directory of the log and the credentials, made where it is missing. Default: ${default_data}." env:"WRIT_DATA_DIR" placeholder:"DIR"`
	GRPCAddr   string     `name:"grpc-addr" help:"Loopback address for gRPC; port 0 takes a free one." default:"127.0.0.1:7600" env:"WRIT_GRPC_ADDR"`
	HTTPAddr   string     `name:"http-addr" help:"Loopback address for JSON over HTTP; port 0 takes a free one." default:"127.0.0.1:7601" env:"WRIT_HTTP_ADDR"`
	Reflection bool       `help:"Serve gRPC reflection, so that tools such as grpcurl can list the API." env:"WRIT_REFLECTION"`
}

func (*serveCmd) Help() string {
	return `When it is ready, one line of JSON goes to standard output:
  {"event":"ready","grpc":"127.0.0.1:PORT","http":"127.0.0.1:PORT",
   "revision":"sha256:…","credentials":"DIR"}
Logs go to standard error. Every call needs a secret of DIR: the file host for
proposals, operator for the rest. They are made anew at each start.
A changed bundle is served from the next start on; run pdp check on it first.
Stop it with an interrupt: calls in flight end first.
Spans go to where OTEL_EXPORTER_OTLP_ENDPOINT says (OTLP over gRPC), if it does.`
}

func (s *serveCmd) Run(c *console) error {
	data, err := dataDir(s.Data)
	if err != nil {
		return err
	}
	b, err := loadBundle(c, s.Bundle)
	if err != nil {
		return err
	}
	service, err := start(serviceConfig{
		bundle: b, data: data, grpcAddr: s.GRPCAddr, httpAddr: s.HTTPAddr, reflection: s.Reflection,
		log: newLogger(c.err),
	})
	if err != nil {
		return err
	}
	return service.run(c.ctx, func() error { return service.announce(c.out) })
}

// serviceConfig says what a service is made of.
type serviceConfig struct {
	bundle             *bundle.Bundle
	data               string // directory of log and credentials
	grpcAddr, httpAddr string // loopback addresses
	reflection         bool
	log                *slog.Logger // made by newLogger
}

// newLogger returns a logger of JSON lines, each with the trace that it
// belongs to.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(telemetry.Handler(slog.NewJSONHandler(w, nil)))
}

// service is everything that serve runs: a server, its PDP and its log.
type service struct {
	world       *snapshot.Snapshot
	log         *slog.Logger
	audit       *audit.Log
	tracing     *telemetry.Tracing
	dead        sync.Once // what is to be done when audit fails for good
	credentials *server.Credentials
	server      *server.Server
	grpc, http  net.Listener
}

// start opens the log, the credentials and the listeners. Whatever it opened
// is closed again when one of them fails.
func start(cfg serviceConfig) (_ *service, err error) {
	s := &service{world: cfg.bundle.Snapshot, log: cfg.log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.audit, err = audit.Open(filepath.Join(cfg.data, "log")); err != nil {
		return nil, err
	}
	if cut := s.audit.Recovered(); cut > 0 {
		cfg.log.Warn("the log ended in the middle of a record: the torn end was cut", "bytes", cut)
	}
	s.world.LoadedAt = time.Now().UTC()
	holder := &snapshot.Holder{}
	holder.Store(s.world)
	decider, err := pdp.New(pdp.Config{Snapshots: holder, Log: s})
	if err != nil {
		return nil, err
	}
	if s.credentials, err = server.NewCredentials(filepath.Join(cfg.data, "credentials")); err != nil {
		return nil, err
	}
	local := func(of func(*snapshot.Snapshot) *writ.Caller) func() *writ.Caller {
		return func() *writ.Caller {
			if world := holder.Load(); world != nil {
				return of(world)
			}
			return nil
		}
	}
	if s.tracing, err = telemetry.Start(context.Background(), telemetry.Config{
		Service: "pdp", Version: version(), Traced: server.Offers, Log: cfg.log,
	}); err != nil {
		return nil, err
	}
	if s.server, err = server.New(server.Config{
		Decider: decider, Credentials: s.credentials, Reflection: cfg.reflection, Log: cfg.log, StatsHandler: s.tracing.StatsHandler(),
		LocalHost:     local(func(w *snapshot.Snapshot) *writ.Caller { return w.LocalHost }),
		LocalOperator: local(func(w *snapshot.Snapshot) *writ.Caller { return w.LocalOperator }),
	}); err != nil {
		return nil, err
	}
	if s.grpc, err = s.server.Listen(cfg.grpcAddr); err != nil {
		return nil, err
	}
	if s.http, err = s.server.Listen(cfg.httpAddr); err != nil {
		return nil, err
	}
	return s, nil
}

// heapFloor is counted as live by the collector, and never touched, so that it
// takes no memory but lets this much garbage gather: a bundle is small, and
// without it the collector would run every few hundred decisions, at a sixth of
// their CPU time.
const heapFloor = 32 << 20

// run serves until ctx ends, then drains and closes everything. ready is
// called once the server answers.
func (s *service) run(ctx context.Context, ready func() error) error {
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	if err := s.record(ctx, audit.KindStart); err != nil {
		return errors.Join(err, s.close())
	}
	group, serving := errgroup.WithContext(ctx)
	group.Go(func() error { return s.server.Serve(serving, s.grpc, s.http) })
	s.server.SetServing(true)
	err := ready()
	if err == nil {
		err = group.Wait()
	} else {
		err = errors.Join(err, s.server.Close(), group.Wait())
	}
	// The context has ended: the last record must not end with it.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, s.record(last, audit.KindStop), s.close())
}

// Append records what the PDP answers. When the log fails for good, health
// says so and the service's own log says why: every answer is a denial then.
// It implements pdp.Log.
func (s *service) Append(ctx context.Context, r audit.Record, durable bool) error {
	err := s.audit.Append(ctx, r, durable)
	if err != nil {
		if failed := s.audit.Err(); failed != nil {
			s.dead.Do(func() {
				s.server.SetServing(false)
				s.log.ErrorContext(ctx, "the log has failed: every answer is AUDIT_UNAVAILABLE until a restart", "error", failed)
			})
		}
	}
	return err
}

func (s *service) record(ctx context.Context, kind audit.Kind) error {
	return s.audit.Append(ctx, audit.Record{Kind: kind, Time: time.Now().UTC(), Revision: s.world.Revision}, true)
}

// flushTimeout is how long the last spans have to be exported.
const flushTimeout = 5 * time.Second

func (s *service) close() error {
	var errs []error
	for _, l := range []net.Listener{s.grpc, s.http} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // closed where they were served
			errs = append(errs, err)
		}
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	} else if s.credentials != nil {
		errs = append(errs, s.credentials.Remove())
	}
	if s.tracing != nil {
		// After the last call, and not for long: what a collector lacks harms nobody.
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := s.tracing.Close(ctx); err != nil {
			s.log.Warn("stopping", "error", err)
		}
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	return errors.Join(errs...)
}

// announce prints the line that says the service is ready.
func (s *service) announce(out io.Writer) error {
	return json.NewEncoder(out).Encode(struct {
		Event       string `json:"event"`
		GRPC        string `json:"grpc"`
		HTTP        string `json:"http"`
		Revision    string `json:"revision"`
		Credentials string `json:"credentials"`
	}{"ready", s.grpc.Addr().String(), s.http.Addr().String(), s.world.Revision, s.credentials.Dir()})
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
