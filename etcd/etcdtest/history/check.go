package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Check returns an error if what was recorded can't have happened one thing
// after another, each between its call and its answer. Grants that neither share
// a proposal nor are linked by others that do are checked apart, each with the
// revocations. limit is how long one such part may take; 0: a minute.
func Check(all []Operation, limit time.Duration) error {
	if limit == 0 {
		limit = time.Minute
	}
	if err := twice(all); err != nil {
		return err
	}
	r, groups := newRevocations(all), parts(all)
	for _, part := range groups {
		left := possible(part)
		if len(left) == 0 {
			continue
		}
		steps := r.around(left)
		switch porcupine.CheckOperationsTimeout(model, steps, limit) {
		case porcupine.Illegal:
			return fmt.Errorf("this can't have happened one after another:\n%s", describe(steps))
		case porcupine.Unknown:
			return fmt.Errorf("it takes more than %v to say whether this can have happened:\n%s", limit, describe(steps))
		}
	}
	return nil
}

// twice finds the plainest violation, without a model.
func twice(all []Operation) error {
	grants, proposals := map[string]Operation{}, map[string]Operation{}
	for _, o := range all {
		if o.Result != Claimed {
			continue
		}
		for _, claimed := range []struct {
			by   map[string]Operation
			name string
		}{{grants, o.Grant}, {proposals, o.Proposal}} {
			if before, ok := claimed.by[claimed.name]; ok {
				return fmt.Errorf("%s was claimed twice:\n%v\n%v", claimed.name, before, o)
			}
			claimed.by[claimed.name] = o
		}
	}
	return nil
}

// parts groups what is about grants by proposals.
func parts(all []Operation) [][]Operation {
	parent := map[string]string{}
	var root func(string) string
	root = func(name string) string {
		up, ok := parent[name]
		if !ok || up == name {
			parent[name] = name
			return name
		}
		top := root(up)
		parent[name] = top
		return top
	}
	for _, o := range all {
		if o.Kind != Revoke && o.Kind != Lift {
			parent[root("grant "+o.Grant)] = root("proposal " + o.Proposal)
		}
	}
	at := map[string]int{}
	var out [][]Operation
	for _, o := range all {
		if o.Kind == Revoke || o.Kind == Lift {
			continue
		}
		top := root("grant " + o.Grant)
		i, ok := at[top]
		if !ok {
			i = len(out)
			at[top], out = i, append(out, nil)
		}
		out[i] = append(out[i], o)
	}
	return out
}

// revocations are all, with their lifts, by when they were told and when they
// were called.
type revocations struct {
	done   []Operation     // by Back
	before []uint64        // by place in done: the greatest Counts up to there
	lost   []time.Duration // when revocations were called of which nothing was told
	lifts  []Operation     // those of which nothing was told
}

func newRevocations(all []Operation) *revocations {
	r := &revocations{}
	for _, o := range all {
		switch {
		case (o.Kind == Revoke || o.Kind == Lift) && o.Result == Done:
			r.done = append(r.done, o)
		case o.Kind == Lift && o.Result == Lost:
			r.lifts = append(r.lifts, o)
		case o.Kind == Revoke && o.Result == Lost:
			r.lost = append(r.lost, o.Call)
		}
	}
	slices.SortFunc(r.done, func(a, b Operation) int { return int(a.Back - b.Back) })
	slices.Sort(r.lost)
	var most uint64
	for _, o := range r.done {
		most = max(most, o.Counts)
		r.before = append(r.before, most)
	}
	return r
}

