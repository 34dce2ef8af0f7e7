package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// told is an error of a call as it is printed: the reason that the
// documentation knows it by, and the server's words. It still is the status.
type told struct {
	addr   string
	status *status.Status
}

func (t told) GRPCStatus() *status.Status { return t.status }

func (t told) Error() string {
	for _, detail := range t.status.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() != "" {
			return info.GetReason() + ": " + visible(t.status.Message())
		}
	}
	// Whatever a server of Writ refuses has a reason: this is the connection.
	if t.status.Code() == codes.Unavailable {
		return fmt.Sprintf("%s: is a server running there, and does it have TLS just as the --tls flags say? %s", t.addr, visible(t.status.Message()))
	}
	return t.status.Code().String() + ": " + visible(t.status.Message())
}

// tell has the errors of calls printed so.
func tell(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return toldOf(conn, invoke(ctx, method, request, response, conn, options...))
}

// tellStream does the same for streams.
func tellStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, toldOf(conn, err)
	}
	return toldStream{s, conn}, nil
}

type toldStream struct {
	grpc.ClientStream
	conn *grpc.ClientConn
}

func (s toldStream) RecvMsg(m any) error { return toldOf(s.conn, s.ClientStream.RecvMsg(m)) }

func toldOf(conn *grpc.ClientConn, err error) error {
	s, ok := status.FromError(err)
	if err == nil || errors.Is(err, io.EOF) || !ok {
		return err
	}
	return told{conn.Target(), s}
}
