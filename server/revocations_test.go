package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
)

// revoker is a revocation log in memory; fail makes it refuse.
type revoker struct {
	mu      sync.Mutex
	view    *revocation.View // guarded by mu; nil: no bundle is loaded
	changed chan struct{}    // guarded by mu
	fail    error
	callers []string // guarded by mu
}

func newRevoker(t testing.TB, entries ...revocation.Entry) *revoker {
	t.Helper()
	view, err := revocation.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return &revoker{view: view, changed: make(chan struct{})}
}

func (r *revoker) Revoke(_ context.Context, caller *writ.Caller, entries []revocation.Entry) ([]revocation.Entry, string, error) {
	if r.fail != nil {
		return nil, "", r.fail
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers = append(r.callers, caller.Name)
	next, err := r.view.With(entries)
	if err != nil {
		return nil, "", err
	}
	added := slices.Collect(next.Entries(r.view.Sequence()))
	r.view = next
	close(r.changed)
	r.changed = make(chan struct{})
	return added, fmt.Sprint("revision ", next.Sequence()), nil
}

func (r *revoker) Revocations() (*revocation.View, time.Time, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view, time.Now(), r.changed
}

// operate opens a server with a revoker and returns it with a client.
func operate(t testing.TB, r server.Revoker, change func(*server.Config)) (*house, writv1.RevocationServiceClient) {
	t.Helper()
	h := open(t, &decider{}, func(c *server.Config) {
		c.Revoker = r
		if change != nil {
			change(c)
		}
	})
	return h, writv1.NewRevocationServiceClient(h.conn)
}

const revokeMethod = "/writ.v1.RevocationService/Revoke"

func day(n int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 12, n, 0, 0, 0, 5, time.UTC))
}

// fullRevocation has all that a request may say.
func fullRevocation() *writv1.Revocation {
	return &writv1.Revocation{
		Kind: "principal", Issuer: "https://login.example", Id: "ann", IssuedBefore: day(1), From: day(2), Until: day(3), Reason: "left", Author: "bob",
	}
}

