package story

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// Config says how a payment server is made. All is required but Fault.
type Config struct {
	Endpoint string // its own: the audience of access tokens
	Issuer   string // of access tokens
	Keys     jose.JSONWebKeySet
	Tools    []*mcp.Tool // the definitions of create_payment and get_payment
	Ledger   *Ledger
	Enforcer Enforcer
	Fault    Fault
}

// Fault is what goes wrong in a payment server, for tests.
type Fault string

// The faults.
const (
	NoFault            Fault = ""
	DieBeforeWriting   Fault = "die before writing"   // the process ends between redeem and write
	DieBeforeAnswering Fault = "die before answering" // the process ends between write and answer
	TenTimes           Fault = "ten times"            // ten times the amount is paid
)

// died is the exit code of a server that dies of a fault.
const died = 3

// payments is the payment server.
type payments struct{ Config }

// NewPayments returns the payment server's HTTP handler: MCP over streamable
// HTTP, for whoever has an access token for it.
func NewPayments(cfg Config) (http.Handler, error) {
	s := &payments{cfg}
	handlers := map[string]mcp.ToolHandler{"create_payment": s.create, "get_payment": s.get}
	server := mcp.NewServer(&mcp.Implementation{Name: "payments", Version: "1"}, nil)
	for _, tool := range cfg.Tools {
		if h := handlers[tool.Name]; h != nil {
			server.AddTool(tool, h)
			delete(handlers, tool.Name)
		}
	}
	if len(handlers) > 0 {
		return nil, fmt.Errorf("the definitions lack %d of the tools create_payment and get_payment", len(handlers))
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
		// It answers to its public name, on loopback in tests.
		DisableLocalhostProtection: true,
	})
	return auth.RequireBearerToken(s.verify, nil)(handler), nil
}

// caller is for whom a call is: what the token says, and no argument.
func (s *payments) caller(req *mcp.CallToolRequest, scope string) (*writv1.Principal, error) {
	if req.Extra == nil || req.Extra.TokenInfo == nil {
		return nil, &Refused{"TOKEN_INVALID", "There is no access token."}
	}
	for _, have := range req.Extra.TokenInfo.Scopes {
		if have == scope {
			return &writv1.Principal{Issuer: s.Issuer, Subject: req.Extra.TokenInfo.UserID}, nil
		}
	}
	return nil, &Refused{"SCOPE_MISSING", "The access token lacks " + scope + "."}
}

// create is the tool create_payment: redeem, write, read back.
func (s *payments) create(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	principal, err := s.caller(req, "payments:create")
	if err != nil {
		return refused(err)
	}
	p, err := parsePayment(req.Params.Arguments)
	if err != nil {
		return refused(err)
	}
	grant, _ := req.Params.Meta[GrantMeta].(string)
	redeemed, err := s.Enforcer.Redeem(ctx, req.Params.Name, req.Params.Arguments, principal, grant)
	if err != nil {
		return refused(err)
	}
	r := Redemption{ID: redeemed.GetDecisionId(), ProposalDigest: redeemed.GetDecision().GetProposalDigest(), Key: redeemed.GetIdempotencyKey()}
	if err := s.Ledger.Note(ctx, r); err != nil {
		return nil, err
	}
	p.ID, p.Key = "pay-"+rand.Text(), r.Key
	s.fail(DieBeforeWriting)
	if s.Fault == TenTimes {
		p.Pence *= 10
	}
	p, err = s.Ledger.Pay(ctx, p)
	if err != nil {
		return nil, err
	}
	s.fail(DieBeforeAnswering)
	effect, err := s.observe(ctx, r)
	if err != nil {
		// The payment is made. What came of it can be told later: see Recover.
		log.Printf("telling of %s: %v", p.ID, err)
	}
	return answer(map[string]any{"payment_id": p.ID, "effect": effect})
}

// fail ends the process at once if this is its fault.
func (s *payments) fail(f Fault) {
	if s.Fault == f {
		os.Exit(died)
	}
}

