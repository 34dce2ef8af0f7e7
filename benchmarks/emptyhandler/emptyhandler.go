// Package emptyhandler is what Writ's cost is compared with: a gRPC server
// with the same messages and the same transport, that gives everyone the same
// answer. It has no gate, no strict reader, no log and no telemetry.
package emptyhandler

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// New returns a server of DecisionService whose Decide answers answer. Its
// options are those of Writ's own server that concern the transport, at their
// defaults.
func New(answer *writv1.DecideResponse) *grpc.Server {
	s := grpc.NewServer(
		grpc.MaxRecvMsgSize(512<<10),
		grpc.MaxHeaderListSize(16<<10),
		grpc.MaxConcurrentStreams(128),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 15 * time.Minute, MaxConnectionAge: 30 * time.Minute, MaxConnectionAgeGrace: 5 * time.Second,
			Time: time.Minute, Timeout: 20 * time.Second,
		}),
	)
	writv1.RegisterDecisionServiceServer(s, &decisions{answer: answer})
	return s
}

type decisions struct {
	writv1.UnimplementedDecisionServiceServer
	answer *writv1.DecideResponse
}

func (d *decisions) Decide(context.Context, *writv1.DecideRequest) (*writv1.DecideResponse, error) {
	return d.answer, nil
}
