// Package pdptest puts a PDP into a Go test in one line. [New] is the real
// thing: the real bundle, the real decision, the real server on a loopback
// port, with a log in memory. [AllowAllForTest] and [DenyAllForTest] decide
// nothing, and say so in their names.
//
//	p := pdptest.New(t, "testdata/bundle")
//	r, err := p.Client().Decide(t.Context(), request)
//
// Everything ends with the test.
package pdptest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// PDP is a running PDP for one test.
type PDP struct {
	bundle      *bundle.Bundle // nil for those that decide nothing
	addr        string
	credentials string
	client      writv1.DecisionServiceClient

	mu      sync.Mutex
	records []audit.Record // guarded by mu
}

// New starts a PDP over the bundle in dir. The test fails at once when the
// bundle has faults.
func New(t testing.TB, dir string) *PDP {
	t.Helper()
	files, err := bundle.ReadDir(dir)
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatalf("pdptest: the bundle %s has faults:\n%v", dir, faults)
	}
	p := &PDP{bundle: b}
	holder := &snapshot.Holder{}
	b.Snapshot.LoadedAt = time.Now()
	holder.Store(b.Snapshot)
	verifier := token.New(token.Config{})
	t.Cleanup(verifier.Close)
	decider, err := pdp.New(pdp.Config{Snapshots: holder, Log: p, Tokens: verifier})
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	credentials, err := server.NewCredentials(filepath.Join(t.TempDir(), "credentials"))
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	s, err := server.New(server.Config{
		Decider: decider, Enforcer: decider, Reviewer: decider, Credentials: credentials,
		May:           func(c *writ.Caller, method string) bool { return holder.Load().May(c, method) },
		LocalHost:     func() *writ.Caller { return holder.Load().LocalHost },
		LocalServer:   func() *writ.Caller { return holder.Load().LocalServer },
		LocalOperator: func() *writ.Caller { return holder.Load().LocalOperator },
	})
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	listener, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	s.SetServing(true)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), listener, nil) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("pdptest: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("pdptest: %v", err)
		}
	})
	p.addr, p.credentials = listener.Addr().String(), credentials.Dir()
	secret, err := server.ReadSecret(p.credentials, server.HostFile)
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	p.connect(t, secret)
	return p
}

// AllowAllForTest answers ALLOW to everything, without looking at it. It is
// for tests of what happens after an ALLOW, and no PDP.
func AllowAllForTest(t testing.TB) *PDP {
	t.Helper()
	return fake(t, &writv1.Decision{
		Outcome: writv1.Outcome_OUTCOME_ALLOW, Code: string(writ.CodeAllow), Explanation: "AllowAllForTest: nothing was decided.",
	})
}

// DenyAllForTest answers DENY with code to everything, without looking at it.
func DenyAllForTest(t testing.TB, code writ.Code) *PDP {
	t.Helper()
	return fake(t, &writv1.Decision{
		Outcome: writv1.Outcome_OUTCOME_DENY, Code: string(code), Control: string(code.Control()), Explanation: "DenyAllForTest: nothing was decided.",
	})
}

// fake serves one answer.
func fake(t testing.TB, answer *writv1.Decision) *PDP {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	s := grpc.NewServer()
	writv1.RegisterDecisionServiceServer(s, &constant{answer: answer})
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	p := &PDP{addr: listener.Addr().String()}
	p.connect(t, "")
	return p
}

// constant answers the same to everything.
type constant struct {
	writv1.UnimplementedDecisionServiceServer
	answer *writv1.Decision
}

func (c *constant) Decide(context.Context, *writv1.DecideRequest) (*writv1.DecideResponse, error) {
	return &writv1.DecideResponse{DecisionId: "FOR-TEST", Decision: c.answer}, nil
}

func (c *constant) DecideBatch(_ context.Context, req *writv1.DecideBatchRequest) (*writv1.DecideBatchResponse, error) {
	out := &writv1.DecideBatchResponse{}
	for range req.GetProposals() {
		out.Answers = append(out.Answers, &writv1.DecideResponse{DecisionId: "FOR-TEST", Decision: c.answer})
	}
	return out, nil
}

// connect makes the client, which sends secret with every call.
func (p *PDP) connect(t testing.TB, secret string) {
	t.Helper()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if secret != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(secret)))
	}
	conn, err := grpc.NewClient(p.addr, options...)
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p.client = writv1.NewDecisionServiceClient(conn)
}

// bearer sends a local secret. It goes over loopback only: see connect.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// Client asks as the bundle's host on this machine.
func (p *PDP) Client() writv1.DecisionServiceClient { return p.client }

// Addr is the loopback address that the PDP answers on, for clients in other
// processes and languages.
func (p *PDP) Addr() string { return p.addr }

// CredentialsDir is the directory of this PDP's secrets: the files host and
// operator. It is empty for those that decide nothing.
func (p *PDP) CredentialsDir() string { return p.credentials }

// Call makes a valid call of a tool, S/T, by principal, User::"ana", with
// arguments as JSON: everything else is filled in from the bundle. Change it
// before you send it.
func (p *PDP) Call(t testing.TB, principal, tool, arguments string) *writv1.DecideRequest {
	t.Helper()
	if p.bundle == nil {
		return &writv1.DecideRequest{Proposal: &writv1.Proposal{RequestId: "for-test", Tool: tool, ArgumentsJson: arguments}}
	}
	text, err := json.Marshal(map[string]any{"cases": []any{map[string]any{
		"name": "call", "principal": principal, "tool": tool, "arguments_json": arguments, "expect": "ALLOW",
	}}})
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	calls, faults := p.bundle.ReadScenarios(bundle.File{Name: "call.yaml", Data: text})
	if calls == nil {
		t.Fatalf("pdptest: no call can be made of %s by %s:\n%v", tool, principal, faults)
	}
	call := calls[0].At(time.Now())
	call.Proposal.RequestID = rand.Text()
	out, err := server.ProposalToProto(&call.Proposal)
	if err != nil {
		t.Fatalf("pdptest: %v", err)
	}
	return &writv1.DecideRequest{Proposal: out}
}

// Records are what the PDP has recorded so far, in order.
func (p *PDP) Records() []audit.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]audit.Record(nil), p.records...)
}

// Append implements pdp.Log in memory.
func (p *PDP) Append(_ context.Context, r audit.Record, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, r)
	return nil
}