// observe reads back what came of a redemption, and tells it.
func (s *payments) observe(ctx context.Context, r Redemption) (code string, err error) {
	status := writv1.EffectStatus_EFFECT_STATUS_UNKNOWN
	seen, err := s.Ledger.ByKey(ctx, r.Key)
	switch {
	case err == nil:
		status = writv1.EffectStatus_EFFECT_STATUS_OBSERVED
	case errors.Is(err, ErrNotFound):
		status = writv1.EffectStatus_EFFECT_STATUS_ABSENT
	}
	told, err := s.Enforcer.Tell(ctx, r, status, &seen)
	if err != nil {
		return "", err
	}
	r.Outcome = told.GetDecision().GetCode()
	return r.Outcome, s.Ledger.Note(ctx, r)
}

// Recover tells what came of each redemption that a server, which has ended
// since, has told nothing about.
func Recover(ctx context.Context, cfg Config) error {
	open, err := cfg.Ledger.Open(ctx)
	if err != nil {
		return err
	}
	s := &payments{cfg}
	for _, r := range open {
		if _, err := s.observe(ctx, r); err != nil {
			return fmt.Errorf("telling of redemption %s: %w", r.ID, err)
		}
	}
	return nil
}

// get is the tool get_payment. A read needs no grant.
func (s *payments) get(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if _, err := s.caller(req, "payments:read"); err != nil {
		return refused(err)
	}
	var arguments struct {
		ID string `json:"payment_id"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &arguments); err != nil {
		return refused(&Refused{"INVALID_ARGUMENTS", "The arguments cannot be read."})
	}
	p, err := s.Ledger.ByID(ctx, arguments.ID)
	if errors.Is(err, ErrNotFound) {
		return refused(&Refused{"TARGET_UNKNOWN", "There is no such payment."})
	}
	if err != nil {
		return nil, err
	}
	return answer(p.View())
}

// View is a payment as get_payment returns it, and as a receipt has it.
func (p Payment) View() map[string]any {
	return map[string]any{
		"payment_id": p.ID, "invoice": p.Invoice, "supplier": p.Supplier, "account": p.Account, "currency": p.Currency, "reason": p.Reason,
		"amount_gbp": json.Number(fmt.Sprintf("%d.%02d", p.Pence/100, p.Pence%100)), "state": p.State,
	}
}

// parsePayment reads the arguments of create_payment. The decision point, when
// the grant is redeemed, compares the text that is read here with what it
// decided, which fits the tool's schema.
func parsePayment(arguments json.RawMessage) (Payment, error) {
	var a struct {
		Invoice  string      `json:"invoice"`
		Supplier string      `json:"supplier"`
		Account  string      `json:"account"`
		Amount   json.Number `json:"amount_gbp"`
		Currency string      `json:"currency"`
		Reason   string      `json:"reason"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return Payment{}, &Refused{"INVALID_ARGUMENTS", "The arguments cannot be read."}
	}
	amount, ok := new(big.Rat).SetString(a.Amount.String())
	if !ok {
		return Payment{}, &Refused{"INVALID_ARGUMENTS", "The amount is no number."}
	}
	pence := amount.Mul(amount, big.NewRat(100, 1))
	if !pence.IsInt() || !pence.Num().IsInt64() {
		return Payment{}, &Refused{"INVALID_ARGUMENTS", "The amount is not in whole pence."}
	}
	return Payment{Invoice: a.Invoice, Supplier: a.Supplier, Account: a.Account, Pence: pence.Num().Int64(), Currency: a.Currency, Reason: a.Reason}, nil
}

func answer(v map[string]any) (*mcp.CallToolResult, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{StructuredContent: json.RawMessage(text), Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil
}

// refused tells the model why nothing was done.
func refused(err error) (*mcp.CallToolResult, error) {
	code := "UNDECIDED"
	if r, ok := errors.AsType[*Refused](err); ok {
		code = r.Code
	}
	out, failed := answer(map[string]any{"code": code, "explanation": err.Error()})
	if failed == nil {
		out.IsError = true
	}
	return out, failed
}

// verify checks an access token (RFC 9068).
func (s *payments) verify(_ context.Context, text string, _ *http.Request) (*auth.TokenInfo, error) {
	claims, err := verifyToken(text, s.Keys, s.Issuer, s.Endpoint, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
	}
	return claims, nil
}
