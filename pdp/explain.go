package pdp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/decide"
)

// Explain decides a proposal like Decide and says why, part by part. What it
// returns is no authority to act: it is not an Answer. It is recorded, and
// what can't be recorded is not explained.
//
// as names the caller in whose place the question is asked, because evidence
// counts as that caller may vouch; empty: the bundle's host on this machine. A
// name that the bundle doesn't have is denied as nobody's proposal. demand is
// that of Decide.
func (p *PDP) Explain(ctx context.Context, caller *writ.Caller, as string, proposal *writ.Proposal, demand string) (writ.Explanation, error) {
	if err := ctx.Err(); err != nil {
		return writ.Explanation{}, fmt.Errorf("pdp: nothing was explained: %w", err)
	}
	if caller == nil || proposal == nil {
		return writ.Explanation{}, errors.New("pdp: nothing was explained: there is no caller or no proposal")
	}
	s, err := p.setting(ctx, demand)
	if err != nil {
		return writ.Explanation{}, err
	}
	asked := s.asked(as)
	if asked != nil {
		proposal = p.judge(ctx, &s, asked, proposal)
	}
	e := s.explain(asked, proposal)
	if e.Decision.Outcome == writ.ReviewRequired {
		if with := p.agreed(ctx, &s, proposal, &e.Decision); with != nil {
			e = s.explain(asked, with)
		}
	}
	took := time.Since(s.read)
	id := rand.Text()
	r := record(ctx, id, &s, caller, proposal, &e.Decision, took)
	r.Kind = audit.KindExplanation
	if err := p.log.Append(ctx, r, false); err != nil {
		e = writ.Explanation{Decision: unrecorded(&e.Decision)}
	}
	describe(ctx, id, &e.Decision)
	return e, nil
}

// asked is the caller in whose place the question is asked; nil: nobody.
func (s *setting) asked(as string) *writ.Caller {
	if s.world == nil {
		return nil
	}
	asked := s.world.LocalHost
	if as != "" {
		asked = s.world.Callers[as]
	}
	if !s.world.May(asked, "Decide") {
		return nil // nobody else may propose
	}
	return asked
}

// explain applies FRESHNESS, then explains the rest.
func (s *setting) explain(asked *writ.Caller, proposal *writ.Proposal) writ.Explanation {
	if failed, passed := s.check(asked, proposal, nil); !passed {
		e := writ.Explanation{Decision: failed}
		if failed.Control == writ.ControlFreshness {
			e.Controls = []writ.ControlExplained{{Control: failed.Control, Code: failed.Code, Saw: s.saw()}}
			e.ToAllow = []string{failed.Explanation}
		}
		return e
	}
	e := decide.Explain(s.world, asked, proposal, s.now)
	e.Decision = s.mark(e.Decision)
	return e
}

// saw lists the facts that FRESHNESS rests on.
func (s *setting) saw() []string {
	if s.world == nil {
		return []string{"no bundle is loaded"}
	}
	saw := []string{"the world is " + s.world.Revision}
	if s.stale {
		saw = append(saw, "its source was last heard of at "+s.heardAt.UTC().Format(time.RFC3339))
	}
	return saw
}
