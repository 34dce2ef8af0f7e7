package server_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

func TestStrangersAreRefused(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	flipped := []byte(h.host)
	flipped[10] ^= 1
	for _, c := range []struct {
		name    string
		headers []string
	}{
		{"no credential", nil},
		{"empty", []string{""}},
		{"scheme alone", []string{"Bearer"}},
		{"empty token", []string{"Bearer "}},
		{"another scheme", []string{"Basic " + h.host}},
		{"no scheme", []string{h.host}},
		{"invented", []string{"Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}},
		{"a bit off", []string{"Bearer " + string(flipped)}},
		{"prefix", []string{"Bearer " + h.host[:42]}},
		{"more after it", []string{"Bearer " + h.host + "A"}},
		{"two spaces", []string{"Bearer  " + h.host}},
		{"huge", []string{"Bearer " + strings.Repeat("A", 8000)}},
		{"two", []string{"Bearer " + h.host, "Bearer " + h.host}},
		{"both", []string{"Bearer " + h.host, "Bearer " + h.operator}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			for _, value := range c.headers {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
			}
			_, err := writv1.NewDecisionServiceClient(h.conn).Decide(ctx, &writv1.DecideRequest{})
			wantRefusal(t, err, codes.Unauthenticated, server.ReasonUnauthenticated)
		})
	}
	if n := len(d.questions()); n != 0 {
		t.Errorf("%d strangers were asked about", n)
	}
	log := h.log.String()
	for _, secret := range []string{h.host, h.operator, "AAAAAAAA"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds a secret: %s", log)
		}
	}
	h.alive(t)
}

func TestStrangersCannotFillTheLog(t *testing.T) {
	h := open(t, &decider{}, nil)
	for range 300 {
		_ = h.send(t.Context(), "/writ.v1.DecisionService/Whatever-a-stranger-says", nil)
	}
	log := h.log.String()
	// Each reason once a second; the calls take less than ten.
	if n := strings.Count(log, `"UNAUTHENTICATED"`); n < 1 || n > 10 {
		t.Errorf("%d lines for 300 refusals", n)
	}
	if strings.Contains(log, "stranger-says") {
		t.Errorf("a stranger's text is in the log: %s", log)
	}
}

func TestCallersAreWhoTheirSecretSays(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER "} { // RFC 9110, section 11.1
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", scheme+h.host)
		if _, err := writv1.NewDecisionServiceClient(h.conn).Decide(ctx, &writv1.DecideRequest{Proposal: &writv1.Proposal{}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range d.questions() {
		if q.caller != hostCaller {
			t.Errorf("asked as %v", q.caller)
		}
	}
	_, err := writv1.NewDecisionServiceClient(h.conn).Decide(as(t, h.operator), &writv1.DecideRequest{})
	wantRefusal(t, err, codes.PermissionDenied, server.ReasonMethodDenied)
	if n := len(d.questions()); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}

// The secret stands for whoever the bundle in force says, call by call.
func TestCallersFollowTheBundle(t *testing.T) {
	var current atomic.Pointer[writ.Caller]
	d := &decider{}
	h := open(t, d, func(c *server.Config) { c.LocalHost = current.Load })
	h.SetServing(false)
	_, err := h.decide(t, nil)
	wantRefusal(t, err, codes.Unavailable, server.ReasonNotReady)
	h.SetServing(true)
	_, err = h.decide(t, nil)
	wantRefusal(t, err, codes.PermissionDenied, server.ReasonCallerUnknown)
	current.Store(&writ.Caller{Name: "x"}) // without a role
	_, err = h.decide(t, nil)
	wantRefusal(t, err, codes.PermissionDenied, server.ReasonMethodDenied)
	current.Store(&writ.Caller{Name: "y", Roles: []writ.Role{writ.RoleHost}})
	if _, err = h.decide(t, nil); err != nil {
		t.Fatal(err)
	}
	if q := d.questions(); len(q) != 1 || q[0].caller.Name != "y" {
		t.Errorf("asked %v", q)
	}
}

// Who may call what with the two secrets. A method that is registered and not
// listed here, or in callersOf, fails the test, as does one that the table of
// rights forgot.
func TestEveryMethodHasItsCallers(t *testing.T) {
	const anyone, nobody = "anyone", "nobody"
	want := map[string][]string{
		"/grpc.health.v1.Health/Check":                                   {anyone},
		"/grpc.health.v1.Health/List":                                    {anyone},
		"/grpc.health.v1.Health/Watch":                                   {anyone},
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {"host", "operator"},
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {"host", "operator"},
	}
	for method, roles := range callersOf { // the operator of the second secret approves, too
		var by []string
		if slices.Contains(roles, writ.RoleHost) {
			by = append(by, "host")
		}
		if slices.Contains(roles, writ.RoleOperator) || slices.Contains(roles, writ.RoleApprover) {
			by = append(by, "operator")
		}
		want["/writ.v1."+method] = by
	}
	h := open(t, &decider{}, func(c *server.Config) { c.Reflection = true })
	registered := map[string]bool{} // and whether it streams
	for service, info := range h.Services() {
		for _, m := range info.Methods {
			registered["/"+service+"/"+m.Name] = m.IsClientStream || m.IsServerStream
		}
	}
	if got, listed := slices.Sorted(maps.Keys(registered)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, listed) {
		t.Fatalf("registered: %v\nlisted:     %v", got, listed)
	}
	if got, listed := slices.Sorted(slices.Values(server.Rights())), slices.Sorted(maps.Keys(want)); !slices.Equal(got, listed) {
		t.Fatalf("in the table of rights: %v\nlisted: %v", got, listed)
	}
	secrets := map[string]string{anyone: "", "host": h.host, "operator": h.operator, nobody: "invented"}
	for method, allowed := range want {
		for role, secret := range secrets {
			let := slices.Contains(allowed, anyone) || slices.Contains(allowed, role)
			err := knock(as(t, secret), h.conn, method, registered[method])
			code := status.Code(err)
			if refused := code == codes.Unauthenticated || code == codes.PermissionDenied; refused == let {
				t.Errorf("%s as %s: %v, want it let in: %t", method, role, err, let)
			}
		}
	}
}

// knock calls a method with an empty message and takes one answer.
func knock(ctx context.Context, conn *grpc.ClientConn, method string, streams bool) error {
	var in, out []byte
	if !streams {
		return conn.Invoke(ctx, method, &in, &out, grpc.ForceCodecV2(raw{}))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodecV2(raw{}))
	if err != nil {
		return err
	}
	// What goes wrong while sending is what RecvMsg returns.
	if stream.SendMsg(&in) == nil {
		_ = stream.CloseSend()
	}
	return stream.RecvMsg(&out)
}

func TestForgottenMethodKeepsTheServerFromStarting(t *testing.T) {
	for _, c := range []struct {
		name    string
		service grpc.ServiceInfo
		want    string
	}{
		{"writ.v1.DecisionService", grpc.ServiceInfo{Methods: []grpc.MethodInfo{{Name: "Decide"}}}, ""},
		{"writ.v1.DecisionService", grpc.ServiceInfo{Methods: []grpc.MethodInfo{{Name: "Mint"}}}, "no right is declared for method /writ.v1.DecisionService/Mint"},
		{"writ.v1.DecisionService", grpc.ServiceInfo{Methods: []grpc.MethodInfo{{Name: "Decide", IsServerStream: true}}}, "is a stream: true"},
		{"grpc.health.v1.Health", grpc.ServiceInfo{Methods: []grpc.MethodInfo{{Name: "Watch"}}}, "is a stream: false"},
	} {
		err := server.CheckRights(map[string]grpc.ServiceInfo{c.name: c.service})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.service, err, c.want)
		}
	}
}

