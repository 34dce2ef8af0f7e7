package main

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// buyer is a client in both roles: it proposes, and redeems.
type buyer struct {
	k            *killing
	host, server *client
}

func (k *killing) client(line readyLine) *buyer {
	k.t.Helper()
	c := &buyer{k: k}
	for name, to := range map[string]**client{server.HostFile: &c.host, server.ServerFile: &c.server} {
		var err error
		if *to, err = dial(line.GRPC, line.Credentials, name); err != nil {
			k.t.Fatal(err)
		}
	}
	return c
}

func (c *buyer) close() {
	_ = c.host.close()
	_ = c.server.close()
}

// choose returns a payment that was proposed before, in this round or in one
// before it, or a new one.
func (k *killing) choose() *purchase {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.proposals); n > 0 && rand.IntN(2) == 0 {
		recent := min(n, 60) // what was open at the crash is the newest
		return k.proposals[n-1-rand.IntN(recent)]
	}
	s := k.lab.At(time.Now())
	wire, err := server.ProposalToProto(&s.Proposal)
	if err != nil {
		k.t.Error(err)
		return nil
	}
	wire.RequestId = fmt.Sprintf("payment-%d", len(k.proposals))
	if wire.GetIntent() != nil {
		wire.Intent.ExpiresAt = timestamppb.New(time.Now().Add(12 * time.Hour))
	}
	p := &purchase{wire: wire, acted: map[string]string{}}
	k.proposals = append(k.proposals, p)
	return p
}

// pay proposes a payment and redeems its grant, more than once; each call is
// counted. It returns false when the server is no more.
func (c *buyer) pay(ctx context.Context, count func()) bool {
	p := c.k.choose()
	if p == nil {
		return false
	}
	wire := proto.CloneOf(p.wire)
	fresh := c.k.lab.At(time.Now())
	wire.Token.IssuedAt, wire.Token.ExpiresAt = timestamppb.New(fresh.Proposal.Token.IssuedAt), timestamppb.New(fresh.Proposal.Token.ExpiresAt)
	count()
	a, err := c.host.decide(ctx, wire)
	if err != nil {
		return false
	}
	c.k.proposed.Add(1)
	if a.GetDecision().GetCode() != string(writ.CodeAllow) || a.GetGrant().GetToken() == "" {
		c.k.t.Errorf("proposing %s: %s, grant %q: %s", wire.GetRequestId(), a.GetDecision().GetCode(), a.GetGrant().GetId(), a.GetDecision().GetExplanation())
		return false
	}
	r := &writv1.RedeemRequest{
		Grant: a.GetGrant().GetToken(), Server: wire.GetServer().GetId(), Tool: wire.GetTool(), ArgumentsJson: wire.GetArgumentsJson(),
		Principal: wire.GetPrincipal(), RedemptionId: redemptionID(),
	}
	c.k.mu.Lock()
	c.k.granted = append(c.k.granted, r)
	c.k.mu.Unlock()
	other := proto.CloneOf(r)
	other.RedemptionId = redemptionID()
	count()
	var both sync.WaitGroup
	if rand.IntN(3) == 0 { // two attempts at once
		both.Go(func() { c.redeem(ctx, p, other) })
	}
	for range 1 + rand.IntN(3) { // the same attempt, because its answer was lost, or may have been
		c.redeem(ctx, p, r)
	}
	both.Wait()
	if count(); rand.IntN(3) == 0 {
		c.redeem(ctx, p, other)
	}
	return true
}

// redeem makes one call, now and then too impatient to see its answer, and
// keeps what came of it.
func (c *buyer) redeem(ctx context.Context, p *purchase, r *writv1.RedeemRequest) {
	if rand.IntN(4) == 0 {
		hasty, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(5000))*time.Microsecond)
		defer cancel()
		ctx = hasty
	}
	a, err := c.server.attempt(ctx, r)
	if err != nil {
		c.k.lost.Add(1)
		return
	}
	switch code := writ.Code(a.GetDecision().GetCode()); code {
	case writ.CodeRedeemed:
		if a.GetActBefore() == nil || a.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_ALLOW {
			c.k.t.Errorf("redeemed, and may not act: %v", a)
		}
		if a.GetRepeated() {
			c.k.repeated.Add(1)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if before, known := p.acted[r.GetRedemptionId()]; known && before != a.GetDecisionId() {
			c.k.t.Errorf("%s: one attempt is the redemptions %s and %s", p.wire.GetRequestId(), before, a.GetDecisionId())
		}
		if p.acted[r.GetRedemptionId()] = a.GetDecisionId(); len(p.acted) > 1 {
			c.k.t.Errorf("%s was redeemed twice: %v", p.wire.GetRequestId(), p.acted)
		}
	case writ.CodeGrantAlreadyUsed:
		c.k.used.Add(1)
	case writ.CodeAuditUnavailable: // its caller's time was over
	default:
		c.k.t.Errorf("%s: %s: %s", p.wire.GetRequestId(), code, a.GetDecision().GetExplanation())
	}
}

func (c *client) attempt(ctx context.Context, r *writv1.RedeemRequest) (*writv1.RedeemResponse, error) {
	a, err := writv1.NewEnforcementServiceClient(c.conn).Redeem(c.as(ctx), r)
	if err == nil && a.GetDecision() == nil {
		err = errors.New("no decision")
	}
	return a, err
}

func redemptionID() string {
	var id [16]byte
	_, _ = crand.Read(id[:])
	return base64.RawURLEncoding.EncodeToString(id[:])
}
