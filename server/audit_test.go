package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// logbook is an audit log in memory.
type logbook struct {
	prove error // why nothing is proved; nil: something is

	mu      sync.Mutex
	lines   []string
	grown   chan struct{} // closed when lines grow
	readers int           // cursors that are not closed
}

func newLogbook(n int) *logbook {
	b := &logbook{grown: make(chan struct{})}
	for range n {
		b.add("decision", "ALLOW", "payments", "create_payment", "ann")
	}
	return b
}

// add adds a record, with what has no room in the arguments in between.
func (b *logbook) add(kind, code, server, tool, subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(`{"v":1,"index":%d,"kind":%q,"subject":%q,"principal":"User::\"%s\"","server":%q,"tool":%q,"code":%q,"explanation":"é"}`,
		len(b.lines), kind, subject, subject, server, tool, code))
	close(b.grown)
	b.grown = make(chan struct{})
}

func (b *logbook) line(i int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines[i]
}

// Size says that one more is accepted than is on the disk.
func (b *logbook) Size() (accepted, onDisk uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uint64(len(b.lines)) + 1, uint64(len(b.lines))
}

func (b *logbook) Follow(from uint64) server.AuditCursor {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers++
	return &page{b, from}
}

func (b *logbook) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readers
}

type page struct {
	book *logbook
	next uint64
}

func (p *page) Next(ctx context.Context) (uint64, []byte, error) {
	for {
		p.book.mu.Lock()
		grown := p.book.grown
		if p.next < uint64(len(p.book.lines)) {
			line := p.book.lines[p.next]
			p.book.mu.Unlock()
			p.next++
			return p.next - 1, []byte(line), nil
		}
		p.book.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
	}
}

func (p *page) Close() error {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	p.book.readers--
	return nil
}

func (b *logbook) ProveInclusion(_ context.Context, index, size uint64) (server.AuditProof, error) {
	return server.AuditProof{Record: []byte(fmt.Sprintf(`{"index":%d}`, index)), Size: size + 8, Hashes: [][]byte{bytes.Repeat([]byte{1}, 32)}, Checkpoint: []byte("note")}, b.prove
}

func (b *logbook) ProveConsistency(_ context.Context, old, size uint64) (server.AuditProof, error) {
	return server.AuditProof{Size: size + old, Hashes: [][]byte{bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{3}, 32)}}, b.prove
}

// openAudit runs a server with a log.
func openAudit(t testing.TB, b server.AuditLog, change func(*server.Config)) (*house, writv1.AuditServiceClient) {
	t.Helper()
	h := open(t, &decider{}, func(c *server.Config) {
		if c.Audit = b; change != nil {
			change(c)
		}
	})
	return h, writv1.NewAuditServiceClient(h.conn)
}

func atIndex(i uint64) *writv1.WatchDecisionsRequest {
	return &writv1.WatchDecisionsRequest{Start: &writv1.WatchDecisionsRequest_Index{Index: i}}
}

