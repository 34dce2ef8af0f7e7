package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

const decideMethod = "/writ.v1.DecisionService/Decide"

// decider records what it is asked. It answers the zero Answer, which denies,
// unless do says otherwise.
type decider struct {
	do func(ctx context.Context) (pdp.Answer, error)

	mu    sync.Mutex
	asked []question
}

type question struct {
	caller     *writ.Caller
	proposal   *writ.Proposal
	field, why string // of Refuse
	demand     string
	deadline   time.Duration
}

func (d *decider) Decide(ctx context.Context, caller *writ.Caller, p *writ.Proposal, ask pdp.Ask) (pdp.Answer, error) {
	return d.ask(ctx, question{caller: caller, proposal: p, demand: ask.AtLeastAsFresh})
}

func (d *decider) Refuse(ctx context.Context, caller *writ.Caller, p *writ.Proposal, field, why string) (pdp.Answer, error) {
	return d.ask(ctx, question{caller: caller, proposal: p, field: field, why: why})
}

func (d *decider) DecideBatch(ctx context.Context, caller *writ.Caller, items []pdp.Item, ask pdp.Ask) ([]pdp.Answer, error) {
	answers := make([]pdp.Answer, len(items))
	for i, item := range items {
		var err error
		if answers[i], err = d.ask(ctx, question{caller: caller, proposal: item.Proposal, field: item.Field, why: item.Unreadable, demand: ask.AtLeastAsFresh}); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func (d *decider) Explain(ctx context.Context, caller *writ.Caller, _ string, p *writ.Proposal, demand string) (writ.Explanation, error) {
	_, err := d.ask(ctx, question{caller: caller, proposal: p, demand: demand})
	return writ.Explanation{}, err
}

func (d *decider) ask(ctx context.Context, q question) (pdp.Answer, error) {
	if at, ok := ctx.Deadline(); ok {
		q.deadline = time.Until(at)
	}
	d.mu.Lock()
	d.asked = append(d.asked, q)
	d.mu.Unlock()
	if d.do != nil {
		return d.do(ctx)
	}
	return pdp.Answer{}, nil
}

func (d *decider) questions() []question {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]question(nil), d.asked...)
}

