package pdp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

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
// name that the bundle doesn't have is denied as nobody's proposal.
func (p *PDP) Explain(ctx context.Context, caller *writ.Caller, as string, proposal *writ.Proposal) (writ.Explanation, error) {
	if err := ctx.Err(); err != nil {
		return writ.Explanation{}, fmt.Errorf("pdp: nothing was explained: %w", err)
	}
	if caller == nil || proposal == nil {
		return writ.Explanation{}, errors.New("pdp: nothing was explained: there is no caller or no proposal")
	}
	now, world := p.now(), p.snapshots.Load()
	var e writ.Explanation
	if world == nil {
		e.Decision = decideIn(nil, caller, proposal, now, nil)
	} else {
		asked := world.LocalHost
		if as != "" {
			asked = world.Callers[as]
		}
		if asked != nil && !asked.Has(writ.RoleHost) {
			asked = nil // nobody else may propose
		}
		e = decide.Explain(world, asked, proposal, now)
	}
	id := rand.Text()
	r := record(ctx, id, now, caller, proposal, &e.Decision)
	r.Kind = audit.KindExplanation
	if err := p.log.Append(ctx, r, false); err != nil {
		e = writ.Explanation{Decision: unrecorded(&e.Decision)}
	}
	describe(ctx, id, &e.Decision)
	return e, nil
}