// watched takes one response.
func watched(t testing.TB, stream grpc.ServerStreamingClient[writv1.WatchDecisionsResponse]) *writv1.WatchDecisionsResponse {
	t.Helper()
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWithoutAnAuditLog(t *testing.T) {
	h, client := openAudit(t, nil, nil)
	operator := as(t, h.operator)
	_, err := client.GetInclusionProof(operator, &writv1.GetInclusionProofRequest{})
	wantRefusal(t, err, codes.Unimplemented, server.ReasonNoAuditLog)
	_, err = client.GetConsistencyProof(operator, &writv1.GetConsistencyProofRequest{})
	wantRefusal(t, err, codes.Unimplemented, server.ReasonNoAuditLog)
	stream, err := client.WatchDecisions(operator, &writv1.WatchDecisionsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	wantRefusal(t, err, codes.Unimplemented, server.ReasonNoAuditLog)
}

// TestWatchDecisions: from an index on, each record as it stands, then what is
// added; and from where one watcher stopped another goes on.
func TestWatchDecisions(t *testing.T) {
	b := newLogbook(5)
	h, client := openAudit(t, b, nil)
	ctx, cancel := context.WithCancel(as(t, h.operator))
	stream, err := client.WatchDecisions(ctx, atIndex(2))
	if err != nil {
		t.Fatal(err)
	}
	if r := watched(t, stream); r.NextIndex != 2 || r.RecordJson != "" {
		t.Errorf("it begins with %v", r)
	}
	next := uint64(2)
	for i := 2; i < 8; i++ {
		if i >= 5 {
			b.add("start", "", "", "", "")
		}
		r := watched(t, stream)
		if r.RecordJson != b.line(i) || r.NextIndex != uint64(i)+1 {
			t.Errorf("record %d: %v", i, r)
		}
		next = r.NextIndex
	}
	cancel()
	again, err := client.WatchDecisions(as(t, h.operator), atIndex(next))
	if err != nil {
		t.Fatal(err)
	}
	watched(t, again)
	b.add("stop", "", "", "", "")
	if r := watched(t, again); r.RecordJson != b.line(8) {
		t.Errorf("resumed with %v", r)
	}
	newest, err := client.WatchDecisions(as(t, h.operator), &writv1.WatchDecisionsRequest{Start: &writv1.WatchDecisionsRequest_Newest{Newest: true}})
	if err != nil {
		t.Fatal(err)
	}
	if r := watched(t, newest); r.NextIndex != 9 {
		t.Errorf("newest begins with %v", r)
	}
	b.add("reload", "", "", "", "")
	if r := watched(t, newest); r.RecordJson != b.line(9) {
		t.Errorf("newest tells %v", r)
	}
}

func TestWatchDecisionsRefuses(t *testing.T) {
	h, client := openAudit(t, newLogbook(3), nil)
	many := slices.Repeat([]string{"x"}, 65)
	start := &writv1.WatchDecisionsRequest_Index{}
	for _, tc := range []struct {
		name string
		req  *writv1.WatchDecisionsRequest
		code codes.Code
	}{
		{"no start", &writv1.WatchDecisionsRequest{}, codes.InvalidArgument},
		{"not the newest", &writv1.WatchDecisionsRequest{Start: &writv1.WatchDecisionsRequest_Newest{}}, codes.InvalidArgument},
		{"beyond the end", atIndex(4), codes.OutOfRange},
		{"an unknown kind", &writv1.WatchDecisionsRequest{Start: start, Kinds: []string{"start", "Decision"}}, codes.InvalidArgument},
		{"many kinds", &writv1.WatchDecisionsRequest{Start: start, Kinds: slices.Repeat([]string{"start"}, 65)}, codes.InvalidArgument},
		{"many codes", &writv1.WatchDecisionsRequest{Start: start, Codes: many}, codes.InvalidArgument},
		{"many servers", &writv1.WatchDecisionsRequest{Start: start, Servers: many}, codes.InvalidArgument},
	} {
		stream, err := client.WatchDecisions(as(t, h.operator), tc.req)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != tc.code {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.code)
		}
	}
	stream, err := client.WatchDecisions(as(t, h.operator), atIndex(3)) // the end itself
	if err != nil {
		t.Fatal(err)
	}
	watched(t, stream)
}

// TestWatchFilters: each part of a filter, and all of them together.
func TestWatchFilters(t *testing.T) {
	b := newLogbook(0)
	b.add("start", "", "", "", "")
	b.add("decision", "ALLOW", "payments", "pay", "ann")
	b.add("decision", "NO_PERMIT", "payments", "pay", "bob")
	b.add("explanation", "ALLOW", "files", "pay", "ann")
	b.add("decision", "ALLOW", "files", "read", "ann")
	b.add("stop", "", "", "", "")
	h, client := openAudit(t, b, nil)
	for _, tc := range []struct {
		name   string
		filter *writv1.WatchDecisionsRequest
		want   []int
	}{
		{"nothing", &writv1.WatchDecisionsRequest{}, []int{0, 1, 2, 3, 4, 5}},
		{"kinds", &writv1.WatchDecisionsRequest{Kinds: []string{"explanation", "stop"}}, []int{3, 5}},
		{"codes", &writv1.WatchDecisionsRequest{Codes: []string{"NO_PERMIT", "MY_OWN"}}, []int{2}},
		{"servers", &writv1.WatchDecisionsRequest{Servers: []string{"files"}}, []int{3, 4}},
		{"tool", &writv1.WatchDecisionsRequest{Tool: "pay"}, []int{1, 2, 3}},
		{"tool of a server", &writv1.WatchDecisionsRequest{Servers: []string{"files"}, Tool: "pay"}, []int{3}},
		{"subject", &writv1.WatchDecisionsRequest{Principal: "ann"}, []int{1, 3, 4}},
		{"entity", &writv1.WatchDecisionsRequest{Principal: `User::"bob"`}, []int{2}},
		{"all of it", &writv1.WatchDecisionsRequest{Kinds: []string{"decision"}, Codes: []string{"ALLOW"}, Servers: []string{"files", "payments"}, Tool: "read", Principal: "ann"}, []int{4}},
	} {
		tc.filter.Start = &writv1.WatchDecisionsRequest_Index{}
		ctx, cancel := context.WithCancel(as(t, h.operator))
		stream, err := client.WatchDecisions(ctx, tc.filter)
		if err != nil {
			t.Fatal(err)
		}
		watched(t, stream)
		for _, i := range tc.want {
			if r := watched(t, stream); r.RecordJson != b.line(i) || r.NextIndex != uint64(i)+1 {
				t.Errorf("%s: %v, want record %d", tc.name, r, i)
			}
		}
		cancel()
	}
}

// hearing is a stream that tells each response to f.
type hearing struct {
	grpc.ServerStream
	ctx context.Context
	f   func(*writv1.WatchDecisionsResponse) error
}

func (h *hearing) Context() context.Context                    { return h.ctx }
func (h *hearing) Send(r *writv1.WatchDecisionsResponse) error { return h.f(r) }

// TestWatchPulse: while nothing matches a watcher hears every five seconds how
// far it has come, and a watcher who hears records hears nothing else.
func TestWatchPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLogbook(0)
		ctx, cancel := context.WithCancel(t.Context())
		type heard struct {
			at     time.Duration
			next   uint64
			record bool
		}
		var got []heard
		begun := time.Now()
		stream := &hearing{ctx: ctx, f: func(r *writv1.WatchDecisionsResponse) error {
			got = append(got, heard{time.Since(begun), r.NextIndex, r.RecordJson != ""})
			return nil
		}}
		ended := make(chan error, 1)
		go func() {
			ended <- server.WatchDecisions(b, &writv1.WatchDecisionsRequest{Start: &writv1.WatchDecisionsRequest_Index{}, Tool: "pay"}, stream)
		}()
		time.Sleep(time.Second)
		for range 1000 { // what does not match, without a pause for seven seconds
			b.add("decision", "ALLOW", "payments", "other", "ann")
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(5 * time.Second) // 13 s
		b.add("decision", "ALLOW", "payments", "pay", "ann")
		time.Sleep(10 * time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		want := []heard{{0, 0, false}, {5 * time.Second, 572, false}, {10 * time.Second, 1000, false}, {13 * time.Second, 1001, true}, {20 * time.Second, 1001, false}}
		if !slices.Equal(got, want) {
			t.Errorf("heard %v, want %v", got, want)
		}
		if n := b.open(); n != 0 {
			t.Errorf("%d cursors are open", n)
		}
	})
}

