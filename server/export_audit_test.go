package server

import (
	"google.golang.org/grpc"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// WatchDecisions calls the method itself, without the gate.
func WatchDecisions(log AuditLog, req *writv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[writv1.WatchDecisionsResponse]) error {
	return (&audits{log: log}).WatchDecisions(req, stream)
}
