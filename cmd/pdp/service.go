package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/forward"
	"github.com/writ-pdp/writ/audit/otlplog"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/telemetry"
	"github.com/writ-pdp/writ/token"
)

// serviceConfig says what a service is made of.
type serviceConfig struct {
	source             sourceConfig
	data               string // directory of log, revocations and credentials
	remember           ledgerFlags
	replicaKeys        string // directory of a replica's keys; required with source.etcd
	grpcAddr, httpAddr string
	identity           identityConfig
	reflection         bool
	sinks              []forward.Sink // where the log's checkpoints are sent
	log                *slog.Logger   // made by newLogger
}

// service is everything that serve runs: a server, its PDP, its log and what
// it decides by.
type service struct {
	log         *slog.Logger
	audit       *audit.Log
	worlds      *worlds
	tokens      *token.Verifier
	authority   *authority
	replica     *replica // nil: this server is alone
	metrics     *telemetry.Metrics
	tracing     *telemetry.Tracing
	export      *otlplog.Exporter // nil: the environment names no collector of records
	forwarded   *forwarded        // nil: checkpoints are sent nowhere
	credentials *server.Credentials
	server      *server.Server
	grpc, http  net.Listener
	socket      net.Listener // nil: none
	tls         *server.TLS  // nil: plain text

	mu        sync.Mutex // guards the fields below
	answering bool       // run has begun to serve
	recording bool       // the log takes what must be on the disk
}