// Every field of a request arrives, and every field of an entry comes back,
// through both doors.
func TestRevokeSurvivesConversion(t *testing.T) {
	r := newRevoker(t)
	h, client := operate(t, r, nil)
	answer, err := client.Revoke(as(t, h.operator), &writv1.RevokeRequest{Revocations: []*writv1.Revocation{
		fullRevocation(), {Kind: "tool", Id: "s/t", Lift: true, Reason: "again"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := revocation.Entry{
		Sequence: 1, Kind: revocation.Principal, Issuer: "https://login.example", ID: "ann",
		IssuedBefore: day(1).AsTime(), From: day(2).AsTime(), Until: day(3).AsTime(), Reason: "left", Author: "bob",
	}
	got := slices.Collect(r.view.Entries(0))
	if len(got) != 2 || got[0] != want || got[1] != (revocation.Entry{Sequence: 2, Kind: revocation.Tool, ID: "s/t", Lift: true, Reason: "again"}) {
		t.Errorf("arrived as %+v", got)
	}
	back := fullRevocation()
	back.Sequence = 1
	if len(answer.GetRevocations()) != 2 || !proto.Equal(answer.GetRevocations()[0], back) || answer.GetRevision() != "revision 2" {
		t.Errorf("answered %v", answer)
	}
	if len(r.callers) != 1 || r.callers[0] != operatorCaller.Name {
		t.Errorf("revoked by %v", r.callers)
	}
	// Every field of the message was set above, but for the log's own.
	fields := fullRevocation().ProtoReflect()
	for i := range fields.Descriptor().Fields().Len() {
		f := fields.Descriptor().Fields().Get(i)
		if !fields.Has(f) && f.Name() != "sequence" && f.Name() != "recorded_at" && f.Name() != "lift" {
			t.Errorf("the test doesn't set %s", f.Name())
		}
	}

	text, err := protojson.Marshal(&writv1.RevokeRequest{Revocations: []*writv1.Revocation{fullRevocation()}})
	if err != nil {
		t.Fatal(err)
	}
	reply := h.post(t, h.operator, revokeMethod, strings.NewReader(string(text)))
	overHTTP := &writv1.RevokeResponse{}
	if err := protojson.Unmarshal(reply.body, overHTTP); err != nil || reply.status != http.StatusOK {
		t.Fatalf("%d %s, %v", reply.status, reply.body, err)
	}
	back.Sequence = 3
	if len(overHTTP.GetRevocations()) != 1 || !proto.Equal(overHTTP.GetRevocations()[0], back) || overHTTP.GetRevision() != "revision 3" {
		t.Errorf("answered %s", reply.body)
	}
	for _, method := range []string{revokeMethod, "/writ.v1.RevocationService/ListRevocations"} {
		if r := h.post(t, h.host, method, strings.NewReader("{}")); r.status != http.StatusForbidden {
			t.Errorf("%s as host: %d %s", method, r.status, r.body)
		}
	}
	if r := h.post(t, h.operator, "/writ.v1.RevocationService/WatchRevocations", strings.NewReader("{}")); r.status != http.StatusNotFound {
		t.Errorf("a stream over HTTP: %d", r.status)
	}
}

func TestRevokeRefusesFields(t *testing.T) {
	r := newRevoker(t)
	h, client := operate(t, r, nil)
	for _, c := range []struct {
		field  string
		change func(*writv1.Revocation)
	}{
		{"kind", func(r *writv1.Revocation) { r.Kind = "" }},
		{"kind", func(r *writv1.Revocation) { r.Kind = "Principal" }},
		{"issuer", func(r *writv1.Revocation) { r.Issuer = "" }},
		{"issuer", func(r *writv1.Revocation) { r.Kind = "actor" }},
		{"id", func(r *writv1.Revocation) { r.Id = "" }},
		{"id", func(r *writv1.Revocation) { r.Id = strings.Repeat("x", 1025) }},
		{"id", func(r *writv1.Revocation) { r.Id = "a\x00" }},
		{"reason", func(r *writv1.Revocation) { r.Reason = "" }},
		{"reason", func(r *writv1.Revocation) { r.Reason = strings.Repeat("x", 4097) }},
		{"author", func(r *writv1.Revocation) { r.Author = strings.Repeat("x", 1025) }},
		{"sequence", func(r *writv1.Revocation) { r.Sequence = 7 }},
		{"recorded_at", func(r *writv1.Revocation) { r.RecordedAt = day(1) }},
		{"from", func(r *writv1.Revocation) { r.From = &timestamppb.Timestamp{Seconds: 1 << 60} }},
		{"until", func(r *writv1.Revocation) { r.Until = &timestamppb.Timestamp{Nanos: -1} }},
		{"issued_before", func(r *writv1.Revocation) { r.IssuedBefore = &timestamppb.Timestamp{Nanos: 1e9} }},
		{"from", func(r *writv1.Revocation) { r.From = r.Until }},
		{"issued_before", func(r *writv1.Revocation) { r.Lift = true }},
	} {
		bad := fullRevocation()
		c.change(bad)
		_, err := client.Revoke(as(t, h.operator), &writv1.RevokeRequest{Revocations: []*writv1.Revocation{fullRevocation(), bad}})
		info := wantRefusal(t, err, codes.InvalidArgument, server.ReasonInvalidRevocation)
		if want := "revocations[1]." + c.field; info.GetMetadata()["field"] != want || !strings.HasPrefix(status.Convert(err).Message(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, n := range []int{0, 1001} {
		many := make([]*writv1.Revocation, n)
		for i := range many {
			many[i] = &writv1.Revocation{Kind: "intent", Id: "i", Reason: "r"}
		}
		_, err := client.Revoke(as(t, h.operator), &writv1.RevokeRequest{Revocations: many})
		wantRefusal(t, err, codes.InvalidArgument, server.ReasonBatchSize)
	}
	if r.view.Sequence() != 0 {
		t.Errorf("%d entries of refused requests", r.view.Sequence())
	}
	many := make([]*writv1.Revocation, 1000)
	for i := range many {
		many[i] = &writv1.Revocation{Kind: "intent", Id: fmt.Sprint(i), Reason: "r"}
	}
	if a, err := client.Revoke(as(t, h.operator), &writv1.RevokeRequest{Revocations: many}); err != nil || len(a.GetRevocations()) != 1000 {
		t.Errorf("1000 entries: %v", err)
	}
}

// What goes wrong is told as what it is: whoever revokes must know whether it
// is done.
func TestRevokeFailures(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   codes.Code
		reason server.Reason
	}{
		{errSecret, codes.Unavailable, server.ReasonNotRevoked},
		{pdp.ErrNoRevocationLog, codes.FailedPrecondition, server.ReasonNoRevocationLog},
		{&pdp.UnsettledError{InForce: true, Err: errSecret}, codes.DataLoss, server.ReasonUnrecorded},
		{&pdp.UnsettledError{Err: errSecret}, codes.DataLoss, server.ReasonNotInForce},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), codes.DeadlineExceeded, server.ReasonDeadlineExceeded},
	} {
		r := newRevoker(t)
		r.fail = c.err
		h, client := operate(t, r, nil)
		_, err := client.Revoke(as(t, h.operator), &writv1.RevokeRequest{Revocations: []*writv1.Revocation{fullRevocation()}})
		wantRefusal(t, err, c.code, c.reason)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("it leaks: %v", err)
		}
		if logged := strings.Contains(h.log.String(), "hunter2"); logged != errors.Is(c.err, errSecret) {
			t.Errorf("%v: logged %t", c.err, logged)
		}
	}
	h, client := operate(t, nil, nil)
	_, err := client.Revoke(as(t, h.operator), &writv1.RevokeRequest{Revocations: []*writv1.Revocation{fullRevocation()}})
	wantRefusal(t, err, codes.FailedPrecondition, server.ReasonNoRevocationLog)
	_, err = client.ListRevocations(as(t, h.operator), &writv1.ListRevocationsRequest{})
	wantRefusal(t, err, codes.FailedPrecondition, server.ReasonNoRevocationLog)
	h, client = operate(t, &revoker{}, nil)
	_, err = client.ListRevocations(as(t, h.operator), &writv1.ListRevocationsRequest{})
	wantRefusal(t, err, codes.Unavailable, server.ReasonNotReady)
}

// A request costs the caller's rate what its entries would.
func TestRevokeIsCharged(t *testing.T) {
	h, client := operate(t, newRevoker(t), func(c *server.Config) { c.Limits.Rate, c.Limits.Burst = 1, 10 })
	many := make([]*writv1.Revocation, 500)
	for i := range many {
		many[i] = &writv1.Revocation{Kind: "intent", Id: fmt.Sprint(i), Reason: "r"}
	}
	if _, err := client.Revoke(as(t, h.operator), &writv1.RevokeRequest{Revocations: many}); err != nil {
		t.Fatal(err)
	}
	_, err := client.ListRevocations(as(t, h.operator), &writv1.ListRevocationsRequest{})
	wantRefusal(t, err, codes.ResourceExhausted, server.ReasonRateLimited)
}

func TestListRevocations(t *testing.T) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	r := newRevoker(t,
		revocation.Entry{Kind: revocation.Server, ID: "a"},
		revocation.Entry{Kind: revocation.Server, ID: "b", Until: past},
		revocation.Entry{Kind: revocation.Intent, ID: "a", From: future},
		revocation.Entry{Kind: revocation.Intent, ID: "b", IssuedBefore: past},
		revocation.Entry{Kind: revocation.Server, ID: "c"},
		revocation.Entry{Kind: revocation.Server, ID: "c", Lift: true},
		revocation.Entry{Kind: revocation.Server, ID: "c"},
	)
	h, client := operate(t, r, nil)
	for _, c := range []struct {
		name string
		ask  *writv1.ListRevocationsRequest
		want string // sequences
		next uint64
	}{
		{"all", &writv1.ListRevocationsRequest{}, "1 2 3 4 5 6 7", 0},
		{"after", &writv1.ListRevocationsRequest{After: 5}, "6 7", 0},
		{"after the last", &writv1.ListRevocationsRequest{After: 7}, "", 0},
		{"after what is not there", &writv1.ListRevocationsRequest{After: 1 << 63}, "", 0},
		{"a page", &writv1.ListRevocationsRequest{PageSize: 3}, "1 2 3", 3},
		{"the next page", &writv1.ListRevocationsRequest{PageSize: 3, After: 3}, "4 5 6", 6},
		{"the last page", &writv1.ListRevocationsRequest{PageSize: 3, After: 6}, "7", 0},
		{"a page that is just full", &writv1.ListRevocationsRequest{PageSize: 7}, "1 2 3 4 5 6 7", 0},
		{"a kind", &writv1.ListRevocationsRequest{Kind: "intent"}, "3 4", 0},
		{"an id", &writv1.ListRevocationsRequest{Id: "a"}, "1 3", 0},
		{"a kind and an id", &writv1.ListRevocationsRequest{Kind: "server", Id: "c"}, "5 6 7", 0},
		{"in force", &writv1.ListRevocationsRequest{InForce: true}, "1 4 7", 0},
		{"a page of what is in force", &writv1.ListRevocationsRequest{InForce: true, PageSize: 2}, "1 4", 6},
		{"the page after it", &writv1.ListRevocationsRequest{InForce: true, PageSize: 2, After: 6}, "7", 0},
	} {
		page, err := client.ListRevocations(as(t, h.operator), c.ask)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.GetRevocations() {
			got = append(got, fmt.Sprint(e.GetSequence()))
		}
		if strings.Join(got, " ") != c.want || page.GetNextAfter() != c.next || page.GetSequence() != 7 {
			t.Errorf("%s: %v, next after %d of %d; want %s, %d", c.name, got, page.GetNextAfter(), page.GetSequence(), c.want, c.next)
		}
	}
	for _, size := range []int32{-1, 1001} {
		_, err := client.ListRevocations(as(t, h.operator), &writv1.ListRevocationsRequest{PageSize: size})
		wantRefusal(t, err, codes.InvalidArgument, server.ReasonBatchSize)
	}
	_, err := client.ListRevocations(as(t, h.operator), &writv1.ListRevocationsRequest{Kind: "people"})
	wantRefusal(t, err, codes.InvalidArgument, server.ReasonInvalidRevocation)
}

// A page of the longest entries is still small enough for a client's default
// limit, and the pages together hold all of them.
func TestListRevocationsOfLongEntries(t *testing.T) {
	var log []revocation.Entry
	for i := range 700 {
		log = append(log, revocation.Entry{
			Kind: revocation.Token, Issuer: strings.Repeat("i", 1024), ID: fmt.Sprintf("%01024d", i), Reason: strings.Repeat("r", 4096), Author: strings.Repeat("a", 1024),
		})
	}
	h, client := operate(t, newRevoker(t, log...), nil)
	seen, pages := uint64(0), 0
	for ask := (&writv1.ListRevocationsRequest{}); ; pages++ {
		page, err := client.ListRevocations(as(t, h.operator), ask)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(page); size > 2<<20 {
			t.Errorf("a page of %d bytes", size)
		}
		for _, e := range page.GetRevocations() {
			if seen++; e.GetSequence() != seen {
				t.Fatalf("entry %d after %d", e.GetSequence(), seen-1)
			}
		}
		if ask.After = page.GetNextAfter(); ask.After == 0 {
			break
		}
	}
	if seen != 700 || pages < 2 {
		t.Errorf("%d entries on %d pages", seen, pages+1)
	}
}

// A demanded revision reaches the decider from each method.
func TestDemandReachesTheDecider(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	client := writv1.NewDecisionServiceClient(h.conn)
	p := &writv1.Proposal{}
	if _, err := client.Decide(as(t, h.host), &writv1.DecideRequest{Proposal: p, AtLeastAsFresh: "one"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DecideBatch(as(t, h.host), &writv1.DecideBatchRequest{Proposals: []*writv1.Proposal{p}, AtLeastAsFresh: "two"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Explain(as(t, h.operator), &writv1.ExplainRequest{Proposal: p, AtLeastAsFresh: "three"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, q := range d.questions() {
		got = append(got, q.demand)
	}
	if !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("demanded %q", got)
	}
}

var _ server.Revoker = (*pdp.PDP)(nil)