// around returns a part with the revocations that it can tell of: those that
// were over before it began make what it begins with.
func (r *revocations) around(part []step) []porcupine.Operation {
	begin, end := time.Duration(math.MaxInt64), time.Duration(0)
	subjects := map[string]bool{}
	for _, o := range part {
		begin, end = min(begin, o.Call), max(end, o.Call, o.Back) // Back of what was lost is not kept
		subjects[o.Subject] = true
		for _, subject := range strings.Fields(o.Subject) {
			subjects[subject] = true
		}
	}
	first, _ := slices.BinarySearchFunc(r.done, begin, func(o Operation, t time.Duration) int { return int(o.Back - t) })
	base := &state{}
	if first > 0 {
		base.head = r.before[first-1]
	}
	for _, o := range r.done[:first] {
		switch {
		case o.Subject == "" || !subjects[o.Subject]:
		case o.Kind == Lift:
			base.revoked = without(base.revoked, o.Subject)
		default:
			base.revoked = with(base.revoked, o.Subject, strings.Compare)
		}
	}
	var steps []porcupine.Operation
	add := func(o step, back time.Duration) {
		steps = append(steps, porcupine.Operation{ClientId: o.Client, Input: &o, Call: int64(o.Call), Return: int64(back)})
	}
	// One that may have happened is as good as many.
	if len(r.lost) > 0 && r.lost[0] < begin {
		base.hazy = true
	} else if len(r.lost) > 0 && r.lost[0] < end {
		add(step{Operation: Operation{Kind: Revoke, Call: r.lost[0]}}, math.MaxInt64)
	}
	add(step{Operation: Operation{Call: begin - 2}, before: base}, begin-1)
	for _, o := range r.done[first:] {
		if o.Call < end && (o.Counts > 0 || subjects[o.Subject]) {
			add(step{Operation: o}, o.Back)
		}
	}
	for _, o := range r.lifts {
		if o.Call < end && subjects[o.Subject] {
			add(step{Operation: o}, math.MaxInt64)
		}
	}
	for _, o := range part {
		switch {
		case o.maybe && o.Result == Lost:
			add(o, math.MaxInt64)
		default:
			add(o, o.Back)
		}
	}
	return steps
}

// possible returns a part as steps, without claims that may have been made but
// make no difference, so that few orders are left to be tried. What is told to
// be claimed stays so: no other claim of its grant or proposal was ever made. And
// of equal ones of which nothing was told, the first is as good as all.
func possible(part []Operation) []step {
	won := map[string]claim{}
	for _, o := range part {
		if o.Result == Claimed || o.Result == Again || o.Result == Redeemed {
			won["grant "+o.Grant], won["proposal "+o.Proposal] = o.claim(), o.claim()
		}
	}
	type effect struct {
		claim
		subject string
		counts  uint64
	}
	first := map[effect]time.Duration{}
	differs := func(o *Operation) bool {
		for _, name := range []string{"grant " + o.Grant, "proposal " + o.Proposal} {
			if winner, ok := won[name]; ok && winner != o.claim() {
				return false
			}
		}
		return true
	}
	var out []step
	for _, o := range part {
		if o.Kind == Mint {
			if o.Result == Done {
				out = append(out, step{Operation: o})
			}
			continue
		}
		if o.Result == Lost {
			if is := (effect{o.claim(), o.Subject, o.Counts}); differs(&o) {
				if before, ok := first[is]; !ok || o.Call < before {
					first[is] = o.Call
				}
			}
			continue
		}
		if o.Result == Overtaken && differs(&o) {
			out = append(out, step{Operation: o, maybe: true})
		}
		out = append(out, step{Operation: o})
	}
	for is, call := range first {
		out = append(out, step{maybe: true, Operation: Operation{
			Kind: Redeem, Grant: is.grant, Proposal: is.proposal, Attempt: is.attempt, Subject: is.subject, Counts: is.counts, Call: call,
		}})
	}
	return out
}

func describe(steps []porcupine.Operation) string {
	var b strings.Builder
	slices.SortFunc(steps, func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
	for _, s := range steps {
		o := s.Input.(*step)
		switch {
		case o.before != nil:
			fmt.Fprintf(&b, "begins with %d revocations, hazy %v, of %v\n", o.before.head, o.before.hazy, o.before.revoked)
		case o.maybe && o.Result != Lost:
		default:
			fmt.Fprintln(&b, o.Operation)
		}
	}
	return b.String()
}
