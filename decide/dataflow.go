package decide

import (
	"slices"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// skew is how far in the future evidence may have been observed: callers'
// clocks differ a little. What lies further ahead is not fresh.
const skew = time.Minute

// checkDataFlow keeps data inside the entitlements of the server, and values
// of consequence supported by sources that the caller may vouch for.
func (c *call) checkDataFlow() failure {
	server := c.contract.Server
	if len(server.Purposes) > 0 {
		in := c.proposal.Intent
		if in == nil || !slices.Contains(server.Purposes, in.Purpose) {
			return failure{writ.CodeClassificationDenied, "The server is not entitled to this purpose.", "intent.purpose"}
		}
	}
	evidence := c.proposal.Evidence
	for i := range evidence {
		if k := evidence[i].Classification; k != "" && !slices.Contains(server.Classifications, k) {
			return failure{writ.CodeClassificationDenied, "The server is not entitled to data of this classification.", index("evidence", i, "classification")}
		}
	}
	if len(evidence) > 0 {
		c.weigh()
	}
	for _, pointer := range c.contract.EvidencePointers() {
		if f := c.support(pointer, c.contract.Evidence[pointer]); f.code != "" {
			return f
		}
	}
	return passed
}

// weigh finds the evidence that counts: its observed value equals the
// argument, byte for byte in canonical form. It is trusted where the caller
// may vouch for its kind.
func (c *call) weigh() {
	c.evidence = make([]policy.EvidenceSeen, 0, len(c.proposal.Evidence))
	for i := range c.proposal.Evidence {
		e := &c.proposal.Evidence[i]
		c.evidence = append(c.evidence, policy.EvidenceSeen{
			Argument: e.Argument, Kind: string(e.Kind), Classification: e.Classification,
			Trusted: c.caller.VouchesFor(e.Kind) && c.matches(i),
		})
	}
}

// matches reports whether evidence i was observed with the argument's value.
func (c *call) matches(i int) bool {
	v, ok := at(c.arguments, c.proposal.Evidence[i].Argument)
	return ok && equal(v, c.observed[i])
}

// equal reports whether two parsed values have one canonical form. Numbers
// are in canonical form already (see canon.Parse).
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			w, ok := b[name]
			if !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false // not comparable by ==
	}
	return a == b
}

// support holds one argument against the contract's line for it. An argument
// that is absent needs no support.
func (c *call) support(pointer string, line contract.EvidenceLine) failure {
	if _, ok := at(c.arguments, pointer); !ok {
		return passed
	}
	var trusted, fresh []int
	for i := range c.evidence {
		seen, e := &c.evidence[i], &c.proposal.Evidence[i]
		if !seen.Trusted || seen.Argument != pointer || !slices.Contains(line.From, e.Kind) {
			continue
		}
		trusted = append(trusted, i)
		age := c.now.Sub(e.ObservedAt)
		if line.Fresh == 0 || age <= line.Fresh && age >= -skew {
			fresh = append(fresh, i)
		}
	}
	need := max(1, line.Independent)
	group := c.sources()
	switch {
	case len(trusted) == 0:
		return failure{writ.CodeUntrustedSoleSource, "No source that the contract accepts, and for which the caller may vouch, supports this value.", pointer}
	case independent(group, fresh) >= need:
		return passed
	case independent(group, trusted) >= need:
		return failure{writ.CodeEvidenceStale, "The evidence for this value is too old.", pointer}
	}
	return failure{writ.CodeEvidenceMissing, "Too few independent sources support this value.", pointer}
}

// sources puts the evidence of the proposal into groups that share nothing:
// evidence with one reference, with a derivation in common, or derived one
// from the other, is one source. All evidence counts here, whatever it is for
// and however untrusted: it says where the rest came from. Chains of sharing
// make one group, so that the order of evidence never matters and doubt
// lowers the count.
func (c *call) sources() []int {
	if c.groups != nil {
		return c.groups
	}
	evidence := c.proposal.Evidence
	group := make([]int, len(evidence))
	find := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	owner := map[string]int{}
	for i := range evidence {
		group[i] = i
		join := func(ref string) {
			if j, seen := owner[ref]; seen {
				group[find(i)] = find(j)
			} else {
				owner[ref] = i
			}
		}
		join(evidence[i].Reference)
		for _, ref := range evidence[i].DerivedFrom {
			join(ref)
		}
	}
	for i := range group {
		group[i] = find(i)
	}
	c.groups = group
	return group
}

// independent counts the groups that pieces of evidence are in.
func independent(group, pieces []int) int {
	var seen []int
	for _, i := range pieces {
		if !slices.Contains(seen, group[i]) {
			seen = append(seen, group[i])
		}
	}
	return len(seen)
}

// unsupported lists the pointers of top-level arguments that no trusted
// evidence supports, in order. It is made once, and only where policies ask.
func (c *call) unsupported() []string {
	if c.lacking != nil {
		return c.lacking
	}
	out := make([]string, 0, len(c.arguments))
	for name := range c.arguments {
		pointer := string(canon.AppendPointer(nil, name))
		if !slices.ContainsFunc(c.evidence, func(e policy.EvidenceSeen) bool { return e.Trusted && e.Argument == pointer }) {
			out = append(out, pointer)
		}
	}
	slices.Sort(out)
	c.lacking = out
	return out
}
