package server

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/writ-pdp/writ"
)

// tap gives every call its deadline before any of its message is read, so
// that the reading is bounded too. The client's own deadline counts if it is
// earlier.
//
// Calls are not refused here, although they could be: grpc-go then keeps the
// refused call's context until the deadline that the client chose, and a
// stranger can choose one in years.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx, cancel := s.withDeadline(ctx, info.FullMethodName)
	_ = cancel // the transport ends the parent with the call, after its answer is written
	return ctx, nil
}

// withDeadline gives a call of method the server's deadline.
func (s *Server) withDeadline(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	if rights[method].long {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.limits.Deadline)
}

// admittedKey is the context key of an *admitted.
type admittedKey struct{}

// admitted is what the gate says of a call that it lets in.
type admitted struct {
	caller *writ.Caller
	quota  *quota
}

// callerOf returns who makes the call. Only the gate says so.
func callerOf(ctx context.Context) *writ.Caller {
	if a, ok := ctx.Value(admittedKey{}).(*admitted); ok {
		return a.caller
	}
	return nil
}

// charge takes n more calls from the caller's rate: a batch costs what its
// items would.
func charge(ctx context.Context, n int) {
	if a, ok := ctx.Value(admittedKey{}).(*admitted); ok {
		a.quota.charge(n)
	}
}

// afford is charge, but for a caller with a debt, who is refused: of many
// batches at one instant, each is let in before any has said how large it is.
func afford(ctx context.Context, n int) error {
	if a, ok := ctx.Value(admittedKey{}).(*admitted); ok && !a.quota.afford(n, time.Now()) {
		return errRateLimited
	}
	return nil
}

// begin waits for the start of n of the caller's calls.
func begin(ctx context.Context, n int) error {
	a, ok := ctx.Value(admittedKey{}).(*admitted)
	if !ok {
		return nil
	}
	wait, err := a.quota.begin(n, time.Now())
	if err != nil {
		// It has been received for nothing, all n calls' worth of it.
		connectionOf(ctx).pace.add(-callCredit - refusalCost - n)
		return err
	}
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		a.quota.waive(n)
		return ctx.Err()
	}
}

// gate admits one call of method, runs it, and gives back what it took. It
// runs before any of the call's message is read, and nothing of a call runs
// outside it.
func (s *Server) gate(ctx context.Context, method string, call func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.recovered(ctx, method, p)
		}
	}()
	ctx = inTrace(ctx)
	pace := connectionOf(ctx).pace
	caller, refused := s.admit(ctx, method)
	if refused != nil {
		pace.add(-refusalCost)
		s.refusals.log(ctx, s.log, method, refused.reason)
		return refused
	}
	name, long := "", rights[method].long
	if caller != nil {
		name = caller.Name
	}
	begun := time.Now()
	quota := s.quotas.of(name, begun)
	if refused := quota.enter(begun, rights[method]); refused != nil {
		pace.add(-refusalCost)
		s.refusals.log(ctx, s.log, method, refused.reason)
		return refused
	}
	defer quota.leave(long)
	pace.add(callCredit)
	ctx = context.WithValue(ctx, admittedKey{}, &admitted{caller, quota})
	err = s.run(ctx, long, call)
	if err != nil {
		err = s.asRefusal(ctx, method, err)
	}
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.LogAttrs(ctx, slog.LevelDebug, "call", slog.String("method", method), slog.String("caller", name),
			slog.String("code", status.Code(err).String()), slog.Duration("took", time.Since(begun)))
	}
	return err
}

// run runs one admitted call. A stream that lives on ends with the server.
func (s *Server) run(ctx context.Context, long bool, call func(context.Context) error) error {
	if long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.farewell, cancel)()
	}
	err := call(ctx)
	if err != nil && long && s.farewell.Err() != nil {
		return s.notReady() // not the caller's doing: it may watch another server
	}
	return err
}

