// Package pdp composes the decision with what surrounds it: the current
// snapshot, the clock and the log. It is the only maker of an [Answer].
//
// Its guarantee is structural. An Answer has no exported fields, its zero
// value denies, and only settle makes one: it records first and releases
// afterwards. A decision that could not be recorded is never given; in its
// place goes AUDIT_UNAVAILABLE, the one answer that may be unrecorded, and it
// always denies.
package pdp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/snapshot"
)

// Log is where every answer is recorded before it is given. With durable set
// Append returns only when the record is on the disk; otherwise when an
// ordered queue has accepted it.
type Log interface {
	Append(ctx context.Context, r audit.Record, durable bool) error
}

// Config says what a PDP is made of. Every field is required.
type Config struct {
	Snapshots *snapshot.Holder // the world; may be empty at first: then everything is denied
	Log       Log
}

// PDP answers proposals. Make one with [New]; it is safe for concurrent use.
type PDP struct {
	snapshots *snapshot.Holder
	log       Log

	last atomic.Int64 // the latest instant given out, in Unix nanoseconds
}

// New returns a PDP. It refuses to be made without a log: nothing may be
// answered that could not be recorded.
func New(cfg Config) (*PDP, error) {
	if cfg.Log == nil {
		return nil, errors.New("pdp: a log is required: what is not recorded is not answered")
	}
	if cfg.Snapshots == nil {
		return nil, errors.New("pdp: a snapshot holder is required")
	}
	return &PDP{snapshots: cfg.Snapshots, log: cfg.Log}, nil
}

// Answer is one recorded decision. Its zero value denies.
type Answer struct {
	id       string
	decision writ.Decision
}

// ID names the decision in the log: 26 random characters (crypto/rand.Text).
func (a Answer) ID() string { return a.id }

// Decision returns what was decided and recorded.
func (a Answer) Decision() writ.Decision { return a.decision }

// Allowed reports whether the call may go ahead.
func (a Answer) Allowed() bool { return a.decision.Outcome == writ.Allow }

// Decide answers one proposal that caller brings. A denial is an answer; an
// error means that nothing could be decided, because ctx ended first, and
// counts as a denial.
func (p *PDP) Decide(ctx context.Context, caller *writ.Caller, proposal *writ.Proposal) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, fmt.Errorf("pdp: nothing was decided: %w", err)
	}
	if caller == nil || proposal == nil {
		return Answer{}, errors.New("pdp: nothing was decided: there is no caller or no proposal")
	}
	now := p.now()
	return p.settle(ctx, now, caller, proposal, decideIn(p.snapshots.Load(), caller, proposal, now, observer(ctx))), nil
}

// decideIn decides in a world, or without one. o may be nil.
func decideIn(world *snapshot.Snapshot, caller *writ.Caller, proposal *writ.Proposal, now time.Time, o decide.Observer) writ.Decision {
	if proposal == nil {
		return malformed(world, nil, "proposal", "There is no proposal.")
	}
	if world == nil {
		return writ.Decision{
			Code: writ.CodeSnapshotStale, Control: writ.ControlFreshness, Explanation: "No bundle is loaded.",
			Server: proposal.Server.ID, Tool: proposal.Tool,
		}
	}
	return decide.Decide(world, caller, proposal, now, o)
}

// Refuse answers MALFORMED_PROPOSAL to a proposal that could not be read off
// the wire: field names the part, why says what is wrong with it in one
// sentence without values, and proposal holds what could be read.
func (p *PDP) Refuse(ctx context.Context, caller *writ.Caller, proposal *writ.Proposal, field, why string) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, fmt.Errorf("pdp: nothing was decided: %w", err)
	}
	if caller == nil || proposal == nil {
		return Answer{}, errors.New("pdp: nothing was decided: there is no caller or no proposal")
	}
	return p.settle(ctx, p.now(), caller, proposal, malformed(p.snapshots.Load(), proposal, field, why)), nil
}

// malformed is the decision on a proposal that could not be read.
func malformed(world *snapshot.Snapshot, proposal *writ.Proposal, field, why string) writ.Decision {
	d := writ.Decision{Code: writ.CodeMalformedProposal, Control: writ.ControlProposal, Explanation: why, Field: field}
	if proposal != nil {
		d.Server, d.Tool = proposal.Server.ID, proposal.Tool
	}
	if world != nil {
		d.Revision = world.Revision
	}
	return d
}

// settle alone makes an Answer: record, then release. An ALLOW of anything
// but a pure or a read is durable before it is given.
func (p *PDP) settle(ctx context.Context, now time.Time, caller *writ.Caller, proposal *writ.Proposal, d writ.Decision) Answer {
	id := rand.Text()
	durable := d.Outcome == writ.Allow && d.Effect != writ.Read && d.Effect != writ.Pure
	if err := p.log.Append(ctx, record(ctx, id, now, caller, proposal, &d), durable); err != nil {
		d = unrecorded(&d)
	}
	describe(ctx, id, &d)
	return Answer{id: id, decision: d}
}

// unrecorded is the decision that goes in the place of d when d could not be
// recorded.
func unrecorded(d *writ.Decision) writ.Decision {
	return writ.Decision{
		Outcome: writ.Deny, Code: writ.CodeAuditUnavailable, Control: writ.ControlAudit,
		Explanation: "The answer could not be recorded, so it is not given.",
		Server:      d.Server, Tool: d.Tool, Revision: d.Revision,
	}
}

// now reads the clock once a call. It never runs backwards within a process,
// whatever is done to the machine's clock.
func (p *PDP) now() time.Time {
	t := time.Now().UnixNano()
	for {
		last := p.last.Load()
		if t <= last {
			return time.Unix(0, last).UTC()
		}
		if p.last.CompareAndSwap(last, t) {
			return time.Unix(0, t).UTC()
		}
	}
}
