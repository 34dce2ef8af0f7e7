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
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
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

	// Keys sign grants and approvals, Ledger remembers what is redeemed, and
	// Reviews what people are asked. All of them or none: with none they are in
	// memory, made here, and gone with the process, which also forgets what
	// proposals it has redeemed.
	Keys    *keyring.Ring
	Ledger  grant.Ledger
	Reviews approval.Store
	// Shared says that there are other replicas, with the same ledger.
	Shared bool
	// Issuer names this decision point in what it signs. Empty: [DefaultIssuer].
	Issuer string
	// GrantLifetime is how long a grant can be redeemed; 0:
	// [DefaultGrantLifetime]. At least a second, at most [MaxGrantLifetime].
	GrantLifetime time.Duration
	// ApprovalLifetime is how long an approval counts; 0:
	// [DefaultApprovalLifetime]. At least a minute, at most
	// [approval.MaxLifetime].
	ApprovalLifetime time.Duration
	// MaySign reports whether Keys may sign at an instant: a replica's key is
	// certified for a time. Nil: always.
	MaySign func(now time.Time) bool
	// LearnKeys has Keys trust those who sign now, for a grant or an approval
	// whose key is not known: another replica may have begun to sign with it a
	// moment ago. Nil: nobody else signs.
	LearnKeys func(ctx context.Context) error
	// Name is how the ledger names digests over values that could be guessed: as
	// the log does, where it is to be filled from there. Nil: as they are.
	Name func(digest string) string
}

// DefaultIssuer is the iss of grants and approvals.
const DefaultIssuer = "writ"

// PDP answers proposals. Make one with [New]; it is safe for concurrent use.
type PDP struct {
	snapshots    *snapshot.Holder
	log          Log
	revocations  RevocationLog // nil: there is none
	maxStaleness time.Duration // 0: there is no limit
	tokens       *token.Verifier

	keys      *keyring.Ring
	ledger    grant.Ledger
	reviews   approval.Store
	shared    bool
	issuer    string
	lifetime  time.Duration // of grants
	approvals time.Duration // their lifetime
	named     func(string) string
	maySign   func(time.Time) bool        // nil: always
	learn     func(context.Context) error // nil: nobody else signs
	minted    minted

	last atomic.Int64 // the latest instant given out, in Unix nanoseconds
}

// New returns a PDP. It refuses to be made without a log: nothing may be
// answered that could not be recorded.
func New(cfg Config) (*PDP, error) {
	p := &PDP{
		snapshots: cfg.Snapshots, log: cfg.Log, revocations: cfg.Revocations, maxStaleness: cfg.MaxStaleness, tokens: cfg.Tokens,
		keys: cfg.Keys, ledger: cfg.Ledger, reviews: cfg.Reviews, shared: cfg.Shared,
		issuer:   cmp.Or(cfg.Issuer, DefaultIssuer),
		lifetime: cmp.Or(cfg.GrantLifetime, DefaultGrantLifetime), approvals: cmp.Or(cfg.ApprovalLifetime, DefaultApprovalLifetime),
		named: cfg.Name, maySign: cfg.MaySign, learn: cfg.LearnKeys,
	}
	switch {
	case cfg.Log == nil:
		return nil, errors.New("pdp: a log is required: what is not recorded is not answered")
	case cfg.Snapshots == nil:
		return nil, errors.New("pdp: a snapshot holder is required")
	case cfg.MaxStaleness < 0:
		return nil, errors.New("pdp: MaxStaleness is negative: give a duration, or 0 for no limit")
	case p.lifetime < time.Second || p.lifetime > MaxGrantLifetime:
		return nil, fmt.Errorf("pdp: grants live from 1s to %v, not %v", MaxGrantLifetime, p.lifetime)
	case p.approvals < time.Minute || p.approvals > approval.MaxLifetime:
		return nil, fmt.Errorf("pdp: approvals live from 1m to %v, not %v", approval.MaxLifetime, p.approvals)
	case p.named == nil:
		p.named = func(digest string) string { return digest }
	}
	missing := 0
	for _, m := range [...]bool{p.keys == nil, p.ledger == nil, p.reviews == nil} {
		if m {
			missing++
		}
	}
	switch {
	case missing == 0:
		return p, nil
	case missing < 3 || cfg.Shared:
		return nil, errors.New("pdp: keys, a ledger and reviews belong together: give all of them, or none and be alone")
	}
	return p, p.alone()
}

