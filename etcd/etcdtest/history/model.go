package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// state is what is true of some grants that have to do with each other. It is
// never changed: steps make others.
type state struct {
	head    uint64   // the last revocation
	hazy    bool     // there may be more revocations than are known of
	revoked []string // subjects, in order
	minted  []pair   // in order
	claims  []claim  // in order
}

type pair struct{ grant, proposal string }

type claim struct {
	pair
	attempt string
}

func (s *state) equal(o *state) bool {
	return s.head == o.head && s.hazy == o.hazy && slices.Equal(s.revoked, o.revoked) && slices.Equal(s.minted, o.minted) && slices.Equal(s.claims, o.claims)
}

// with returns all and one more, in order.
func with[T any](all []T, one T, compare func(T, T) int) []T {
	i, found := slices.BinarySearchFunc(all, one, compare)
	if found {
		return all
	}
	return slices.Insert(slices.Clone(all), i, one)
}

func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.grant, b.grant), cmp.Compare(a.proposal, b.proposal))
}

func compareClaims(a, b claim) int {
	return cmp.Or(comparePairs(a.pair, b.pair), cmp.Compare(a.attempt, b.attempt))
}

// step is an operation as the model takes it.
type step struct {
	Operation
	// maybe: a claim that was made, or was not.
	maybe bool
	// before is the state that a part of the history begins with; nil: it is an
	// operation.
	before *state
}

func (o *Operation) claim() claim { return claim{pair{o.Grant, o.Proposal}, o.Attempt} }

// without returns all but one.
func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// isRevoked reports whether somebody is revoked on whom an operation depends.
func (s *state) isRevoked(o *Operation) bool {
	return slices.ContainsFunc(s.revoked, func(revoked string) bool {
		return revoked == o.Subject || slices.Contains(strings.Fields(o.Subject), revoked)
	})
}

// passes reports whether no revocation stands against an operation, as far as
// is known.
func (s *state) passes(o *Operation) bool {
	return s.head <= o.Counts && !s.isRevoked(o)
}

// free reports whether an operation may claim.
func (s *state) free(o *Operation) bool {
	return s.passes(o) && slices.Contains(s.minted, pair{o.Grant, o.Proposal}) &&
		!slices.ContainsFunc(s.claims, func(c claim) bool { return c.grant == o.Grant || c.proposal == o.Proposal })
}

// next returns the states that may follow; none: it can't have happened.
func (s *state) next(o *step) []*state {
	same, out := []*state{s}, *s
	if o.before != nil {
		out.head, out.hazy = max(s.head, o.before.head), s.hazy || o.before.hazy
		for _, subject := range o.before.revoked {
			out.revoked = with(out.revoked, subject, cmp.Compare[string])
		}
		return []*state{&out}
	}
	claimed := func() []*state {
		out.claims = with(s.claims, o.claim(), compareClaims)
		return []*state{&out}
	}
	switch {
	case o.Kind == Mint:
		if o.Result != Done {
			return same // nobody has the grant
		}
		out.minted = with(s.minted, pair{o.Grant, o.Proposal}, comparePairs)
		return []*state{&out}
	case o.Kind == Revoke:
		switch o.Result {
		case Done:
			out.head = max(s.head, o.Counts)
			if o.Subject != "" {
				out.revoked = with(s.revoked, o.Subject, cmp.Compare[string])
			}
		case Lost:
			out.hazy = true // from some time on; at the latest, when it can't matter any more
		}
		return []*state{&out}
	case o.Kind == Lift: // one that was lost, too: it may come at the very end, when it can't matter any more
		out.revoked = without(s.revoked, o.Subject)
		return []*state{&out}
	case o.maybe:
		if s.free(&o.Operation) {
			return append(same, claimed()...)
		}
		return same
	}
	mine := slices.Contains(s.claims, o.claim())
	free := s.free(&o.Operation)
	ok := false
	switch o.Result {
	case Claimed, Redeemed:
		if free {
			return claimed()
		}
		ok = o.Result == Redeemed && mine && s.passes(&o.Operation)
	case Again:
		ok = mine && s.passes(&o.Operation)
	case Taken:
		ok = !mine && s.head <= o.Counts && slices.ContainsFunc(s.claims, func(c claim) bool { return c.grant == o.Grant || c.proposal == o.Proposal })
	case Overtaken:
		ok = s.head > o.Counts || s.hazy
	case Revoked:
		ok = s.hazy || s.isRevoked(&o.Operation)
	case Refused:
		ok = true
	}
	if !ok {
		return nil
	}
	return same
}

// model is that for porcupine.
var model = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{&state{}} },
		Step: func(s, input, _ any) []any {
			var all []any
			for _, next := range s.(*state).next(input.(*step)) {
				all = append(all, next)
			}
			return all
		},
		Equal: func(a, b any) bool { return a.(*state).equal(b.(*state)) },
	}
	return m.ToModel()
}()
