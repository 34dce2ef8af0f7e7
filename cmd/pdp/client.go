package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// client asks a server on this machine.
type client struct {
	conn   *grpc.ClientConn
	secret string
}

// dial connects to a server on this machine with one secret of the credentials
// directory: server.HostFile or server.OperatorFile. A secret is never sent in the clear to another
// machine.
func dial(addr, credentials, name string) (*client, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the server's address %q is not HOST:PORT: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s is not on this machine: the local secret is only sent over loopback", addr)
	}
	secret, err := server.ReadSecret(credentials, name)
	if err != nil {
		return nil, fmt.Errorf("the server's credentials (name its data directory with --data): %w", err)
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &client{conn, secret}, nil
}

// explain asks why a proposal is answered as it is, in the place of the caller
// named as; empty: the bundle's local host.
func (c *client) explain(ctx context.Context, p *writv1.Proposal, as string) (*writv1.ExplainResponse, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.secret)
	e, err := writv1.NewDecisionServiceClient(c.conn).Explain(ctx, &writv1.ExplainRequest{Proposal: p, Caller: as})
	if err != nil {
		return nil, fmt.Errorf("the server could not explain: %w", err)
	}
	return e, nil
}

func (c *client) close() error { return c.conn.Close() }

// decide sends one proposal.
func (c *client) decide(ctx context.Context, p *writv1.Proposal) (*writv1.DecideResponse, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.secret)
	r, err := writv1.NewDecisionServiceClient(c.conn).Decide(ctx, &writv1.DecideRequest{Proposal: p})
	if err != nil {
		return nil, fmt.Errorf("the server could not decide, which counts as DENY: %w", err)
	}
	if r.GetDecision() == nil {
		return nil, errors.New("the server sent no decision, which counts as DENY")
	}
	return r, nil
}
