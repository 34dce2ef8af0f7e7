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
func (p *PDP) Explain(ctx context.Context, caller *writ.Caller, proposal *writ.Proposal) (writ.Explanation, error) {
	if err := ctx.Err(); err != nil {
		return writ.Explanation{}, fmt.Errorf("pdp: nothing was explained: %w", err)
	}
	if caller == nil || proposal == nil {
		return writ.Explanation{}, errors.New("pdp: nothing was explained: there is no caller or no proposal")
	}
	now, world := p.now(), p.snapshots.Load()
	var e writ.Explanation
	if world == nil {
		e.Decision = decideIn(nil, caller, proposal, now)
	} else {
		e = decide.Explain(world, caller, proposal, now)
	}
	r := record(rand.Text(), now, caller, proposal, &e.Decision)
	r.Kind = audit.KindExplanation
	if err := p.log.Append(ctx, r, false); err != nil {
		return writ.Explanation{Decision: unrecorded(&e.Decision)}, nil
	}
	return e, nil
}