// admit says who calls, or why the call is refused. For an open method the
// caller is nil.
func (s *Server) admit(ctx context.Context, method string) (*writ.Caller, *refusal) {
	right, known := rights[method]
	if right.open {
		return nil, nil
	}
	caller, refused := s.authenticate(ctx)
	switch {
	case refused != nil:
		return nil, refused
	case !known:
		return nil, refuse(ReasonMethodUnknown, "there is no such method here")
	case !s.allows(caller, method, right):
		return nil, refuse(ReasonMethodDenied, "the bundle gives this caller no right to the method: use the credential of another caller, or see `pdp check --effective` for who has it")
	case !right.judged && s.revoked != nil && s.revoked(caller):
		return nil, refuse(ReasonCallerRevoked, "this caller is revoked: another operator can lift that, or a line of revocations.yaml")
	}
	return caller, nil
}

// readmit asks again what admit has answered: a call may wait for its message,
// and a stream for news, while the bundle that let it in is replaced.
func (s *Server) readmit(ctx context.Context, method string) *refusal {
	caller, refused := s.admit(ctx, method)
	if refused != nil {
		s.refusals.log(ctx, s.log, method, refused.reason)
		return refused
	}
	if a, ok := ctx.Value(admittedKey{}).(*admitted); ok {
		a.caller = caller
	}
	return nil
}

// notReady says why nothing can be decided.
func (s *Server) notReady() *refusal {
	if s.draining.Load() {
		return refuse(ReasonNotReady, "the server is stopping: try again later, or another one")
	}
	return refuse(ReasonNotReady, "no bundle is loaded yet, or nothing can be recorded: try again later; the server's log says which")
}

// unary puts the gate and the strict reader before a method with one request
// and one answer.
func (s *Server) unary(full string, method grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (answer any, err error) {
		err = s.gate(ctx, full, func(ctx context.Context) (err error) {
			answer, err = method(srv, ctx, func(v any) error {
				if err := receive(decode, v, func(size int) error { return begin(ctx, max(rights[full].cost, 1)+size/callSize) }); err != nil {
					return err
				}
				if refused := s.readmit(ctx, full); refused != nil {
					return refused
				}
				return nil
			}, interceptor)
			return err
		})
		if err != nil {
			return nil, err
		}
		return answer, nil
	}
}

// stream does the same for a method that streams.
func (s *Server) stream(full string, method grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) error {
		return s.gate(stream.Context(), full, func(ctx context.Context) error {
			t := &strictStream{ServerStream: stream, ctx: ctx, readmit: func() *refusal { return s.readmit(ctx, full) }}
			if err := method(srv, t); t.refused == nil {
				return err
			}
			return t.refused
		})
	}
}

// unknown answers calls of methods that nobody registered.
func (s *Server) unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	return s.gate(stream.Context(), method, func(context.Context) error {
		return refuse(ReasonMethodUnknown, "there is no such method here")
	})
}

// strictStream receives its messages strictly, sends them only to who may still
// have them, and its context may end before the transport's does.
type strictStream struct {
	grpc.ServerStream
	ctx     context.Context
	readmit func() *refusal
	refused *refusal // why nothing more may be sent; nil: it may
}

func (t *strictStream) Context() context.Context { return t.ctx }
func (t *strictStream) RecvMsg(m any) error      { return receive(t.ServerStream.RecvMsg, m, nil) }
func (t *strictStream) SendMsg(m any) error {
	if t.refused = t.readmit(); t.refused != nil {
		return t.refused
	}
	return t.ServerStream.SendMsg(m)
}

// registrar registers services with the gate before each of their methods,
// for both doors. It is the only way into the grpc server.
type registrar struct{ server *Server }

func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	gated := *desc
	gated.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		m.Handler = r.server.unary("/"+desc.ServiceName+"/"+m.MethodName, m.Handler)
		gated.Methods[i] = m
	}
	gated.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, m := range desc.Streams {
		m.Handler = r.server.stream("/"+desc.ServiceName+"/"+m.StreamName, m.Handler)
		gated.Streams[i] = m
	}
	r.server.grpc.RegisterService(&gated, impl)
	r.server.http.register(&gated, impl)
}

func (r registrar) GetServiceInfo() map[string]grpc.ServiceInfo {
	return r.server.grpc.GetServiceInfo()
}
