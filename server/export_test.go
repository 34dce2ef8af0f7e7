package server

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// Unmarshal is the strict reader.
func Unmarshal(data []byte, m proto.Message) error { return unmarshal(data, m) }

// ReasonOf returns the reason of a refusal, or "".
func ReasonOf(err error) Reason {
	if r, ok := err.(*refusal); ok {
		return r.reason
	}
	return ""
}

// Decide calls the method itself, without the gate.
func Decide(ctx context.Context, d Decider, req *writv1.DecideRequest) (*writv1.DecideResponse, error) {
	return (&decisions{decider: d}).Decide(ctx, req)
}

// Services returns what is registered.
func (s *Server) Services() map[string]grpc.ServiceInfo { return s.grpc.GetServiceInfo() }

// CheckRights is what New asks of the registered services.
func CheckRights(services map[string]grpc.ServiceInfo) error { return checkRights(services) }

// Waits returns how long calls of one caller, who is not alone, wait for their
// start, which is apart from the next: each comes at an instant after the first,
// and costs as many as it says. Less than 0: it is refused.
func Waits(apart time.Duration, calls []struct {
	At   time.Duration
	Cost int
}) (waits []time.Duration) {
	q, first := &quota{limits: &Limits{Apart: apart}}, time.Now()
	q.shared.Store(math.MaxInt64)
	for _, c := range calls {
		wait, err := q.begin(c.Cost, first.Add(c.At))
		if wait = max(wait, 0); err != nil {
			wait = -1
		}
		waits = append(waits, wait)
	}
	return waits
}

// Waived has n calls of a caller end before their start, and returns how long
// the next one waits.
func Waived(apart time.Duration, n int) time.Duration {
	q, now := &quota{limits: &Limits{Apart: apart}}, time.Now()
	q.shared.Store(math.MaxInt64)
	for range n {
		_, _ = q.begin(1, now)
		q.waive(1)
	}
	wait, _ := q.begin(1, now)
	return max(wait, 0)
}

// Rights returns the methods in the table of rights.
func Rights() []string {
	var out []string
	for method := range rights {
		out = append(out, method)
	}
	return out
}

// EveryReason returns the reasons that have a status code.
func EveryReason() []Reason {
	var out []Reason
	for r := range statusCodes {
		out = append(out, r)
	}
	return out
}

// StatusOf returns what travels for a reason.
func StatusOf(r Reason) error { return refuse(r, "why").GRPCStatus().Err() }

// UnmarshalJSON is the strict reader of JSON.
func UnmarshalJSON(data []byte, m proto.Message) error { return unmarshalJSON(data, m) }

// CalledBy is the context of a call that the gate has let in.
func CalledBy(ctx context.Context, caller *writ.Caller) context.Context {
	return context.WithValue(ctx, admittedKey{}, &admitted{caller: caller, quota: newQuotas(Limits{}).of("", time.Now())})
}

// Redeem answers a request as the service does.
func Redeem(ctx context.Context, e Enforcer, req *writv1.RedeemRequest) (*writv1.RedeemResponse, error) {
	return (&enforcement{enforcer: e}).Redeem(ctx, req)
}

// ReviewToProto writes a review for the wire.
func ReviewToProto(r *approval.Review, now time.Time) *writv1.Review { return reviewToProto(r, now) }
