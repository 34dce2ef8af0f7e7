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
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// Log is where every answer is recorded before it is given. With durable set
// Append returns only when the record is on the disk; otherwise when an
// ordered queue has accepted it.
type Log interface {
	Append(ctx context.Context, r audit.Record, durable bool) error
}

// Config says what a PDP is made of.
type Config struct {
	Snapshots *snapshot.Holder // the world; may be empty at first: then everything is denied. Required
	Log       Log              // required
	// Revocations is the log that Revoke appends to. Nil: this PDP takes no
	// revocations, and those of its bundle are all that there are.
	Revocations RevocationLog
	// MaxStaleness is how long the source of bundles and revocations may be
	// silent until consequential calls are SNAPSHOT_STALE. 0: for ever.
	MaxStaleness time.Duration
	// Tokens verifies access tokens. Nil: one that nobody has verified is
	// invalid.
	Tokens *token.Verifier
}

// PDP answers proposals. Make one with [New]; it is safe for concurrent use.
type PDP struct {
	snapshots    *snapshot.Holder
	log          Log
	revocations  RevocationLog // nil: there is none
	maxStaleness time.Duration // 0: there is no limit
	tokens       *token.Verifier

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
	if cfg.MaxStaleness < 0 {
		return nil, errors.New("pdp: MaxStaleness is negative: give a duration, or 0 for no limit")
	}
	return &PDP{snapshots: cfg.Snapshots, log: cfg.Log, revocations: cfg.Revocations, maxStaleness: cfg.MaxStaleness, tokens: cfg.Tokens}, nil
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

// Decide answers one proposal that caller brings, in a world that is at least
// as fresh as the revision demand, which is text from an earlier answer; empty:
// in whichever is current. What caller may do and vouch for is what that world
// says of its name. A denial is an answer; an error means that nothing could be
// decided, because ctx ended first, and counts as a denial.
func (p *PDP) Decide(ctx context.Context, caller *writ.Caller, proposal *writ.Proposal, demand string) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, fmt.Errorf("pdp: nothing was decided: %w", err)
	}
	if caller == nil || proposal == nil {
		return Answer{}, errors.New("pdp: nothing was decided: there is no caller or no proposal")
	}
	s, err := p.setting(ctx, demand)
	if err != nil {
		return Answer{}, err
	}
	as := s.caller(caller)
	proposal = p.tokens.Judge(ctx, s.world, as, proposal, s.now)
	d := s.decide(as, proposal, observer(ctx))
	return p.settle(ctx, &s, caller, proposal, d, time.Since(s.read)), nil
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
	s := setting{world: p.snapshots.Load(), now: p.now()}
	return p.settle(ctx, &s, caller, proposal, malformed(s.world, proposal, field, why), 0), nil
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
// but a pure or a read is durable before it is given. To decide took some time;
// 0: it was not measured.
func (p *PDP) settle(ctx context.Context, s *setting, caller *writ.Caller, proposal *writ.Proposal, d writ.Decision, took time.Duration) Answer {
	id := rand.Text()
	durable := d.Outcome == writ.Allow && d.Effect != writ.Read && d.Effect != writ.Pure
	if err := p.log.Append(ctx, record(ctx, id, s, caller, proposal, &d, took), durable); err != nil {
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

// now reads the clock once a call, see instant.
func (p *PDP) now() time.Time { return p.instant(time.Now()) }

// instant makes of a reading of the clock the instant of a call. It never runs
// backwards within a process, whatever is done to the machine's clock: once
// that is put back, now stands still until it has caught up. What expired at the
// later instant stays expired, and what began has begun: after a clock that was
// ahead, revocations and memberships whose windows end or begin within the
// difference are judged as at the later instant, which may be to the wrong
// side. The machine's clock is trusted; a restart makes now the machine's time
// again.
func (p *PDP) instant(reading time.Time) time.Time {
	t := reading.UnixNano()
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
