package story

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// GrantMeta is where a grant stands in the `_meta` of an MCP request.
const GrantMeta = "dev.writ/grant"

// Enforcer is an MCP server's side of Writ.
type Enforcer struct {
	PDP    writv1.EnforcementServiceClient
	Server string // its id in the bundle
}

// redeemTries is how often one attempt is made whose answer is lost.
const redeemTries = 3

// Refused says that a call may not be made.
type Refused struct{ Code, Explanation string }

func (r *Refused) Error() string { return r.Code + ": " + r.Explanation }

// Redeem spends a grant for the call as it arrived here. The server may act only
// if the error is nil, and before act_before. The error is a *[Refused], or says
// that nothing was decided.
func (e *Enforcer) Redeem(ctx context.Context, tool string, arguments json.RawMessage, principal *writv1.Principal, grant string) (*writv1.RedeemResponse, error) {
	attempt := make([]byte, 16)
	rand.Read(attempt)
	request := &writv1.RedeemRequest{
		Grant: grant, Server: e.Server, Tool: tool, ArgumentsJson: string(arguments), Principal: principal,
		RedemptionId: base64.RawURLEncoding.EncodeToString(attempt), // one attempt, however often it is sent
	}
	for i := 1; ; i++ {
		r, err := e.PDP.Redeem(ctx, request)
		if lost := status.Code(err); (lost == codes.Unavailable || lost == codes.DeadlineExceeded) && i < redeemTries && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the decision point could not be asked, so nothing is done: %w", err)
		}
		d := r.GetDecision()
		if d.GetOutcome() != writv1.Outcome_OUTCOME_ALLOW || d.GetCode() != "REDEEMED" {
			return nil, &Refused{d.GetCode(), d.GetExplanation()}
		}
		if !time.Now().Before(r.GetActBefore().AsTime()) {
			return nil, &Refused{"GRANT_EXPIRED", "The answer came too late to act on."}
		}
		return r, nil
	}
}

// Tell says what was seen of a redemption's effect, and returns what came of
// that. seen is read only with OBSERVED.
func (e *Enforcer) Tell(ctx context.Context, r Redemption, status writv1.EffectStatus, seen *Payment) (*writv1.VerifyEffectResponse, error) {
	request := &writv1.VerifyEffectRequest{
		Redemption: r.ID, ProposalDigest: r.ProposalDigest, Observer: e.Server, Status: status, ObservedAt: timestamppb.Now(),
	}
	if status == writv1.EffectStatus_EFFECT_STATUS_OBSERVED {
		if seen == nil {
			return nil, errors.New("an effect that was observed must be told")
		}
		text, err := json.Marshal(seen.View())
		if err != nil {
			return nil, err
		}
		request.EffectId, request.ObservedJson = seen.ID, string(text)
	}
	return e.PDP.VerifyEffect(ctx, request)
}