// house is one running server and a connection to it.
type house struct {
	*server.Server
	decider        *decider
	conn           *grpc.ClientConn
	host, operator string // secrets
	credentials    string // directory
	address        string // of the TCP listener
	web            string // address of the HTTP listener
	transport      *http.Transport
	log            *buffer
	served         chan error
	stop           context.CancelFunc // ends Serve's context
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var (
	hostCaller     = &writ.Caller{Name: "local-host", Roles: []writ.Role{writ.RoleHost}, Vouches: []writ.SourceKind{writ.SourceUser}}
	serverCaller   = &writ.Caller{Name: "local-server", Roles: []writ.Role{writ.RoleServer}}
	operatorCaller = &writ.Caller{Name: "local-operator", Roles: []writ.Role{writ.RoleOperator, writ.RoleApprover}}
)

// byRoles lets a caller do what its roles let it do in a bundle that says nothing
// of callers.
func byRoles(t testing.TB) func(*writ.Caller, string) bool {
	t.Helper()
	files, err := bundle.ReadDir("../examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	var known sync.Map // worlds, by caller
	return func(c *writ.Caller, method string) bool {
		if c == nil {
			return false
		}
		world, ok := known.Load(c)
		if !ok {
			world, _ = known.LoadOrStore(c, &snapshot.Snapshot{
				Rights: snapshot.NewRights(b.Snapshot.Policies, map[string]*writ.Caller{c.Name: c}, b.Snapshot.Servers, nil),
			})
		}
		return world.(*snapshot.Snapshot).May(c, method)
	}
}

// config returns a working configuration around d.
func config(t testing.TB, d *decider) server.Config {
	t.Helper()
	credentials, err := server.NewCredentials(filepath.Join(t.TempDir(), "credentials"))
	if err != nil {
		t.Fatal(err)
	}
	return server.Config{
		Decider: d, Credentials: credentials,
		May:           byRoles(t),
		LocalHost:     func() *writ.Caller { return hostCaller },
		LocalServer:   func() *writ.Caller { return serverCaller },
		LocalOperator: func() *writ.Caller { return operatorCaller },
	}
}

// open runs a server over bufconn; change alters its configuration.
func open(t testing.TB, d *decider, change func(*server.Config)) *house {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	return openOn(t, d, change, listener, func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
}

// openTCP runs a server on the loopback interface.
func openTCP(t testing.TB, d *decider, change func(*server.Config)) *house {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	h := openOn(t, d, change, listener, func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	h.address = address
	return h
}

func openOn(t testing.TB, d *decider, change func(*server.Config), listener net.Listener, dial func(context.Context, string) (net.Conn, error)) *house {
	t.Helper()
	h := &house{decider: d, log: &buffer{}, served: make(chan error, 1), transport: &http.Transport{}}
	cfg := config(t, d)
	cfg.Log = slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&cfg)
	}
	h.credentials = cfg.Credentials.Dir()
	h.host, h.operator = secret(t, h.credentials, server.HostFile), secret(t, h.credentials, server.OperatorFile)
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.SetServing(true)
	h.Server = s
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.web = web.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() { h.served <- s.Serve(ctx, listener, web) }()
	h.conn, err = grpc.NewClient("passthrough:server", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.conn.Close()
		h.transport.CloseIdleConnections()
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func secret(t testing.TB, dir, name string) string {
	t.Helper()
	s, err := server.ReadSecret(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// as returns a context that carries a bearer secret and ends in time.
func as(t testing.TB, secret string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret)
}

func (h *house) decide(t *testing.T, p *writv1.Proposal) (*writv1.DecideResponse, error) {
	return writv1.NewDecisionServiceClient(h.conn).Decide(as(t, h.host), &writv1.DecideRequest{Proposal: p})
}

// alive fails the test unless the server still answers.
func (h *house) alive(t *testing.T) {
	t.Helper()
	r, err := h.decide(t, &writv1.Proposal{RequestId: "still there"})
	if err != nil || r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_DENY {
		t.Fatalf("the server no longer answers: %v, %v", r, err)
	}
}

// raw sends and receives bytes as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// send calls a unary method with a message of these bytes.
func (h *house) send(ctx context.Context, method string, message []byte) error {
	var answer []byte
	return h.conn.Invoke(ctx, method, &message, &answer, grpc.ForceCodecV2(raw{}))
}

// wantRefusal checks an error's status code and its one ErrorInfo.
func wantRefusal(t *testing.T, err error, code codes.Code, reason server.Reason) *errdetails.ErrorInfo {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok || st.Code() != code {
		t.Fatalf("got %v, want status %v with reason %s", err, code, reason)
	}
	if len(st.Details()) != 1 {
		t.Fatalf("%v has the details %v, want one ErrorInfo", err, st.Details())
	}
	info, ok := st.Details()[0].(*errdetails.ErrorInfo)
	if !ok || info.GetReason() != string(reason) || info.GetDomain() != "writ.dev" {
		t.Fatalf("%v has the detail %v, want reason %s of writ.dev", err, st.Details()[0], reason)
	}
	return info
}

// wantNoLeak fails the test if goroutines of grpc, HTTP or the server outlive it.
// Call it first.
func wantNoLeak(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var left string
		for range 200 {
			if left = serverGoroutines(); left == "" {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("goroutines are left:\n%s", left)
	})
}

func serverGoroutines() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(g, "testing.tRunner") || strings.Contains(g, "serverGoroutines") {
			continue
		}
		if strings.Contains(g, "google.golang.org/grpc") || strings.Contains(g, "writ/server.") || strings.Contains(g, "net/http.(*conn).serve") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

var errSecret = errors.New("dial tcp 10.1.2.3: password hunter2 refused")
