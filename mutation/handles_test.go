package mutation

import "testing"

// TestHandlesAndGroups: what is bound to its user is tried with another user's,
// which must be unknown, and what a token's groups give without them.
func TestHandlesAndGroups(t *testing.T) {
	r := runnerOf(t, "../examples/shop")
	mutants := r.proposalMutants()
	r.tryProposals(mutants)
	got := map[string]string{}
	for _, m := range mutants {
		got[m.of.Name+": "+m.name] = string(m.got.Code)
	}
	for name, want := range map[string]string{
		"her own: cart: somebody else's Cart":                       "TARGET_UNKNOWN",
		"his own: cart: somebody else's Cart":                       "TARGET_UNKNOWN",
		"her own to buy: cart: an unknown Cart":                     "TARGET_UNKNOWN",
		"a list of both: wish_list: somebody else's WishList":       "TARGET_UNKNOWN",
		"a customer: token groups dropped":                          "NO_PERMIT",
		"a customer: principal: unknown":                            "TARGET_UNKNOWN",
		"the concierge fills: token groups dropped":                 "NO_PERMIT",
		"her own: cart: another Cart of one's own":                  "",
		"her own: cart: another Cart of the bundle":                 "",
		"a list of both: wish_list: another WishList of one's own":  "",
		"a list of both: wish_list: another WishList of the bundle": "",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	for i := range mutants {
		if m := mutants[i]; m.of.Proposal.Token != nil && len(m.of.Proposal.Token.Groups) == 0 && m.skipped == "" && m.name == "principal: unknown" {
			t.Errorf("%s: the scenario has lost its groups to a mutant", m.of.Name)
		}
	}
}
