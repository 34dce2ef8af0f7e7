package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

func TestHTTPDecide(t *testing.T) {
	wantNoLeak(t)
	d := &decider{}
	h := openTCP(t, d, nil)
	r, raw := h.decideJSON(t, full())
	if raw.status != http.StatusOK || raw.header.Get("Content-Type") != "application/json" || r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_DENY {
		t.Fatalf("got %d %s", raw.status, raw.body)
	}
	raw.wantHeader(t)
	overGRPC, err := h.decide(t, full())
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(r, overGRPC) {
		t.Errorf("JSON %v\ngRPC %v", r, overGRPC)
	}
	q := d.questions()
	if len(q) != 2 || q[0].caller != hostCaller || q[0].deadline > 5*time.Second || q[0].deadline < 4*time.Second {
		t.Errorf("asked %+v", q)
	}
	// The same proposal arrives by both doors.
	a, errA := server.ProposalToProto(q[0].proposal)
	b, errB := server.ProposalToProto(q[1].proposal)
	if errA != nil || errB != nil || !proto.Equal(a, b) {
		t.Errorf("JSON %v %v\ngRPC %v %v", a, errA, b, errB)
	}
	// As other clients write it.
	for name, headers := range map[string][]string{
		"Connect":  {"Connect-Protocol-Version", "1", "Connect-Timeout-Ms", "2000"},
		"identity": {"Content-Encoding", "identity"},
		"scheme":   {"Authorization", "bEaReR " + h.host},
	} {
		secret := h.host
		if name == "scheme" {
			secret = ""
		}
		if r := h.post(t, secret, decideMethod, body(`{"proposal": {"request_id": "r"}}`), headers...); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// Without a declared length.
	if r := h.post(t, h.host, decideMethod, io.MultiReader(body(`{"proposal":`), body(`{}}`))); r.status != http.StatusOK {
		t.Errorf("chunked: %d %s", r.status, r.body)
	}
	if r := h.post(t, "", "/grpc.health.v1.Health/Check", body(`{}`)); r.status != http.StatusOK || string(r.body) != `{"status":"SERVING"}` {
		t.Errorf("health: %d %s", r.status, r.body)
	}
}

// The examples' scenarios get the same answers by both doors.
func TestScenariosOverHTTP(t *testing.T) {
	asked := 0
	for _, dir := range []string{"../examples/hello", "../examples/lab"} {
		b, log, cfg := world(t, dir)
		h := around(t, cfg)
		for _, s := range b.Scenarios {
			if len(s.Approvers) > 0 || !s.Now.IsZero() || b.Snapshot.Callers[s.Caller] != b.Snapshot.LocalHost {
				continue // not to be had over the wire, or not now
			}
			s = s.At(time.Now())
			p, err := server.ProposalToProto(&s.Proposal)
			if err != nil {
				t.Fatal(err)
			}
			want, err := h.decide(t, p)
			if err != nil {
				t.Fatal(err)
			}
			got, raw := h.decideJSON(t, p)
			if raw.status != http.StatusOK {
				t.Errorf("%s, %s: %d %s", dir, s.Name, raw.status, raw.body)
				continue
			}
			if got.GetDecisionId() == "" || got.GetDecisionId() == want.GetDecisionId() || got.GetDecisionId() != log.latest().ID {
				t.Errorf("%s, %s: decision %q is recorded as %q", dir, s.Name, got.GetDecisionId(), log.latest().ID)
			}
			if !proto.Equal(got.GetDecision(), want.GetDecision()) || got.GetDecision().GetCode() != string(s.Expect.Code) {
				t.Errorf("%s, %s:\nJSON %v\ngRPC %v\nwant %s", dir, s.Name, got.GetDecision(), want.GetDecision(), s.Expect.Code)
			}
			asked++
		}
	}
	if asked < 7 {
		t.Errorf("only %d scenarios were asked", asked)
	}
}

func TestHTTPStrangersAreRefused(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	for name, values := range map[string][]string{
		"no credential": nil, "empty": {""}, "scheme alone": {"Bearer"}, "another scheme": {"Basic " + h.host}, "no scheme": {h.host},
		"invented": {"Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, "huge": {"Bearer " + strings.Repeat("A", 8000)},
		"two": {"Bearer " + h.host, "Bearer " + h.host}, "both": {"Bearer " + h.host, "Bearer " + h.operator},
	} {
		var headers []string
		for _, v := range values {
			headers = append(headers, "Authorization", v)
		}
		for _, text := range []string{`{}`, `{"nope":1}`, `[`, ``} {
			r := h.post(t, "", decideMethod, body(text), headers...)
			r.wantRefused(t, http.StatusUnauthorized, "unauthenticated", server.ReasonUnauthenticated)
			if r.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %v", name, r.header)
			}
		}
	}
	h.post(t, h.operator, decideMethod, body(`{}`)).wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonMethodDenied)
	if n := len(d.questions()); n != 0 {
		t.Errorf("%d strangers were asked about", n)
	}
	if log := h.log.String(); strings.Contains(log, h.host) || strings.Contains(log, h.operator) || strings.Contains(log, "AAAAAAAA") {
		t.Errorf("the log holds a secret: %s", log)
	}
	h.aliveJSON(t)
}

