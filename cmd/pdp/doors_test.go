package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/examples"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// TestDoors sends every scenario of every example through every door: gRPC,
// JSON over HTTP, and pdp decide with a file. They give the decision that
// package decide gives, at the scenario's own time. Approvals have no door yet,
// so a scenario with approvals is sent without them.
func TestDoors(t *testing.T) {
	for name, fsys := range map[string]fs.FS{
		"hello": examples.Hello(), "lab": examples.Lab(), "filesystem": examples.Filesystem(), "github": examples.GitHub(),
		"accounts-payable": examples.AccountsPayable(),
	} {
		t.Run(name, func(t *testing.T) {
			files, err := embedded(fsys)
			if err != nil {
				t.Fatal(err)
			}
			b, faults := bundle.Build(files, nil)
			if b == nil {
				t.Fatal(faults)
			}
			dir := filepath.Join("../../examples", name)
			synctest.Test(t, func(t *testing.T) { throughDoors(t, b, dir) })
		})
	}
}

// throughDoors runs in a bubble, whose clock it takes to each scenario's time.
func throughDoors(t *testing.T, b *bundle.Bundle, dir string) {
	scenarios := slices.Clone(b.Scenarios)
	slices.SortStableFunc(scenarios, func(a, b bundle.Scenario) int { return a.Now.Compare(b.Now) })
	if first := scenarios[len(scenarios)-1].Now; first.After(time.Now()) {
		time.Sleep(time.Until(scenarios[slices.IndexFunc(scenarios, func(s bundle.Scenario) bool { return !s.Now.IsZero() })].Now))
	}
	d := openDoors(t, b)
	compared := 0
	for _, s := range scenarios {
		if s.Now.After(time.Now()) {
			time.Sleep(time.Until(s.Now))
		}
		s = s.At(time.Now())
		if !s.Now.Equal(time.Now().UTC()) && !s.Now.Equal(time.Now()) {
			t.Fatalf("%s: the clock is past its time", s.Name)
		}
		caller := b.Snapshot.Callers[s.Caller]
		if !b.Snapshot.May(caller, "Decide") {
			continue
		}
		if token := s.Proposal.Token; token != nil && !token.Verified {
			continue // the doors' callers vouch for tokens
		}
		want := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
		proposal, err := server.ProposalToProto(&s.Proposal)
		if err != nil {
			t.Fatal(err)
		}
		request := &writv1.DecideRequest{Proposal: proposal}
		for door, got := range map[string]*writv1.Decision{
			"gRPC": d.grpc(t, caller, request), "JSON": d.json(t, caller, request), "pdp decide": cli(t, dir, caller, request),
		} {
			if got.GetCode() != string(want.Code) || server.OutcomeFromProto(got.GetOutcome()) != want.Outcome ||
				got.GetProposalDigest() != want.ProposalDigest.String() || got.GetRevision() != want.Revision {
				t.Errorf("%s: %s says %s, decide says %s: %s", s.Name, door, got.GetCode(), want.Code, got.GetExplanation())
			}
		}
		compared++
	}
	if compared < len(scenarios)/2 || compared == 0 {
		t.Errorf("only %d of %d scenarios went through the doors", compared, len(scenarios))
	}
}

// doors is a server in the bubble.
type doors struct {
	bundle *bundle.Bundle
	holder *snapshot.Holder
	mu     sync.Mutex
	caller *writ.Caller // guarded by mu: whom the host's secret stands for
	secret string
	client writv1.DecisionServiceClient
	http   *http.Client
}

func (d *doors) as(c *writ.Caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c != nil { // the scenarios speak of verified tokens, so here the caller vouches for them
		vouching := *c
		vouching.Vouches = append(slices.Clone(c.Vouches), writ.SourceToken)
		c = &vouching
		world := *d.bundle.Snapshot
		world.Callers = maps.Clone(world.Callers)
		world.Callers[c.Name] = c
		d.holder.Store(&world)
	}
	d.caller = c
}

func (d *doors) now() *writ.Caller {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.caller
}

// nowhere is a log that keeps nothing.
type nowhere struct{}

func (nowhere) Append(context.Context, audit.Record, bool) error { return nil }

func openDoors(t *testing.T, b *bundle.Bundle) *doors {
	t.Helper()
	holder := &snapshot.Holder{}
	holder.Store(b.Snapshot)
	p, err := pdp.New(pdp.Config{Snapshots: holder, Log: nowhere{}})
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := server.NewCredentials(filepath.Join(t.TempDir(), "credentials"))
	if err != nil {
		t.Fatal(err)
	}
	d := &doors{bundle: b, holder: holder}
	s, err := server.New(server.Config{
		Decider: p, Credentials: credentials, LocalHost: d.now, LocalServer: func() *writ.Caller { return nil }, LocalOperator: func() *writ.Caller { return nil },
		May:    func(c *writ.Caller, method string) bool { return holder.Load().May(c, method) },
		Limits: server.Limits{Apart: 1}, // so that no call waits, and the clock stands still
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.secret, err = server.ReadSecret(credentials.Dir(), server.HostFile); err != nil {
		t.Fatal(err)
	}
	grpcListener, httpListener := bufconn.Listen(1<<20), bufconn.Listen(1<<20)
	s.SetServing(true)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), grpcListener, httpListener) }()
	conn, err := grpc.NewClient("passthrough:///doors", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return grpcListener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return httpListener.DialContext(ctx) }}
	d.client, d.http = writv1.NewDecisionServiceClient(conn), &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *doors) grpc(t *testing.T, caller *writ.Caller, request *writv1.DecideRequest) *writv1.Decision {
	t.Helper()
	d.as(caller)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+d.secret)
	r, err := d.client.Decide(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return r.GetDecision()
}

func (d *doors) json(t *testing.T, caller *writ.Caller, request *writv1.DecideRequest) *writv1.Decision {
	t.Helper()
	d.as(caller)
	body, err := protojson.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/writ.v1.DecisionService/Decide", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Authorization", "Bearer "+d.secret)
	r, err := d.http.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", r.Status, answer, err)
	}
	out := &writv1.DecideResponse{}
	if err := protojson.Unmarshal(answer, out); err != nil {
		t.Fatal(err)
	}
	return out.GetDecision()
}

// cli is pdp decide --json with the request in a file.
func cli(t *testing.T, dir string, caller *writ.Caller, request *writv1.DecideRequest) *writv1.Decision {
	t.Helper()
	body, err := protojson.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "call.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"decide", "--json", "--bundle", dir, "--caller", caller.Name, file}, nil, &out, &errs)
	var printed struct{ Decision json.RawMessage }
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		t.Fatalf("%v: %s%s", err, out.String(), errs.String())
	}
	d := &writv1.Decision{}
	if err := protojson.Unmarshal(printed.Decision, d); err != nil {
		t.Fatal(err)
	}
	want := map[writ.Outcome]int{writ.Allow: exitOK, writ.Deny: exitDeny, writ.ReviewRequired: exitReview}[server.OutcomeFromProto(d.GetOutcome())]
	if code != want {
		t.Errorf("%s exits with %d, want %d", d.GetCode(), code, want)
	}
	return d
}