func TestUnknownMethods(t *testing.T) {
	h := open(t, &decider{}, nil)
	for _, method := range []string{
		"/writ.v1.DecisionService/Mint", "/writ.v1.DecisionService/decide", "/writ.v1.decisionservice/Decide", "/x/y", "//", "/writ.v1.DecisionService/",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", // not asked for
		"/grpc.channelz.v1.Channelz/GetServers",
	} {
		wantRefusal(t, h.send(t.Context(), method, nil), codes.Unauthenticated, server.ReasonUnauthenticated)
		wantRefusal(t, h.send(as(t, h.host), method, nil), codes.Unimplemented, server.ReasonMethodUnknown)
	}
	if err := h.send(as(t, h.host), "/nomethod", nil); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method name that is none: %v", err)
	}
	h.alive(t)
}

func TestReflection(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Reflection = true })
	stream, err := reflectionv1.NewServerReflectionClient(h.conn).ServerReflectionInfo(as(t, h.operator))
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if !slices.Contains(names, "writ.v1.DecisionService") {
		t.Errorf("reflection lists %v", names)
	}
	// A stream's messages are read strictly too, and each of them.
	ask.ProtoReflect().SetUnknown(varint(77, 1))
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantRefusal(t, err, codes.InvalidArgument, server.ReasonUnknownFields)
}

func TestHealthRequestsAreReadStrictly(t *testing.T) {
	h := open(t, &decider{}, nil)
	req := &healthv1.HealthCheckRequest{}
	req.ProtoReflect().SetUnknown(varint(2, 1))
	_, err := healthv1.NewHealthClient(h.conn).Check(t.Context(), req)
	wantRefusal(t, err, codes.InvalidArgument, server.ReasonUnknownFields)
	_, err = healthv1.NewHealthClient(h.conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "nobody"})
	wantRefusal(t, err, codes.NotFound, server.ReasonNotFound)
}

// A revoked operator can do nothing, and what a revoked host proposes is denied
// by the decision, which is recorded.
func TestRevokedCallers(t *testing.T) {
	var revoked atomic.Bool
	d := &decider{}
	h := open(t, d, func(c *server.Config) { c.Revoked = func(*writ.Caller) bool { return revoked.Load() } })
	explain := func() error {
		_, err := writv1.NewDecisionServiceClient(h.conn).Explain(as(t, h.operator), &writv1.ExplainRequest{Proposal: full()})
		return err
	}
	if err := explain(); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	for name, err := range map[string]error{
		"Explain": explain(),
		"Revoke": func() error {
			_, err := writv1.NewRevocationServiceClient(h.conn).Revoke(as(t, h.operator), &writv1.RevokeRequest{})
			return err
		}(),
		"ListRevocations": func() error {
			_, err := writv1.NewRevocationServiceClient(h.conn).ListRevocations(as(t, h.operator), &writv1.ListRevocationsRequest{})
			return err
		}(),
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, err, codes.PermissionDenied, server.ReasonCallerRevoked) })
	}
	if _, err := h.decide(t, full()); err != nil { // the decider denies it
		t.Fatal(err)
	}
}
