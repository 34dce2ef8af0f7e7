package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

// reach collects what scenarios reach of a bundle.
type reach struct {
	world    *snapshot.Snapshot
	tools    map[string]bool
	policies map[string]bool
}

func newReach(world *snapshot.Snapshot) *reach {
	return &reach{world: world, tools: map[string]bool{}, policies: map[string]bool{}}
}

func (r *reach) add(d writ.Decision) {
	r.tools[d.Server+"/"+d.Tool] = true
	for _, p := range d.Policies {
		r.policies[p.ID] = true
	}
}

// coverage is what scenarios leave out, and what nobody can do.
type coverage struct {
	// UncallableTools have no permit that could ever apply to them.
	UncallableTools []string `json:"tools_nobody_may_call"`
	// UncalledTools are in no scenario.
	UncalledTools []string `json:"tools_no_scenario_calls"`
	// UnreachedPolicies determine no scenario's answer. Policies about
	// approving, and about callers, are left out: they answer no call.
	UnreachedPolicies []policyPlace `json:"policies_no_scenario_reaches"`
	Reviews           []reviewers   `json:"reviews"`
}

type policyPlace struct {
	File string `json:"file"`
	Line int    `json:"line"`
	ID   string `json:"id"`
}

// reviewers says who may lift one review policy.
type reviewers struct {
	Policy string   `json:"policy"`
	People int      `json:"people"` // how many it needs
	May    []string `json:"may_approve"`
	// Others says that people whom only an issuer knows may, too.
	Others bool `json:"others_may"`
}

func (r *reach) coverage(now time.Time) *coverage {
	out := &coverage{UncallableTools: []string{}, UncalledTools: []string{}, UnreachedPolicies: []policyPlace{}, Reviews: []reviewers{}}
	for _, id := range slices.Sorted(maps.Keys(r.world.Contracts)) {
		callable := slices.ContainsFunc(r.world.Contracts[id].Actions(), func(action string) bool {
			return r.world.Policies.AnyPermit(types.NewEntityUID("Action", types.String(action)))
		})
		if !callable {
			out.UncallableTools = append(out.UncallableTools, id)
		}
		if !r.tools[id] {
			out.UncalledTools = append(out.UncalledTools, id)
		}
	}
	for _, p := range r.world.Policies.Policies() {
		if !r.policies[p.ID] && !p.Inactive && !p.AboutApproval() && !p.AboutRights() {
			out.UnreachedPolicies = append(out.UnreachedPolicies, policyPlace{p.File, p.Line, p.ID})
		}
		if p.Review > 0 {
			out.Reviews = append(out.Reviews, r.reviewers(p, now))
		}
	}
	return out
}

// reviewers asks the policies which of the bundle's people may lift a review.
func (r *reach) reviewers(p *policy.Policy, now time.Time) reviewers {
	out := reviewers{Policy: p.ID, People: p.Review, May: []string{}}
	lifters := r.world.Policies.Lifters(p, r.people(), instant{r.world, now})
	for _, uid := range lifters.Known {
		out.May = append(out.May, uid.String())
	}
	out.Others = lifters.Others
	return out
}

// people are the entities of the bundle that some issuer could name.
func (r *reach) people() []types.EntityUID {
	var out []types.EntityUID
	for held := range r.world.Entities.All() {
		for _, issuer := range r.world.Issuers {
			if _, _, ok := issuer.Principal.Match(held.UID); ok {
				out = append(out, held.UID)
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b types.EntityUID) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// instant is the world's entities at one time.
type instant struct {
	world *snapshot.Snapshot
	now   time.Time
}

// Get implements types.EntityGetter.
func (i instant) Get(uid types.EntityUID) (types.Entity, bool) {
	if e, ok := i.world.Policies.Static(uid); ok {
		return e, true
	}
	return i.world.Entities.Get(uid, i.now)
}

func (v *coverage) print(w io.Writer) {
	list := func(what string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(w, "%s (%d): %s\n", what, len(items), abridged(items))
		}
	}
	list("tools nobody may call", v.UncallableTools)
	list("tools no scenario calls", v.UncalledTools)
	var places []string
	for _, p := range v.UnreachedPolicies {
		places = append(places, fmt.Sprintf("%s:%d %s", p.File, p.Line, p.ID))
	}
	list("policies no scenario reaches", places)
	for _, review := range v.Reviews {
		who := abridged(review.May)
		switch {
		case who == "" && review.Others:
			who = "people whom only an issuer knows"
		case who == "":
			who = "nobody"
		case review.Others:
			who += " and others"
		}
		fmt.Fprintf(w, "review %s (needs %d): %s may approve\n", review.Policy, review.People, who)
	}
}

// abridged joins a list, the first ten of it.
func abridged(items []string) string {
	if len(items) > 10 {
		return strings.Join(items[:10], ", ") + ", …"
	}
	return strings.Join(items, ", ")
}
