package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/vanguard"
	"google.golang.org/grpc"
)

const (
	// headerTimeout is how long a client may take over the header of one HTTP
	// request, and over the handshake before the first.
	headerTimeout = 5 * time.Second
	// answerTimeout is how long it may take, after the call's own deadline, to
	// take the answer.
	answerTimeout = 10 * time.Second
	// lastAnswer is how long the last answers have to leave, once all calls
	// have ended.
	lastAnswer = time.Second
)

// httpDoor offers the API's unary methods as JSON over HTTP/1.1, and says whether
// the process is up and the server ready. What it lets in becomes a gRPC call:
// vanguard puts the request's body into a frame, and a gRPC server of the
// door's own runs the same gated methods as the other one. That server is the
// door's own because it reads JSON, and because it must stop after its last
// call has ended: grpc-go cuts off the calls of ServeHTTP when it stops.
//
// JSON is read by that server's codec, behind the gate, not by vanguard:
// vanguard would read it before anyone knows who calls, and when it meets a
// fault there it writes the answer while grpc-go may be writing another, which
// ends the process (both write the header's map).
//
// It speaks no HTTP/2: there a request would be read, and have a goroutine, before
// its connection's pace could keep it waiting.
type httpDoor struct {
	server  *Server
	http    *http.Server
	grpc    *grpc.Server
	unary   map[string]bool // the methods offered, by path; written before New returns
	handler http.Handler    // vanguard; set before New returns

	mu      sync.Mutex
	drained bool           // guarded by mu: no call is taken any more
	calls   sync.WaitGroup // in flight; added to under mu, while not drained
}

// newHTTPDoor makes a door without methods. config is nil for plain text.
func newHTTPDoor(s *Server, config *tls.Config) *httpDoor {
	d := &httpDoor{
		server: s, unary: make(map[string]bool),
		grpc: grpc.NewServer(s.withStats(
			grpc.ForceServerCodecV2(jsonCodec{}),
			grpc.UnknownServiceHandler(s.unknown),
			grpc.MaxRecvMsgSize(s.limits.Message),
		)...),
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	d.http = &http.Server{
		Handler:                      d,
		TLSConfig:                    config.Clone(),
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  headerTimeout + s.limits.Deadline,
		WriteTimeout:                 s.limits.Deadline + answerTimeout,
		IdleTimeout:                  s.limits.ConnectionIdle,
		MaxHeaderBytes:               s.limits.HeaderList,
		Protocols:                    &protocols,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is judged like anything else
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			c := &connected{at: time.Now(), from: newConnection(conn.LocalAddr(), conn.RemoteAddr())}
			if secured, ok := conn.(*tls.Conn); ok {
				conn = secured.NetConn()
			}
			if paced, ok := conn.(*requestConn); ok {
				c.from.pace = paced.pace
			}
			return context.WithValue(ctx, connectedKey{}, c)
		},
		// What strangers do to a connection is nobody's business by default.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return d
}

// connectedKey is the context key of a request's *connected.
type connectedKey struct{}

// connected is one HTTP connection: when it was made, and from whom.
type connected struct {
	at   time.Time
	from *connection

	shaken sync.Once // from has what the handshake has shown
}

// connectionOfHTTP returns who is at the other end of a request's connection.
func connectionOfHTTP(r *http.Request) *connection {
	c, ok := r.Context().Value(connectedKey{}).(*connected)
	if !ok {
		return &connection{}
	}
	c.shaken.Do(func() {
		if r.TLS != nil {
			c.from.shown(*r.TLS)
		}
	})
	return c.from
}

// register takes over the unary methods of a gated service.
func (d *httpDoor) register(gated *grpc.ServiceDesc, impl any) {
	own := *gated
	own.Methods, own.Streams = slices.Clone(gated.Methods), nil
	for i, m := range own.Methods {
		path := "/" + own.ServiceName + "/" + m.MethodName
		own.Methods[i].Handler = d.unaryMethod(path, m.Handler)
		d.unary[path] = true
	}
	d.grpc.RegisterService(&own, impl)
}

// transcode puts vanguard before what has been registered.
func (d *httpDoor) transcode() error {
	var services []*vanguard.Service
	for name, info := range d.grpc.GetServiceInfo() {
		if len(info.Methods) > 0 {
			services = append(services, vanguard.NewService(name, d.grpc))
		}
	}
	handler, err := vanguard.NewTranscoder(services, vanguard.WithDefaultServiceOptions(
		vanguard.WithTargetProtocols(vanguard.ProtocolGRPC),
		vanguard.WithTargetCodecs(vanguard.CodecJSON), // so that it passes JSON through unread
		vanguard.WithNoTargetCompression(),
	))
	if err != nil {
		return fmt.Errorf("server: JSON over HTTP: %w", err)
	}
	d.handler = handler
	return nil
}

// serve takes connections until drain or stop is called.
func (d *httpDoor) serve(listener net.Listener) error {
	listener = &requests{listener, d.server.paces}
	if d.http.TLSConfig != nil {
		return d.http.ServeTLS(listener, "", "")
	}
	return d.http.Serve(listener)
}

// requests is a listener whose connections have a pace.
type requests struct {
	net.Listener
	paces *paces
}

func (l *requests) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &requestConn{conn, l.paces.pace()}, nil
}