// alone makes what a PDP needs that is the only one: keys, a ledger and reviews
// in memory.
func (p *PDP) alone() (err error) {
	if p.keys, err = keyring.New(keyring.Config{}, time.Now()); err != nil {
		return err
	}
	if p.ledger, err = grant.NewMemory(grant.MemoryConfig{Revocations: p.sequence}); err != nil {
		return err
	}
	p.reviews, err = approval.NewMemory(approval.MemoryConfig{})
	return err
}

// sequence is that of the revocations in force.
func (p *PDP) sequence() uint64 {
	if world := p.snapshots.Load(); world != nil {
		return world.Revocations.Sequence()
	}
	return 0
}

// Decide answers one proposal that caller brings. What caller may do and vouch
// for is what the world that answers says of its name. A denial is an answer;
// an error means that nothing could be decided, because ctx ended first, and
// counts as a denial.
func (p *PDP) Decide(ctx context.Context, caller *writ.Caller, proposal *writ.Proposal, ask Ask) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, fmt.Errorf("pdp: nothing was decided: %w", err)
	}
	if caller == nil || proposal == nil {
		return Answer{}, errors.New("pdp: nothing was decided: there is no caller or no proposal")
	}
	s, err := p.setting(ctx, ask.AtLeastAsFresh)
	if err != nil {
		return Answer{}, err
	}
	as := s.caller(caller)
	proposal, d := p.answer(ctx, &s, as, p.judge(ctx, &s, as, proposal), observer(ctx))
	return p.settle(ctx, &s, asked{caller: caller, as: as, proposal: proposal, grant: ask.Grant}, d, time.Since(s.read)), nil
}

// asked is a question that is being answered.
type asked struct {
	caller   *writ.Caller   // who asks
	as       *writ.Caller   // the same, as the world that answers says; nil: nobody who may
	proposal *writ.Proposal // judged; may be nil
	grant    bool           // a grant is wanted also where the call needs none
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
	return p.settle(ctx, &s, asked{caller: caller, proposal: proposal}, malformed(s.world, proposal, field, why), 0), nil
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

// settle alone makes an Answer: mint, record, then release. An ALLOW that
// carries a grant, or is of anything but a pure or a read, is durable before it
// is given. To decide took some time; 0: it was not measured.
func (p *PDP) settle(ctx context.Context, s *setting, q asked, d writ.Decision, took time.Duration) Answer {
	a := Answer{id: rand.Text(), decision: d}
	var minted *open
	switch d.Outcome {
	case writ.Allow:
		a.decision, minted = p.mint(ctx, s, q, d)
	case writ.ReviewRequired:
		a.decision, a.review = p.review(ctx, s, q, d)
	}
	r := record(ctx, a.id, s, q.caller, q.proposal, &a.decision, took)
	r.Review = a.review.ID
	if minted != nil {
		defer p.minted.release(minted) // unless it is added
		a.grant = minted.grant()
		r.Grant = a.grant.ID
	}
	durable := a.decision.Outcome == writ.Allow && (minted != nil || !harmless(d.Effect))
	if err := p.log.Append(ctx, r, durable); err != nil {
		a.decision, a.grant, a.review = unrecorded(&d), Grant{}, Ticket{}
	} else if minted != nil {
		p.minted.add(minted)
	}
	describe(ctx, a.id, &a.decision)
	return a
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