// TestWatchFails: what is wrong with the log is the server's to know.
func TestWatchFails(t *testing.T) {
	b := newLogbook(1)
	b.lines[0] = "no JSON hunter2"
	h, client := openAudit(t, b, nil)
	stream, err := client.WatchDecisions(as(t, h.operator), &writv1.WatchDecisionsRequest{Start: &writv1.WatchDecisionsRequest_Index{}, Tool: "x"})
	if err != nil {
		t.Fatal(err)
	}
	watched(t, stream)
	_, err = stream.Recv()
	wantRefusal(t, err, codes.Internal, server.ReasonInternal)
}

// TestWatchEndsWithTheServer: a watcher does not keep a server from stopping.
func TestWatchEndsWithTheServer(t *testing.T) {
	wantNoLeak(t)
	b := newLogbook(1)
	h, client := openAudit(t, b, nil)
	stream, err := client.WatchDecisions(as(t, h.operator), atIndex(1))
	if err != nil {
		t.Fatal(err)
	}
	watched(t, stream)
	h.stop()
	_, err = stream.Recv()
	wantRefusal(t, err, codes.Unavailable, server.ReasonNotReady)
	if err := <-h.served; err != nil {
		t.Error(err)
	}
	if n := b.open(); n != 0 {
		t.Errorf("%d cursors are open", n)
	}
}

// TestWatchesAreBounded: one caller has so many watches and no more.
func TestWatchesAreBounded(t *testing.T) {
	h, client := openAudit(t, newLogbook(1), func(c *server.Config) { c.Limits.Watches = 2 })
	for range 2 {
		stream, err := client.WatchDecisions(as(t, h.operator), atIndex(0))
		if err != nil {
			t.Fatal(err)
		}
		watched(t, stream)
	}
	stream, err := client.WatchDecisions(as(t, h.operator), atIndex(0))
	if err == nil {
		_, err = stream.Recv()
	}
	wantRefusal(t, err, codes.ResourceExhausted, server.ReasonTooManyInFlight)
}

