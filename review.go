package writ

import (
	"time"

	"github.com/writ-pdp/writ/canon"
)

// Review is what people are asked to agree to: one proposal, everything in it
// that decides, and what the server holds of what it names. It is rendered by
// the decision that asks for it. Nobody signs anything else than its digest.
//
// Texts in it are claims, or a bundle's: whoever shows them escapes what is
// invisible or changes the direction of writing.
type Review struct {
	// Digest is the [ReviewDigest] of all the rest, but for Revision and for how
	// many have agreed.
	Digest         canon.Digest
	ProposalDigest canon.Digest
	RequestID      string // the proposal's own name
	Caller         string // who proposed

	Principal       Principal
	PrincipalEntity string   // Cedar entity, as text
	Actors          []string // Cedar entities, as text
	Intent          *Intent  // nil: none

	Server, Tool string
	Action       string // Cedar action id
	Effect       Effect
	// Reversible says that what is done can be undone.
	Reversible bool
	// ContractDigest is the version of the tool's contract, with its definition.
	ContractDigest canon.Digest
	Retries        canon.Digest // of the proposal that this one tries again; zero: none

	Entities  []ReviewEntity   // the targets, then the others that arguments name
	Arguments []ReviewArgument // in the contract's order
	// ExtraParamsJSON holds the call's parameters beside its arguments, in
	// canonical form; empty: none.
	ExtraParamsJSON string
	Policies        []ReviewPolicy // those that ask, in order of file and position

	Revision string // of the world that it was rendered in
}

// ReviewEntity is one entity that a call names.
type ReviewEntity struct {
	Entity   string // Cedar entity, as text
	Argument string // JSON Pointer to what names it (RFC 6901); empty: the tool itself
	Target   bool   // the call is about it
	// Held says that the bundle holds it, or that there is nothing to be held: a
	// Path, a Host, a Url, an Email, the Tool. Otherwise it is new, and nothing is
	// known of it.
	Held bool
	// Attributes, Tags and Parents are what the bundle holds of it, as Cedar text.
	Attributes, Tags map[string]string
	Parents          []string // sorted
}

// ReviewArgument is one value that decides.
type ReviewArgument struct {
	Pointer   string // JSON Pointer into the arguments (RFC 6901)
	ValueJSON string // in canonical form; empty: it is absent, or withheld as a Warning says
	Sources   []ReviewSource
	// NeedsSupport says that the contract wants sources for the value; Supported,
	// that a source for whose kind the caller may vouch was seen to agree.
	NeedsSupport, Supported bool
	// Warnings are sentences about what a person should look at twice.
	Warnings []string
}

// ReviewSource is one observation of a value.
type ReviewSource struct {
	Kind           SourceKind
	Reference      string
	Classification string // empty: unclassified
	ObservedAt     time.Time
	Trusted        bool // the caller may vouch for such sources
	Agrees         bool // the observed value is the argument's
}

// ReviewPolicy is one policy that asks.
type ReviewPolicy struct {
	ID      string
	Code    Code     // that its @code names; empty: none
	Explain string   // for people; empty: it says nothing
	People  int      // how many must agree
	Targets []string // those that it asks about: Cedar entities, as text
	// Agreed is how many distinct people have, by approvals that count now.
	Agreed int
}

// reviewDigestType is the "type" member of what [ReviewDigest] digests.
const reviewDigestType = "writ.review.v1"

// ReviewDigest is the digest of one review as it is shown: what an approval
// binds. It is over the RFC 8785 form of
//
//	{"type":            "writ.review.v1",
//	 "proposal_digest": "sha256:…",
//	 "request_id":      …,
//	 "caller":          …,
//	 "principal":       {"iss", "sub", "tenant", "entity"},
//	 "actors":          [entity],
//	 "intent":          {"id", "purpose", "declared_at", "expires_at"} or null,
//	 "server": …, "tool": …, "action": …, "effect": …, "reversible": …,
//	 "contract_digest": "sha256:…",
//	 "retries":         "sha256:…" or "",
//	 "entities":        [{"entity", "argument", "target", "held", "attributes", "tags", "parents"}],
//	 "arguments":       [{"pointer", "value", "sources": [{"kind", "reference", "classification",
//	                      "observed_at", "trusted", "agrees"}], "needs_support", "supported", "warnings"}],
//	 "extra_params":    …,
//	 "policies":        [{"id", "code", "explain", "people", "targets"}]}
//
// Every member is there, and values stand in it as text. Times are RFC 3339 in
// UTC. When any of it changes, so does the digest, and approvals of the review
// that was are stale. Without a proposal's digest there is none of a review:
// the result is the zero Digest.
func ReviewDigest(r *Review) canon.Digest {
	if r == nil || r.ProposalDigest.IsZero() {
		return canon.Digest{}
	}
	entities := make([]any, len(r.Entities))
	for i := range r.Entities {
		e := &r.Entities[i]
		entities[i] = map[string]any{
			"entity": e.Entity, "argument": e.Argument, "target": e.Target, "held": e.Held,
			"attributes": texts(e.Attributes), "tags": texts(e.Tags), "parents": e.Parents,
		}
	}
	arguments := make([]any, len(r.Arguments))
	for i := range r.Arguments {
		a := &r.Arguments[i]
		sources := make([]any, len(a.Sources))
		for k := range a.Sources {
			s := &a.Sources[k]
			sources[k] = map[string]any{
				"kind": string(s.Kind), "reference": s.Reference, "classification": s.Classification,
				"observed_at": timeText(s.ObservedAt), "trusted": s.Trusted, "agrees": s.Agrees,
			}
		}
		arguments[i] = map[string]any{
			"pointer": a.Pointer, "value": a.ValueJSON, "sources": sources,
			"needs_support": a.NeedsSupport, "supported": a.Supported, "warnings": a.Warnings,
		}
	}
	policies := make([]any, len(r.Policies))
	for i := range r.Policies {
		p := &r.Policies[i]
		policies[i] = map[string]any{"id": p.ID, "code": string(p.Code), "explain": p.Explain, "people": p.People, "targets": p.Targets}
	}
	var intent any
	if in := r.Intent; in != nil {
		intent = map[string]any{
			"id": in.ID, "purpose": in.Purpose, "declared_at": timeText(in.DeclaredAt), "expires_at": timeText(in.ExpiresAt),
		}
	}
	return canon.Sum(canon.Append(nil, map[string]any{
		"type": reviewDigestType, "proposal_digest": r.ProposalDigest.String(), "request_id": r.RequestID, "caller": r.Caller,
		"principal": map[string]any{
			"iss": r.Principal.Issuer, "sub": r.Principal.Subject, "tenant": r.Principal.Tenant, "entity": r.PrincipalEntity,
		},
		"actors": r.Actors, "intent": intent,
		"server": r.Server, "tool": r.Tool, "action": r.Action, "effect": string(r.Effect), "reversible": r.Reversible,
		"contract_digest": r.ContractDigest.String(), "retries": r.Retries.String(),
		"entities": entities, "arguments": arguments, "extra_params": r.ExtraParamsJSON, "policies": policies,
	}))
}

func texts(m map[string]string) map[string]any {
	values := make(map[string]any, len(m))
	for k, v := range m {
		values[k] = v
	}
	return values
}

// timeText is t as digests have it; empty: the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