// start opens the log, the first world, the credentials and the listeners.
// Whatever it opened is closed again when one of them fails.
func start(ctx context.Context, cfg serviceConfig) (_ *service, err error) {
	s := &service{log: cfg.log, recording: true, tls: cfg.identity.tls}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.audit, err = audit.Open(audit.Config{Dir: filepath.Join(cfg.data, "log"), Changed: s.logChanged}); err != nil {
		return nil, err
	}
	if r := s.audit.Recovered(); r.Cut > 0 || r.Leftovers != nil || r.Tiles {
		cfg.log.Warn("the log was not closed in good order: what a crash left was put in order", "cut", r.Cut, "segment", r.File, "leftovers", r.Leftovers, "tiles_made_again", r.Tiles)
	}
	if s.worlds, err = openWorlds(ctx, cfg.source, cfg.data, s.audit, cfg.log); err != nil {
		return nil, err
	}
	holder := s.worlds.holder
	s.tokens = token.New(token.Config{Log: cfg.log})
	var powers *authority
	if cfg.source.etcd != nil {
		s.replica, powers, err = openReplica(ctx, *cfg.source.etcd, cfg.replicaKeys, cfg.remember, cfg.log)
	} else {
		powers, err = openAuthority(ctx, s.worlds, s.audit, cfg.remember, cfg.log)
	}
	if err != nil {
		return nil, err
	}
	s.authority = powers
	decider, err := pdp.New(powers.config(pdp.Config{
		Snapshots: holder, Log: s.audit, Revocations: s.worlds.revocations(), MaxStaleness: cfg.source.maxStaleness, Tokens: s.tokens,
	}))
	if err != nil {
		return nil, err
	}
	if s.metrics, err = telemetry.NewMetrics(telemetry.MetricsConfig{Service: "pdp", Version: version(), Read: s.reading}); err != nil {
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
	if s.export, err = s.startExport(cfg.data); err != nil {
		return nil, err
	}
	if s.forwarded, err = newForwarded(s.audit, cfg.sinks, cfg.data, cfg.log); err != nil {
		return nil, err
	}
	told, err := newRecorded(s.audit)
	if err != nil {
		return nil, err
	}
	if s.server, err = server.New(server.Config{
		Decider: measured{decider, s.metrics}, Enforcer: measured{decider, s.metrics}, Reviewer: decider, Revoker: decider, Audit: told, Metrics: s.metrics.Handler(), Troubles: s.troubles,
		Credentials: s.credentials, Reflection: cfg.reflection, Log: cfg.log, StatsHandler: s.tracing.StatsHandler(),
		May: func(c *writ.Caller, method string) bool { return holder.Load().May(c, method) },
		Revoked: func(c *writ.Caller) bool {
			world := holder.Load()
			if world == nil {
				return false
			}
			_, revoked := world.Revocations.Revoked(revocation.Caller, "", c.Name, time.Time{}, time.Now())
			return revoked
		},
		Identities: identities(holder), TLS: s.tls,
		LocalHost:     local(func(w *snapshot.Snapshot) *writ.Caller { return w.LocalHost }),
		LocalServer:   local(func(w *snapshot.Snapshot) *writ.Caller { return w.LocalServer }),
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
	if cfg.identity.socket != "" {
		if s.socket, err = s.server.ListenUnix(cfg.identity.socket, cfg.identity.mode); err != nil {
			return nil, err
		}
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
	exporting, stopExport := context.WithCancel(serving)
	defer stopExport()
	// Calls that end after ctx has are answered by what is in force then, too.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	group.Go(func() error {
		defer stopExport()
		defer stopFollowing()
		if s.socket != nil {
			return s.server.Serve(serving, s.grpc, s.http, s.socket)
		}
		return s.server.Serve(serving, s.grpc, s.http)
	})
	if s.tls != nil {
		group.Go(func() error { return s.tls.Run(following) })
	}
	group.Go(func() error { return s.worlds.run(following) })
	if s.replica != nil {
		group.Go(func() error { return s.replica.run(following) })
	}
	if s.export != nil {
		group.Go(func() error { return s.export.Run(exporting) })
	}
	if s.forwarded != nil {
		group.Go(func() error { return s.forwarded.run(exporting) })
	}
	s.mu.Lock()
	s.answering = true
	s.mu.Unlock()
	s.setServing()
	group.Go(func() error { // etcd may have no bundle yet
		s.awaitWorld(serving)
		return nil
	})
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

// logChanged tells a new condition of the log. While writes can't be recorded
// health says so: every answer that allows one is AUDIT_UNAVAILABLE then.
func (s *service) logChanged(state audit.State) {
	switch {
	case state.Condition == audit.OK:
		s.log.Info("the log is well again")
	case state.Condition.Recording():
		s.log.Warn("the log is slow", "condition", state.Condition, "error", state.Err)
	default:
		s.log.Error("the log takes no writes: what would allow one is answered AUDIT_UNAVAILABLE", "condition", state.Condition, "error", state.Err)
	}
	s.mu.Lock()
	s.recording = state.Condition.Recording()
	s.mu.Unlock()
	s.setServing()
}

// setServing tells health whether there is something to decide by, and
// something to record it in.
func (s *service) setServing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answering {
		s.server.SetServing(s.recording && s.worlds.holder.Load() != nil)
	}
}

// awaitWorld waits for the first world, which health then knows of.
func (s *service) awaitWorld(ctx context.Context) {
	for {
		changed := s.worlds.holder.Changed()
		if s.worlds.holder.Load() != nil {
			s.setServing()
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (s *service) record(ctx context.Context, kind audit.Kind) error {
	return s.audit.Append(ctx, audit.Record{Kind: kind, Time: time.Now().UTC(), Revision: s.worlds.revision()}, true)
}

// flushTimeout is how long the last spans have to be exported, and as long the
// last records.
const flushTimeout = 5 * time.Second

func (s *service) close() error {
	var errs []error
	for _, l := range []net.Listener{s.grpc, s.http, s.socket} {
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
	if s.tokens != nil {
		s.tokens.Close()
	}
	if s.tracing != nil {
		// After the last call, and not for long: what a collector lacks harms nobody.
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := s.tracing.Close(ctx); err != nil {
			s.log.Warn("stopping", "error", err)
		}
	}
	if s.metrics != nil {
		errs = append(errs, s.metrics.Close(context.Background()))
	}
	if s.replica != nil {
		errs = append(errs, s.replica.close())
	}
	if s.worlds != nil {
		errs = append(errs, s.worlds.close())
	}
	if s.export != nil {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := s.export.Close(ctx); err != nil {
			s.log.Warn("stopping", "error", err)
		}
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	return errors.Join(errs...)
}

// troubles are what /readyz tells.
func (s *service) troubles() []server.Trouble {
	out := s.worlds.troubles()
	if failing := s.tokens.Failures(s.worlds.holder.Load()); len(failing) > 0 {
		since := failing[0].Since
		for _, f := range failing {
			if f.Since.Before(since) {
				since = f.Since
			}
		}
		out = append(out, server.Trouble{Part: "tokens", Since: since, Message: fmt.Sprintf(
			"the keys of an issuer can't be fetched: the server's log says why (issuers: %d)", len(failing))})
	}
	if s.tls != nil {
		out = append(out, s.tls.Troubles()...)
	}
	if s.replica != nil {
		out = append(out, s.replica.troubles(s.worlds.holder.Load())...)
	}
	out = append(out, s.authority.troubles()...)
	if s.forwarded != nil {
		for _, place := range s.forwarded.Status() {
			message := "checkpoints can't be sent to a second place: the server's log says why"
			switch {
			case place.Err == nil:
				continue
			case errors.Is(place.Err, forward.ErrFork), errors.Is(place.Err, forward.ErrSetBack):
				message = "a second place holds a checkpoint that this log does not continue: the log was set back or rewritten, so look into it before anything else"
			}
			out = append(out, server.Trouble{Part: "checkpoints", Since: place.Since, Message: message})
		}
	}
	if s.export != nil {
		if to := s.export.Status(); to.Err != nil {
			out = append(out, server.Trouble{Part: "export", Since: to.Since, Message: fmt.Sprintf("the log's records can't be exported: the server's log says why (records waiting: %d)", to.Lag)})
		}
	}
	return out
}
