package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/snapshot"
)

const (
	// handshakeTimeout is how long a new connection has to speak HTTP/2.
	handshakeTimeout = 10 * time.Second
	// pingAfter and pingTimeout find connections whose other end is gone.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
	// lastWord is how long those who watch the health have to hear that it is
	// over, before their streams end.
	lastWord = 100 * time.Millisecond
	// streamWorkers is how many goroutines stay, with the stacks that a
	// decision needs: a new goroutine's stack is grown and copied several
	// times on the way. When all are busy, calls get goroutines of their own.
	streamWorkers = 64
)

// Config says what a server is made of.
type Config struct {
	// Decider answers. Required.
	Decider Decider
	// Revoker revokes, and tells what is revoked. Nil: this server does neither.
	Revoker Revoker
	// Enforcer redeems grants and verifies effects. Nil: this server does neither.
	Enforcer Enforcer
	// Reviewer keeps what people are asked. Nil: this server asks nobody.
	Reviewer Reviewer
	// Audit tells what has been recorded. Nil: this server does not.
	Audit AuditLog
	// Credentials are this start's secrets. Required. Close removes them.
	Credentials *Credentials
	// LocalHost, LocalServer and LocalOperator return, for each call, whom the secrets
	// stand for in the bundle in force: its local host, its local MCP server, and
	// its local operator and approver. They return nil while there is none; nobody
	// is let in then. All are required, and must be safe for concurrent use.
	LocalHost, LocalServer, LocalOperator func() *writ.Caller
	// May reports whether the bundle in force lets a caller call a method of
	// writ.v1, such as Decide: it is asked for each call, and for each message of
	// a stream. While there is no bundle nobody may. Required; it must be safe for
	// concurrent use.
	May func(caller *writ.Caller, method string) bool
	// Revoked reports whether a caller is revoked now: then it may call nothing
	// but what is denied by a decision. Nil: nobody is.
	Revoked func(*writ.Caller) bool
	// Identities returns, for each call, by which names the bundle in force
	// knows its callers; nil: there is none. Safe for concurrent use. Without it
	// certificates and users are nobody's.
	Identities func() map[snapshot.Identity]*writ.Caller
	// TLS is used by all listeners but Unix-domain sockets: TLS 1.3, with client
	// certificates where it has CAs for them, which a listener that others than
	// this machine can reach needs. Nil: plain text.
	TLS *TLS
	// Reflection serves the API's descriptors to every caller, over gRPC.
	Reflection bool
	// Limits are what the server takes on. The zero value has the defaults.
	Limits Limits
	// StatsHandler makes spans of the calls of both doors: package telemetry
	// has one. Nil: no spans. The trace that a call brings is carried on in
	// either case.
	StatsHandler stats.Handler
	// Metrics serves GET /metrics of the HTTP door, behind its guard against
	// web pages, without a credential: so only to this machine, and nothing
	// that it serves may be of a request. Nil: there are none.
	Metrics http.Handler
	// Troubles says what is wrong though the server may still decide, for each
	// GET /readyz. Safe for concurrent use; nil: nothing ever is.
	Troubles func() []Trouble
	// Log receives what happens; nil: nobody. No argument's value and no
	// secret is ever in it.
	Log *slog.Logger
}

// Server serves the API over gRPC and as JSON over HTTP, once. Make one with
// [New].
type Server struct {
	credentials                           *Credentials
	localHost, localServer, localOperator func() *writ.Caller
	may                                   func(caller *writ.Caller, method string) bool
	revoked                               func(*writ.Caller) bool                   // nil: nobody is
	identities                            func() map[snapshot.Identity]*writ.Caller // nil: there are none
	tls                                   *TLS                                      // nil: plain text
	limits                                Limits
	stats                                 stats.Handler // nil: none
	log                                   *slog.Logger
	quotas                                *quotas
	refusals, handshakes                  *sampler
	metrics                               http.Handler     // nil: none
	troubles                              func() []Trouble // nil: none
	enforcer                              Enforcer         // nil: none

	grpc     *grpc.Server
	http     *httpDoor
	health   *health.Server
	serving  atomic.Bool // what SetServing last said
	draining atomic.Bool // no new calls are taken

	paces       *paces          // of the connections of both doors
	farewell    context.Context // ends when streams that live on must end
	endStreams  context.CancelFunc
	closing     chan struct{} // closed when Close begins
	closeOnce   sync.Once
	closeResult error // written within closeOnce

	mu     sync.Mutex
	served bool           // guarded by mu: Serve or Close has been called
	active sync.WaitGroup // Serve, added to under mu
}

