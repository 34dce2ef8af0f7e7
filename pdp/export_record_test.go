package pdp

import (
	"context"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/snapshot"
)

// Record makes the record of a decision.
func Record(ctx context.Context, world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, d *writ.Decision) audit.Record {
	return record(ctx, "id", &setting{world: world, now: time.Unix(1, 0)}, caller, p, d, 0)
}

// Read is a reading of the machine's clock.
func (p *PDP) Read(t time.Time) time.Time { return p.instant(t) }
