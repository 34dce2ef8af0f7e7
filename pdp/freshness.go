package pdp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// patience is how long a request waits for the revision that it demands, if
// its own deadline allows.
const patience = 200 * time.Millisecond

// FieldAtLeastAsFresh is the field that a decision names when the demanded
// revision could not be read.
const FieldAtLeastAsFresh = "at_least_as_fresh"

// setting is the world that a request is answered in, and the instant.
type setting struct {
	world *snapshot.Snapshot // nil: there is none
	now   time.Time
	read  time.Time     // the reading of the clock that now is made of
	wait  time.Duration // for the demanded revision

	malformed bool // the demanded revision could not be read
	missing   bool // the demanded revision is not there
	stale     bool // there is a limit, and the source has been silent for longer
	heardAt   time.Time

	learnt   bool // the keys of approvals were asked for: see PDP.learns
	unlearnt bool // and nobody could say
}

// setting waits for the world that a request demands, and reads the clock. An
// error means that ctx ended first.
func (p *PDP) setting(ctx context.Context, demand string) (setting, error) {
	var s setting
	var asked time.Time // zero: nothing to wait for
	if demand == "" {
		s.world = p.snapshots.Load()
	} else if revision, err := snapshot.ParseRevision(demand); err != nil {
		s.world, s.malformed = p.snapshots.Load(), true
	} else {
		asked = time.Now()
		waiting, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		var covered bool
		s.world, covered = p.snapshots.Await(waiting, revision)
		s.missing = !covered
	}
	if err := ctx.Err(); err != nil {
		return setting{}, fmt.Errorf("pdp: nothing was decided: %w", err)
	}
	s.read = time.Now()
	if s.now = p.instant(s.read); !asked.IsZero() {
		s.wait = s.read.Sub(asked)
	}
	if s.world != nil && p.maxStaleness > 0 {
		heard := p.snapshots.HeardAt()
		if heard.IsZero() {
			heard = s.world.LoadedAt // it was the newest then
		}
		s.stale = silence(heard, s.read) > p.maxStaleness
		s.heardAt = heard.UTC()
	}
	return s, nil
}

// silence is how long ago the source was heard: by whichever counts more, the
// time that has passed, which does not count while the machine sleeps, and the
// clock, which may have been put back.
func silence(heardAt, read time.Time) time.Duration {
	return max(read.Sub(heardAt), read.Round(0).Sub(heardAt.Round(0)))
}

// caller is who asks, as the world says that the request is answered in: what
// let it in may have been another world. Nil: nobody who may propose.
func (s *setting) caller(asking *writ.Caller) *writ.Caller {
	if s.world == nil {
		return nil
	}
	if is := s.world.Callers[asking.Name]; s.world.May(is, "Decide") {
		return is
	}
	return nil
}

// withdrawn reports whether a caller is revoked in the world that answers: the
// one that let the request in may not have known it.
func (s *setting) withdrawn(caller *writ.Caller) bool {
	_, yes := s.world.Revocations.Revoked(revocation.Caller, "", caller.Name, time.Time{}, s.now)
	return yes
}

// decide applies FRESHNESS, then the other controls. o may be nil.
func (s *setting) decide(caller *writ.Caller, proposal *writ.Proposal, o decide.Observer) writ.Decision {
	if failed, passed := s.check(caller, proposal, o); !passed {
		return failed
	}
	if caller == nil {
		return malformed(s.world, proposal, "", "Who asks may not propose in this world.")
	}
	return s.mark(decide.Decide(s.world, caller, proposal, s.now, o))
}

// check is the FRESHNESS control, and what comes before it: there is a
// proposal and a demand that can be read. A proposal that cannot be read
// passes: what decides finds that, and MALFORMED_PROPOSAL comes before every
// other code.
func (s *setting) check(caller *writ.Caller, proposal *writ.Proposal, o decide.Observer) (failed writ.Decision, passed bool) {
	if proposal == nil {
		return malformed(s.world, nil, "proposal", "There is no proposal."), false
	}
	if s.malformed {
		return malformed(s.world, proposal, FieldAtLeastAsFresh, "It is not a revision: take it from an answer as it is."), false
	}
	switch {
	case s.missing:
		failed = s.fail(proposal, writ.CodeRevisionUnavailable, "The demanded revision has not arrived here: ask again, or demand one of this server's source.")
	case s.world == nil:
		failed = s.fail(proposal, writ.CodeSnapshotStale, "No bundle is loaded.")
	case s.stale && consequential(s.world, proposal):
		failed = s.silent(proposal)
	case s.unlearnt && slices.ContainsFunc(proposal.Approvals, func(a writ.Approval) bool { return a.Forged }):
		failed = s.fail(proposal, writ.CodeSnapshotStale, "An approval's key is not known here, and which keys there are could not be asked: propose the same again.")
	default:
		return writ.Decision{}, true
	}
	if s.world != nil && decide.Decide(s.world, caller, proposal, s.now, nil).Code == writ.CodeMalformedProposal {
		return writ.Decision{}, true
	}
	if o != nil {
		o.Control(failed.Control, failed.Code)
	}
	return failed, false
}

// mark sets on a decision what is to be said of a stale world. A call with
// consequences does not pass, whoever thought that it had none.
func (s *setting) mark(d writ.Decision) writ.Decision {
	if !s.stale {
		return d
	}
	if d.Outcome != writ.Deny && !harmless(d.Effect) {
		return s.silent(&writ.Proposal{Server: writ.ServerRef{ID: d.Server}, Tool: d.Tool})
	}
	d.HeardAt = s.heardAt
	return d
}

func (s *setting) silent(proposal *writ.Proposal) writ.Decision {
	return s.fail(proposal, writ.CodeSnapshotStale,
		"The source of bundles and revocations has been silent for longer than this server acts on what it last said.")
}

func (s *setting) fail(proposal *writ.Proposal, code writ.Code, why string) writ.Decision {
	d := writ.Decision{Code: code, Control: writ.ControlFreshness, Explanation: why, Server: proposal.Server.ID, Tool: proposal.Tool}
	if s.world != nil {
		d.Revision = s.world.Revision
	}
	if s.stale {
		d.HeardAt = s.heardAt
	}
	return d
}

// consequential reports whether a proposal is anything but one of a reviewed
// tool that only computes or reads.
func consequential(world *snapshot.Snapshot, proposal *writ.Proposal) bool {
	contract := world.Contract(proposal.Server.ID, proposal.Tool)
	if contract == nil {
		return true
	}
	arguments, err := canon.ParseObject(proposal.ArgumentsJSON)
	if err != nil {
		return true
	}
	_, rule := contract.Action(arguments)
	return !harmless(rule.Effect)
}

func harmless(e writ.Effect) bool { return e == writ.Pure || e == writ.Read }
