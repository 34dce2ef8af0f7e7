package main

import (
	"context"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/telemetry"
)

// measured is a PDP whose answers are counted and timed.
type measured struct {
	*pdp.PDP
	metrics *telemetry.Metrics
}

// count notes what was answered and how long that took. Where there is no
// answer, that is an error of the call's, which the server's spans have.
func (m measured) count(ctx context.Context, method telemetry.Method, begun time.Time, err error, decisions ...writ.Decision) {
	if err != nil {
		return
	}
	m.metrics.Took(ctx, method, time.Since(begun))
	for i := range decisions {
		m.metrics.Decided(decisions[i].Outcome.String(), string(decisions[i].Code))
	}
}

// Decide is pdp.PDP's.
func (m measured) Decide(ctx context.Context, caller *writ.Caller, p *writ.Proposal, ask pdp.Ask) (pdp.Answer, error) {
	begun := time.Now()
	a, err := m.PDP.Decide(ctx, caller, p, ask)
	m.count(ctx, telemetry.Decide, begun, err, a.Decision())
	return a, err
}

// Refuse is pdp.PDP's.
func (m measured) Refuse(ctx context.Context, caller *writ.Caller, p *writ.Proposal, field, why string) (pdp.Answer, error) {
	begun := time.Now()
	a, err := m.PDP.Refuse(ctx, caller, p, field, why)
	m.count(ctx, telemetry.Decide, begun, err, a.Decision())
	return a, err
}

// DecideBatch is pdp.PDP's.
func (m measured) DecideBatch(ctx context.Context, caller *writ.Caller, items []pdp.Item, ask pdp.Ask) ([]pdp.Answer, error) {
	begun := time.Now()
	answers, err := m.PDP.DecideBatch(ctx, caller, items, ask)
	decisions := make([]writ.Decision, len(answers))
	for i := range answers {
		decisions[i] = answers[i].Decision()
	}
	m.count(ctx, telemetry.Batch, begun, err, decisions...)
	return answers, err
}

// Explain is pdp.PDP's. An explanation is timed, and counted as no decision.
func (m measured) Explain(ctx context.Context, caller *writ.Caller, as string, p *writ.Proposal, demand string) (writ.Explanation, error) {
	begun := time.Now()
	e, err := m.PDP.Explain(ctx, caller, as, p, demand)
	m.count(ctx, telemetry.Explain, begun, err)
	return e, err
}

// Redeem is pdp.PDP's.
func (m measured) Redeem(ctx context.Context, caller *writ.Caller, r *pdp.Redemption) (pdp.Redeemed, error) {
	begun := time.Now()
	a, err := m.PDP.Redeem(ctx, caller, r)
	m.count(ctx, telemetry.Redeem, begun, err, a.Decision())
	return a, err
}

// VerifyEffect is pdp.PDP's.
func (m measured) VerifyEffect(ctx context.Context, caller *writ.Caller, r *pdp.Receipt) (pdp.Verified, error) {
	begun := time.Now()
	a, err := m.PDP.VerifyEffect(ctx, caller, r)
	m.count(ctx, telemetry.VerifyEffect, begun, err, a.Decision())
	return a, err
}

// reading is what the metrics say of the parts of a service.
func (s *service) reading() telemetry.Reading {
	status, state := s.worlds.follower.Status(), s.audit.State()
	r := telemetry.Reading{
		Generation: status.Revision.Generation, LoadedAt: status.LoadedAt, HeardAt: status.HeardAt, Revocations: status.Revision.Sequence,
		Accepted: status.Accepted, Refused: status.Refusals, Failing: status.Fault != nil,
		Condition: string(state.Condition), Recording: state.Condition.Recording(),
		KeysFailing: len(s.tokens.Failures(s.worlds.holder.Load())), TokensChecked: s.tokens.Checked(),
	}
	if r.Generation > 0 {
		r.Revision = status.Revision.String()
	}
	r.RecordsAccepted, r.RecordsSynced = s.audit.Size()
	return r
}