// New makes a server that does not listen yet.
func New(cfg Config) (*Server, error) {
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.Decider == nil:
		return nil, errors.New("server: a decider is required")
	case cfg.Credentials == nil:
		return nil, errors.New("server: credentials are required: make them with NewCredentials")
	case cfg.LocalHost == nil || cfg.LocalServer == nil || cfg.LocalOperator == nil:
		return nil, errors.New("server: LocalHost, LocalServer and LocalOperator are required: they say whom the secrets stand for")
	case cfg.May == nil:
		return nil, errors.New("server: May is required: it says who may call what")
	}
	s := &Server{
		credentials: cfg.Credentials, localHost: cfg.LocalHost, localServer: cfg.LocalServer, localOperator: cfg.LocalOperator, may: cfg.May, revoked: cfg.Revoked,
		identities: cfg.Identities, tls: cfg.TLS, limits: limits, stats: cfg.StatsHandler, log: cfg.Log,
		quotas: newQuotas(limits), refusals: &sampler{reasons: make(map[Reason]*sample)},
		handshakes: &sampler{reasons: make(map[Reason]*sample)},
		metrics:    cfg.Metrics, troubles: cfg.Troubles, enforcer: cfg.Enforcer,
		health: health.NewServer(), closing: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.farewell, s.endStreams = context.WithCancel(context.Background())
	s.paces = newPaces()
	keeper := &doorkeeper{paces: s.paces}
	var config *tls.Config
	if s.tls != nil {
		config = s.tls.config(s.greet)
		keeper.tls = credentials.NewTLS(config)
	}
	s.grpc = grpc.NewServer(append(s.options(), grpc.Creds(keeper))...)
	s.http = newHTTPDoor(s, config)
	door := registrar{s}
	writv1.RegisterDecisionServiceServer(door, &decisions{decider: cfg.Decider})
	writv1.RegisterEnforcementServiceServer(door, &enforcement{enforcer: cfg.Enforcer})
	writv1.RegisterApprovalServiceServer(door, &approvals{reviewer: cfg.Reviewer, log: s.log})
	writv1.RegisterRevocationServiceServer(door, &revocations{revoker: cfg.Revoker, log: s.log})
	writv1.RegisterAuditServiceServer(door, &audits{log: cfg.Audit})
	healthv1.RegisterHealthServer(door, s.health)
	if cfg.Reflection {
		reflection.Register(door)
	}
	if err := checkRights(s.grpc.GetServiceInfo()); err != nil {
		return nil, err
	}
	if err := s.http.transcode(); err != nil {
		return nil, err
	}
	s.SetServing(false)
	return s, nil
}

func (s *Server) options() []grpc.ServerOption {
	return s.withStats(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.InTapHandle(s.tap),
		grpc.UnknownServiceHandler(s.unknown),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxRecvMsgSize(s.limits.Message),
		grpc.MaxHeaderListSize(uint32(s.limits.HeaderList)),
		grpc.MaxConcurrentStreams(uint32(s.limits.Streams)),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: s.limits.PingInterval, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: s.limits.ConnectionIdle, MaxConnectionAge: s.limits.ConnectionAge,
			MaxConnectionAgeGrace: s.limits.Deadline, Time: pingAfter, Timeout: pingTimeout,
		}),
	)
}

// withStats adds the stats handler, if there is one.
func (s *Server) withStats(options ...grpc.ServerOption) []grpc.ServerOption {
	if s.stats == nil {
		return options
	}
	return append(options, grpc.StatsHandler(s.stats))
}

// SetServing says whether there is something to decide by: a bundle is loaded
// and fresh enough. Health answers SERVING only then, and not before the
// first call of SetServing; once the server stops it stays NOT_SERVING.
func (s *Server) SetServing(serving bool) {
	s.serving.Store(serving)
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(writv1.DecisionService_ServiceDesc.ServiceName, status)
}