// Each method refuses by HTTP whom it refuses by gRPC, for the same reason.
func TestHTTPRightsAreTheSame(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Reflection = true })
	secrets := []string{h.host, h.operator, "", "invented"}
	offered := 0
	for service, info := range h.Services() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			if m.IsClientStream || m.IsServerStream {
				h.post(t, h.host, method, body(`{}`)).wantRefused(t, http.StatusNotFound, "unimplemented", server.ReasonMethodUnknown)
				continue
			}
			for _, secret := range secrets {
				overGRPC := status.Convert(h.send(as(t, secret), method, nil))
				r := h.post(t, secret, method, body(`{}`))
				switch overGRPC.Code() {
				case codes.Unauthenticated:
					r.wantRefused(t, http.StatusUnauthorized, "unauthenticated", server.ReasonUnauthenticated)
				case codes.PermissionDenied:
					r.wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonMethodDenied)
				default:
					if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusNotFound {
						t.Errorf("%s: %v over gRPC, %d %s over HTTP", method, overGRPC, r.status, r.body)
					}
					offered++
				}
			}
		}
	}
	if offered < 2 {
		t.Errorf("only %d calls were let in", offered)
	}
}

func TestHTTPRequestsThatAreNone(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	const good = `{"proposal":{"requestId":"r"}}`
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     string
		reason                   server.Reason
	}{
		{"unknown path", "POST", "/nope", good, nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"root", "GET", "/", "", nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"no metrics yet", "GET", "/metrics", "", nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"unknown method", "POST", "/writ.v1.DecisionService/Mint", good, nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"another case", "POST", "/writ.v1.DecisionService/decide", good, nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"a slash more", "POST", decideMethod + "/", good, nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"two slashes", "POST", "/" + decideMethod, good, nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"dots", "POST", "/x/.." + decideMethod, good, nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"escaped", "POST", "/writ.v1.DecisionService/%44ecide", good, nil, 404, "unimplemented", server.ReasonMethodUnknown},
		{"escaped slash", "POST", "/writ.v1.DecisionService%2FDecide", good, nil, 404, "unimplemented", server.ReasonMethodUnknown},

		{"GET", "GET", decideMethod, "", nil, 405, "unimplemented", server.ReasonMethodUnknown},
		{"GET as Connect has it", "GET", decideMethod + "?connect=v1&encoding=json&message=%7B%7D", "", nil, 405, "unimplemented", server.ReasonMethodUnknown},
		{"PUT", "PUT", decideMethod, good, nil, 405, "unimplemented", server.ReasonMethodUnknown},
		{"OPTIONS", "OPTIONS", decideMethod, "", nil, 405, "unimplemented", server.ReasonMethodUnknown},
		{"invented", "FROB", decideMethod, "", nil, 405, "unimplemented", server.ReasonMethodUnknown},
		{"POST to health", "POST", "/healthz", "", nil, 405, "unimplemented", server.ReasonMethodUnknown},

		{"no type", "POST", decideMethod, good, []string{"Content-Type", ""}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"text", "POST", decideMethod, good, []string{"Content-Type", "text/plain"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"a form", "POST", decideMethod, good, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"Protobuf", "POST", decideMethod, "", []string{"Content-Type", "application/proto"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"gRPC", "POST", decideMethod, "", []string{"Content-Type", "application/grpc"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"gRPC-Web", "POST", decideMethod, "", []string{"Content-Type", "application/grpc-web+json"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"Connect stream", "POST", decideMethod, "", []string{"Content-Type", "application/connect+json"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"JSON of another kind", "POST", decideMethod, good, []string{"Content-Type", "application/json-patch+json"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"Latin-1", "POST", decideMethod, good, []string{"Content-Type", "application/json; charset=iso-8859-1"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"another parameter", "POST", decideMethod, good, []string{"Content-Type", "application/json; profile=x"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"UTF-8", "POST", decideMethod, good, []string{"Content-Type", "Application/JSON; Charset=UTF-8"}, 200, "", ""},
		{"two types", "POST", decideMethod, good, []string{"Content-Type", "application/json", "Content-Type", "text/plain"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"compressed", "POST", decideMethod, good, []string{"Content-Encoding", "gzip"}, 415, "invalid_argument", server.ReasonMalformedRequest},
		{"a query", "POST", decideMethod + "?proposal.tool=x", good, nil, 400, "invalid_argument", server.ReasonMalformedRequest},
		{"an empty query", "POST", decideMethod + "?", good, nil, 400, "invalid_argument", server.ReasonMalformedRequest},
		{"another Connect", "POST", decideMethod, good, []string{"Connect-Protocol-Version", "2"}, 400, "invalid_argument", server.ReasonMalformedRequest},
		{"timeout in words", "POST", decideMethod, good, []string{"Connect-Timeout-Ms", "soon"}, 400, "invalid_argument", server.ReasonMalformedRequest},
		{"timeout below 0", "POST", decideMethod, good, []string{"Connect-Timeout-Ms", "-1"}, 400, "invalid_argument", server.ReasonMalformedRequest},
		{"timeout of 11 digits", "POST", decideMethod, good, []string{"Connect-Timeout-Ms", "10000000000"}, 400, "invalid_argument", server.ReasonMalformedRequest},
		{"two timeouts", "POST", decideMethod, good, []string{"Connect-Timeout-Ms", "1", "Connect-Timeout-Ms", "1"}, 400, "invalid_argument", server.ReasonMalformedRequest},
		{"what gRPC would read", "POST", decideMethod, good, []string{"Grpc-Timeout", "0n", "Grpc-Encoding", "gzip", "X-Bin", "!"}, 200, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+h.web+c.path, body(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+h.host)
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(c.headers); i += 2 {
				if c.headers[i] == "Content-Type" && i == 0 {
					delete(req.Header, "Content-Type")
				}
				if c.headers[i+1] != "" {
					req.Header.Add(c.headers[i], c.headers[i+1])
				}
			}
			before := len(d.questions())
			r, err := do(&http.Client{Transport: h.transport}, req)
			if err != nil {
				t.Fatal(err)
			}
			if c.status == 200 {
				if r.status != 200 {
					t.Errorf("got %d %s", r.status, r.body)
				}
				return
			}
			r.wantRefused(t, c.status, c.code, c.reason)
			if c.status == 405 && r.header.Get("Allow") == "" {
				t.Error("the answer does not say what is allowed")
			}
			if n := len(d.questions()); n != before {
				t.Error("it was decided")
			}
		})
	}
	h.aliveJSON(t)
}

// One caller has one quota, whichever door it takes.
func TestHTTPQuotasAreShared(t *testing.T) {
	t.Run("rate", func(t *testing.T) {
		d := &decider{}
		h := open(t, d, func(c *server.Config) { c.Limits.Burst, c.Limits.Rate = 2, 1 })
		if _, err := h.decide(t, nil); err != nil {
			t.Fatal(err)
		}
		if _, r := h.decideJSON(t, nil); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		// Before anything of the message is read: this is no JSON.
		h.post(t, h.host, decideMethod, body(`{`)).wantRefused(t, http.StatusTooManyRequests, "resource_exhausted", server.ReasonRateLimited)
		_, err := h.decide(t, nil)
		wantRefusal(t, err, codes.ResourceExhausted, server.ReasonRateLimited)
		if r := h.post(t, "", "/grpc.health.v1.Health/Check", body(`{}`)); r.status != http.StatusOK {
			t.Errorf("the host's rate is health's too: %s", r.body)
		}
	})
	t.Run("in flight", func(t *testing.T) {
		release := make(chan struct{})
		d := &decider{do: func(context.Context) (pdp.Answer, error) { <-release; return pdp.Answer{}, nil }}
		h := open(t, d, func(c *server.Config) { c.Limits.InFlight = 2 })
		var flying sync.WaitGroup
		flying.Go(func() {
			if _, err := h.decide(t, nil); err != nil {
				t.Error(err)
			}
		})
		flying.Go(func() {
			if r, err := h.tryPost(t.Context(), h.host, decideMethod, body(`{}`)); err != nil || r.status != http.StatusOK {
				t.Errorf("%v %d %s", err, r.status, r.body)
			}
		})
		for len(d.questions()) < 2 {
			time.Sleep(time.Millisecond)
		}
		h.post(t, h.host, decideMethod, body(`{`)).wantRefused(t, http.StatusTooManyRequests, "resource_exhausted", server.ReasonTooManyInFlight)
		wantRefusal(t, h.send(as(t, h.host), decideMethod, nil), codes.ResourceExhausted, server.ReasonTooManyInFlight)
		close(release)
		flying.Wait()
		h.aliveJSON(t)
	})
}

func TestHTTPPanicsAndErrorsTellNothing(t *testing.T) {
	for name, fail := range map[string]func() (pdp.Answer, error){
		"panic":     func() (pdp.Answer, error) { panic("secret argument value") },
		"error":     func() (pdp.Answer, error) { return pdp.Answer{}, errSecret },
		"abort":     func() (pdp.Answer, error) { panic(http.ErrAbortHandler) },
		"a status":  func() (pdp.Answer, error) { return pdp.Answer{}, status.Error(codes.DataLoss, errSecret.Error()) },
		"nil panic": func() (pdp.Answer, error) { panic(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var calm atomic.Bool
			d := &decider{do: func(context.Context) (pdp.Answer, error) {
				if calm.Load() {
					return pdp.Answer{}, nil
				}
				return fail()
			}}
			h := open(t, d, func(c *server.Config) { c.Limits.InFlight = 1 })
			r := h.post(t, h.host, decideMethod, body(`{}`))
			info := r.wantRefused(t, http.StatusInternalServerError, "internal", server.ReasonInternal)
			if !strings.Contains(h.log.String(), info.GetMetadata()["incident"]) {
				t.Errorf("incident %v is not in the log: %s", info, h.log)
			}
			if all := string(r.body) + fmt.Sprint(r.header); strings.Contains(all, "secret argument") || strings.Contains(all, "hunter2") || strings.Contains(all, ".go") {
				t.Errorf("it leaks: %s", all)
			}
			if strings.Contains(h.log.String(), "secret argument") {
				t.Errorf("the log leaks: %s", h.log)
			}
			calm.Store(true)
			h.aliveJSON(t)
		})
	}
}

// Vanguard with a codec of its own dies of this within seconds: its reader
// answers bad JSON while the gate answers the stranger.
func TestHTTPStrangersWithBadJSONAtOnce(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Log = nil })
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				secret, want := "invented", http.StatusUnauthorized
				if (i+j)%2 == 0 {
					secret, want = h.host, http.StatusBadRequest
				}
				r, err := h.tryPost(t.Context(), secret, decideMethod, body(`{"nope":1}`))
				if err != nil || r.status != want && r.status != http.StatusTooManyRequests {
					t.Errorf("%v %d %s", err, r.status, r.body)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestHTTPWithoutABundle(t *testing.T) {
	var current atomic.Pointer[writ.Caller]
	h := open(t, &decider{}, func(c *server.Config) { c.LocalHost = current.Load })
	h.SetServing(false)
	h.post(t, h.host, decideMethod, body(`{}`)).wantRefused(t, http.StatusServiceUnavailable, "unavailable", server.ReasonNotReady)
	h.SetServing(true)
	h.post(t, h.host, decideMethod, body(`{}`)).wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonCallerUnknown)
}

func TestHTTPHealth(t *testing.T) {
	h := open(t, &decider{}, nil)
	get := func(method, path string) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+h.web+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := do(&http.Client{Transport: h.transport}, req)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, ready := range []bool{true, false, true} {
		h.SetServing(ready)
		if r := get("GET", "/healthz"); r.status != http.StatusOK || string(r.body) != `{"status":"ok"}` {
			t.Errorf("healthz: %d %s", r.status, r.body)
		}
		r := get("GET", "/readyz")
		head := get("HEAD", "/readyz")
		if len(head.body) != 0 || head.status != r.status || head.header.Get("Content-Length") != fmt.Sprint(len(r.body)) {
			t.Errorf("HEAD: %d %v %q", head.status, head.header, head.body)
		}
		if !ready {
			r.wantRefused(t, http.StatusServiceUnavailable, "unavailable", server.ReasonNotReady)
			continue
		}
		r.wantHeader(t)
		if r.status != http.StatusOK || string(r.body) != `{"status":"ready"}` {
			t.Errorf("readyz: %d %s", r.status, r.body)
		}
	}
	if r := h.post(t, "", "/grpc.health.v1.Health/Check", body(`{"service":"nobody"}`)); r.status != http.StatusNotFound {
		t.Errorf("an unknown service: %d %s", r.status, r.body)
	}
	check, err := healthv1.NewHealthClient(h.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || check.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("gRPC says %v, %v", check, err)
	}
}

// BenchmarkDecideJSON is BenchmarkDecide over HTTP.
func BenchmarkDecideJSON(b *testing.B) {
	loaded, _, cfg := world(b, "../examples/hello")
	h := openTCP(b, nil, func(c *server.Config) {
		c.Decider, c.LocalHost, c.LocalOperator = cfg.Decider, cfg.LocalHost, cfg.LocalOperator
		c.Limits.Rate, c.Limits.Burst = 1<<20, 1<<20
		c.Log = nil
	})
	h.transport.MaxIdleConnsPerHost = 1024
	s := loaded.Scenarios[0].At(time.Now())
	p, err := server.ProposalToProto(&s.Proposal)
	if err != nil {
		b.Fatal(err)
	}
	req, err := protojson.Marshal(&writv1.DecideRequest{Proposal: p})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, err := h.tryPost(b.Context(), h.host, decideMethod, bytes.NewReader(req))
			if err != nil || !strings.Contains(string(r.body), `"code":"`+string(s.Expect.Code)+`"`) {
				b.Errorf("got %v, %d %s", err, r.status, r.body)
				return
			}
		}
	})
}
