package pdp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/writ-pdp/writ"
)

// MaxBatch is how many proposals DecideBatch takes.
const MaxBatch = 256

// DecideBatch answers proposals in their order, all from one snapshot and at
// one instant. A bad one denies itself alone. More than MaxBatch, or none, are
// an error, as is a ctx that ends before everything is decided; an error
// counts as a denial of all.
func (p *PDP) DecideBatch(ctx context.Context, caller *writ.Caller, proposals []*writ.Proposal) ([]Answer, error) {
	if caller == nil {
		return nil, errors.New("pdp: nothing was decided: there is no caller")
	}
	if len(proposals) == 0 || len(proposals) > MaxBatch {
		return nil, fmt.Errorf("pdp: a batch has 1 to %d proposals, not %d", MaxBatch, len(proposals))
	}
	now, world := p.now(), p.snapshots.Load()
	decisions := make([]writ.Decision, len(proposals))
	for i, proposal := range proposals {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("pdp: nothing was decided: %w", err)
		}
		decisions[i] = decideIn(world, caller, proposal, now)
	}
	// Durable records share a group commit only if they wait together.
	answers := make([]Answer, len(proposals))
	var settling sync.WaitGroup
	for i, proposal := range proposals {
		settling.Go(func() { answers[i] = p.settle(ctx, now, caller, proposal, decisions[i]) })
	}
	settling.Wait()
	return answers, nil
}