// TestSlowWatcher: who does not read keeps nobody waiting, neither those who
// write nor those who read.
func TestSlowWatcher(t *testing.T) {
	const n = 20_000 // far more than any window of the transport holds
	b := newLogbook(0)
	h, client := openAudit(t, b, nil)
	slow, err := client.WatchDecisions(as(t, h.operator), atIndex(0))
	if err != nil {
		t.Fatal(err)
	}
	watched(t, slow)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	quick, err := client.WatchDecisions(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+h.operator), atIndex(0))
	if err != nil {
		t.Fatal(err)
	}
	watched(t, quick)
	go func() {
		for range n {
			b.add("decision", "ALLOW", "payments", strings.Repeat("x", 200), "ann")
		}
	}()
	for i := range n {
		if r := watched(t, quick); r.NextIndex != uint64(i)+1 {
			t.Fatalf("record %d: %v", i, r)
		}
	}
	if r := watched(t, slow); r.NextIndex != 1 { // it goes on where it was
		t.Errorf("the slow one hears %v", r)
	}
}

// TestProofs: what the log proves travels as it is, over both doors.
func TestProofs(t *testing.T) {
	b := newLogbook(1)
	h, client := openAudit(t, b, nil)
	in, err := client.GetInclusionProof(as(t, h.operator), &writv1.GetInclusionProofRequest{Index: 3, TreeSize: 4})
	if err != nil || in.RecordJson != `{"index":3}` || in.TreeSize != 12 || len(in.Hashes) != 1 || !bytes.Equal(in.Hashes[0], bytes.Repeat([]byte{1}, 32)) || in.Checkpoint != "note" {
		t.Errorf("%v, %v", in, err)
	}
	con, err := client.GetConsistencyProof(as(t, h.operator), &writv1.GetConsistencyProofRequest{OldSize: 3, NewSize: 4})
	if err != nil || con.OldSize != 3 || con.NewSize != 7 || len(con.Hashes) != 2 || con.Checkpoint != "" {
		t.Errorf("%v, %v", con, err)
	}
	r := h.post(t, h.operator, "/writ.v1.AuditService/GetInclusionProof", strings.NewReader(`{"index":"3"}`))
	over := &writv1.GetInclusionProofResponse{}
	if err := protojson.Unmarshal(r.body, over); r.status != http.StatusOK || err != nil || over.TreeSize != 8 || over.RecordJson != `{"index":3}` {
		t.Errorf("%d %s, %v", r.status, r.body, err)
	}
	r = h.post(t, h.operator, "/writ.v1.AuditService/GetConsistencyProof", strings.NewReader(`{"oldSize":"1"}`))
	if r.status != http.StatusOK || !bytes.Contains(r.body, []byte(`"hashes"`)) {
		t.Errorf("%d %s", r.status, r.body)
	}
	h.post(t, h.operator, "/writ.v1.AuditService/WatchDecisions", strings.NewReader(`{}`)).wantRefused(t, http.StatusNotFound, "unimplemented", server.ReasonMethodUnknown)

	_, err = client.GetInclusionProof(as(t, h.operator), &writv1.GetInclusionProofRequest{Index: 4, TreeSize: 4})
	wantRefusal(t, err, codes.OutOfRange, server.ReasonOutOfRange)
	_, err = client.GetConsistencyProof(as(t, h.operator), &writv1.GetConsistencyProofRequest{})
	wantRefusal(t, err, codes.InvalidArgument, server.ReasonMalformedRequest)
	_, err = client.GetConsistencyProof(as(t, h.operator), &writv1.GetConsistencyProofRequest{OldSize: 5, NewSize: 4})
	wantRefusal(t, err, codes.OutOfRange, server.ReasonOutOfRange)
	for _, tc := range []struct {
		fault  error
		code   codes.Code
		reason server.Reason
	}{
		{fmt.Errorf("the tree: %w", server.ErrNotInTree), codes.OutOfRange, server.ReasonOutOfRange},
		{errSecret, codes.Internal, server.ReasonInternal},
	} {
		b.prove = tc.fault
		_, err = client.GetInclusionProof(as(t, h.operator), &writv1.GetInclusionProofRequest{})
		wantRefusal(t, err, tc.code, tc.reason)
		_, err = client.GetConsistencyProof(as(t, h.operator), &writv1.GetConsistencyProofRequest{OldSize: 1})
		wantRefusal(t, err, tc.code, tc.reason)
	}
}