// requestConn is a connection whose requests wait for its pace.
type requestConn struct {
	net.Conn
	pace *pace
}

func (c *requestConn) Close() error {
	c.pace.end()
	return c.Conn.Close()
}

// enter counts one more call, unless the door drains.
func (d *httpDoor) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.drained || d.server.draining.Load() { // what readyz says holds for calls from then on
		return false
	}
	d.calls.Add(1)
	return true
}

// drain returns when all calls have ended. New ones are refused; whoever asks
// whether the server is ready still gets an answer.
func (d *httpDoor) drain() {
	d.mu.Lock()
	d.drained = true
	d.mu.Unlock()
	d.calls.Wait()
	d.grpc.GracefulStop() // calls whose clients have gone
}

// close closes listener and connections. Answers have a moment to leave.
func (d *httpDoor) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswer)
	defer cancel()
	if d.http.Shutdown(ctx) != nil {
		_ = d.http.Close() // who has asked nothing yet
	}
}

// stop cuts off what is in flight. A drain that goes on returns when it has
// noticed.
func (d *httpDoor) stop() {
	_ = d.http.Close() // it fails only in closing connections
	d.grpc.Stop()
}

// ServeHTTP answers one request.
func (d *httpDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pace := connectionOfHTTP(r).pace
	if pace.request(r.Context()) != nil {
		panic(http.ErrAbortHandler) // closes the connection
	}
	a := &answer{ResponseWriter: w, request: r, maxAge: d.server.limits.ConnectionAge}
	defer func() {
		if p := recover(); p != nil {
			refused := d.server.recovered(r.Context(), "HTTP", p)
			if a.begun {
				panic(http.ErrAbortHandler) // the answer must not look whole
			}
			a.Header().Set("Connection", "close")
			a.refuse(http.StatusInternalServerError, refused)
		}
	}()
	status, refused := d.route(a, r)
	if refused != nil {
		pace.add(-refusalCost)
		d.server.refusals.log(r.Context(), d.server.log, r.URL.Path, refused.reason)
		a.refuse(status, refused)
	}
}

// route answers r, or says with which status and why it is refused.
func (d *httpDoor) route(a *answer, r *http.Request) (int, *refusal) {
	if refused := foreign(r); refused != nil {
		return http.StatusForbidden, refused
	}
	switch path := r.URL.EscapedPath(); {
	case path == "/healthz":
		return d.probe(a, r, []byte(`{"status":"ok"}`), nil)
	case path == "/readyz":
		return d.ready(a, r)
	case path == keysPath:
		return d.keys(a, r)
	case path == "/metrics":
		connectionOfHTTP(r).pace.add(-metricsCost)
		return d.measure(a, r)
	case d.unary[path]:
		if !d.enter() {
			return http.StatusServiceUnavailable, d.server.notReady()
		}
		defer d.calls.Done()
		return d.call(a, r, path)
	}
	return http.StatusNotFound, refuse(ReasonMethodUnknown, "there is no such method here")
}