// Serve answers gRPC on grpcListener and on all of more, and JSON over HTTP on
// httpListener, which may be nil: then there is none. It closes them. It serves until ctx ends or
// Close is called. Then health says NOT_SERVING, no new calls are taken, and
// those in flight have until the drain limit to end. Serve returns when all of
// them have ended: nil, or an error if some had to be cut off or a listener
// failed.
//
// A listener that other machines can reach is refused unless TLS with client
// certificates is configured. A server serves once.
func (s *Server) Serve(ctx context.Context, grpcListener, httpListener net.Listener, more ...net.Listener) error {
	listeners := []net.Listener{grpcListener}
	serve := []func(net.Listener) error{s.grpc.Serve}
	where := []slog.Attr{slog.Bool("tls", s.tls != nil), slog.String("grpc", grpcListener.Addr().String())}
	if httpListener != nil {
		listeners, serve = append(listeners, httpListener), append(serve, s.http.serve)
		where = append(where, slog.String("http", httpListener.Addr().String()))
	}
	for _, l := range more {
		listeners, serve = append(listeners, l), append(serve, s.grpc.Serve)
		where = append(where, slog.String("grpc_also", l.Addr().String()))
	}
	if err := s.begin(listeners); err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	defer s.active.Done()
	s.log.LogAttrs(ctx, slog.LevelInfo, "serving", where...)
	accepting := make(chan error, len(listeners))
	for i, l := range listeners {
		go func() { accepting <- serve[i](netutil.LimitListener(&arrivals{Listener: l}, s.limits.Connections)) }()
	}
	var err error
	running := len(listeners)
	select {
	case failed := <-accepting:
		running--
		err = fmt.Errorf("server: the listener failed: %w", failed)
	case <-ctx.Done():
	case <-s.closing:
	}
	cut := s.drain()
	err = errors.Join(err, cut)
	for range running {
		if failed := <-accepting; failed != nil && !errors.Is(failed, grpc.ErrServerStopped) && !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("server: the listener failed: %w", failed))
		}
	}
	s.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "stopped", slog.Bool("cut_off", cut != nil))
	return err
}

func (s *Server) begin(listeners []net.Listener) error {
	for _, l := range listeners {
		if err := s.checkListener(l.Addr()); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served {
		return errors.New("server: it serves once, and has served or is closed")
	}
	s.served = true
	s.active.Add(1)
	return nil
}

// Listen opens a TCP listener on addr that Serve will take: loopback only,
// unless TLS with client certificates is configured. Port 0 takes a free one.
func (s *Server) Listen(addr string) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("server: %q is not an address to listen on, HOST:PORT: %w", addr, err)
	}
	if err := s.checkListener(resolved); err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", resolved)
	if err != nil {
		return nil, fmt.Errorf("server: cannot listen on %s: %w", addr, err)
	}
	return listener, nil
}

// checkListener refuses other machines unless they can show who they are.
func (s *Server) checkListener(addr net.Addr) error {
	if near(addr) {
		return nil
	}
	switch {
	case s.tls == nil:
		return fmt.Errorf("server: %s can be reached from other machines, and without TLS what callers send would cross the network readable: "+
			"listen on 127.0.0.1 or [::1], or serve with mTLS: pdp serve --tls-cert FILE --tls-key FILE --tls-client-ca FILE", addr)
	case s.tls.ca == nil:
		return fmt.Errorf("server: %s can be reached from other machines, and without their CAs no caller there can be told from another: "+
			"add --tls-client-ca FILE, with the CAs of the callers' certificates, or listen on 127.0.0.1 or [::1]", addr)
	}
	return nil
}

// drain lets the calls in flight end, then cuts off those that have not.
func (s *Server) drain() error {
	s.draining.Store(true)
	s.paces.hurry()
	s.health.Shutdown()
	defer s.endStreams()
	goodbye := time.AfterFunc(lastWord, s.endStreams)
	defer goodbye.Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		var doors sync.WaitGroup
		doors.Go(s.grpc.GracefulStop)
		doors.Go(s.http.drain)
		doors.Wait()
		s.http.close()
	}()
	limit := time.NewTimer(s.limits.Drain)
	defer limit.Stop()
	select {
	case <-drained:
		return nil
	case <-limit.C:
		s.grpc.Stop()
		s.http.stop()
		<-drained
		return fmt.Errorf("server: calls were cut off: they had not ended %v after the server was to stop", s.limits.Drain)
	}
}

// Close stops serving as the end of Serve's context does, waits for Serve to
// return, and removes the credentials. Call it also where Serve was never
// called.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.mu.Lock()
		s.served = true
		s.mu.Unlock()
		s.active.Wait()
		s.endStreams()
		s.grpc.Stop()
		s.http.stop()
		s.closeResult = s.credentials.Remove()
	})
	return s.closeResult
}
