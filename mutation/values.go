package mutation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
)

// change is another value of an argument.
type change struct {
	name  string
	value any
	code  writ.Code // what must answer if the schema takes it; empty: policies decide
}

// values changes the value of a top-level argument of type t.
func (g *proposalMutator) values(f *contract.Field, value any) []change {
	out := g.changes(f.Type, value)
	if r := g.contract.Resource; r != nil && r.Entity != "" && r.ID == "{"+f.Name+"}" && f.Type.Kind == contract.String {
		text, _ := value.(string)
		if other, ok := another(g.world.Entities.IDs(types.EntityType(r.Entity)), text); ok {
			out = append(out, change{"another " + r.Entity + " of the bundle", other, ""})
		}
	}
	return out
}

// changes changes a value of type t in every place.
func (g *proposalMutator) changes(t *contract.Type, value any) []change {
	switch v := value.(type) {
	case string:
		return g.texts(t, v)
	case bool:
		return []change{{"the other of true and false", !v, ""}}
	case json.Number:
		return numbers(t, v)
	case []any:
		return g.elements(t, v)
	case map[string]any:
		var out []change
		if t.Kind != contract.Record {
			return []change{{"emptied", map[string]any{}, ""}}
		}
		for i := range t.Fields {
			f := &t.Fields[i]
			inner, ok := v[f.Name]
			if !ok {
				continue
			}
			for _, c := range g.changes(f.Type, inner) {
				changed := deep(v).(map[string]any)
				changed[f.Name] = c.value
				out = append(out, change{f.Name + ": " + c.name, changed, c.code})
			}
		}
		return out
	}
	return nil
}

func (g *proposalMutator) texts(t *contract.Type, v string) []change {
	if len(t.Enum) > 0 && t.Kind == contract.String {
		var out []change
		for _, e := range t.Enum {
			if e != v {
				out = append(out, change{"enum value " + e, e, ""})
			}
		}
		return out
	}
	out := []change{{"text changed", v + "x", ""}}
	if t.Kind != contract.Entity {
		return out
	}
	switch t.Entity {
	case contract.PathType:
		out = append(out, change{"a path that climbs out", strings.TrimSuffix(v, "/") + "/../../../../../../etc/passwd", writ.CodeTargetOutOfBounds})
		if t.Role != nil && len(t.Role.Within) > 0 {
			out = append(out, change{"a path outside", "/writ-mutant/x", writ.CodeTargetOutOfBounds})
		} else {
			out = append(out, change{"a path elsewhere", "/writ-mutant/x", ""})
		}
	case contract.HostType:
		out = append(out, change{"another host", "writ-mutant.example", ""})
	case contract.URLType:
		out = append(out, change{"another host", "https://writ-mutant.example/", ""})
	case contract.EmailType:
		out = append(out, change{"another address", "mutant@writ-mutant.example", ""})
	default:
		out = nil
		if t.BoundTo != "" {
			out = g.handles(t, v)
		} else if other, ok := another(g.world.Entities.IDs(t.Entity), v); ok {
			out = append(out, change{"another " + string(t.Entity) + " of the bundle", other, ""})
		}
		unknown := change{"an unknown " + string(t.Entity), "writ-mutant", writ.CodeTargetUnknown}
		if t.MayBeNew {
			unknown.code = ""
		}
		out = append(out, unknown)
	}
	return out
}

// handles are the first entity of the bundle that is the principal's own, and
// the first that is not: that one must be unknown.
func (g *proposalMutator) handles(t *contract.Type, v string) []change {
	p := &g.of.Proposal
	var claims map[string]string
	if p.Token != nil {
		claims = p.Token.Claims
	}
	issuer := g.world.Issuers[p.Principal.Issuer]
	if issuer == nil {
		return nil
	}
	who, err := issuer.Principal.Entity(p.Principal.Subject, claims)
	if err != nil {
		return nil
	}
	var out []change
	own, foreign := false, false
	for _, id := range g.world.Entities.IDs(t.Entity) {
		if id == v || own && foreign {
			continue
		}
		e, held := g.world.Entities.Get(types.NewEntityUID(t.Entity, types.String(id)), g.of.Now)
		owner, _ := e.Attributes.Get(types.String(t.BoundTo))
		set, _ := owner.(types.Set)
		switch {
		case !held:
		case owner == types.Value(who) || set.Contains(who):
			if !own {
				out = append(out, change{"another " + string(t.Entity) + " of one's own", id, ""})
			}
			own = true
		default:
			if !foreign {
				out = append(out, change{"somebody else's " + string(t.Entity), id, writ.CodeTargetUnknown})
			}
			foreign = true
		}
	}
	return out
}

// numbers steps a number up and down, and far away.
func numbers(t *contract.Type, v json.Number) []change {
	if t.Kind != contract.Decimal {
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n > 1<<50 || n < -1<<50 {
			return []change{{"zero", json.Number("0"), ""}}
		}
		number := func(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }
		return []change{{"one more", number(n + 1), ""}, {"one less", number(n - 1), ""}, {"far more", number(n*1000 + 1_000_000), ""}, {"its negative", number(-n - 1), ""}}
	}
	text := string(v)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	n, ok := tenThousandths(text)
	if !ok || n > 1<<45 || n < -1<<45 {
		return []change{{"zero", json.Number("0"), ""}}
	}
	number := func(n int64) any {
		v, err := canon.Parse([]byte(decimalText(n)))
		if err != nil {
			return json.Number("0")
		}
		return v
	}
	return []change{
		{"one step more", number(n + 100), ""}, {"one step less", number(n - 100), ""},
		{"far more", number(n*1000 + 10_000_000_000), ""}, {"its negative", number(-n - 100), ""},
	}
}

// elements changes a list: one element less, one more, and the first one.
func (g *proposalMutator) elements(t *contract.Type, v []any) []change {
	var out []change
	if len(v) > 0 {
		out = append(out, change{"an element removed", without(v, len(v)-1), ""})
		more := any("writ-mutant")
		switch first := v[0].(type) {
		case json.Number:
			more = json.Number("4711")
		case bool:
			more = !first
		case map[string]any, []any:
			more = deep(first)
		}
		out = append(out, change{"an element added", append(slices.Clone(v), more), ""})
		if t.Elem != nil {
			for _, c := range g.changes(t.Elem, v[0]) {
				out = append(out, change{"first element: " + c.name, replaced(v, 0, c.value), c.code})
			}
		}
	}
	return out
}

// lookalike is a name that folds to name; empty: there is none.
func lookalike(name string) string {
	for i, r := range name {
		for _, other := range []rune{unicode.ToUpper(r), unicode.ToLower(r)} {
			if other != r && r < unicode.MaxASCII {
				return name[:i] + string(other) + name[i+1:]
			}
		}
	}
	return ""
}

// otherType is a value of another JSON type.
func otherType(v any) any {
	switch v.(type) {
	case string:
		return json.Number("7")
	case []any:
		return map[string]any{}
	case map[string]any:
		return []any{}
	}
	return "writ-mutant"
}

// strangerOf is an entity that nobody holds, as a template would name it.
func strangerOf(t types.EntityType, prefix string) types.EntityUID {
	return types.NewEntityUID(t, types.String(prefix+stranger))
}

// present reports whether a pointer leads to a value in args.
func present(args map[string]any, pointer string) bool {
	var v any = args
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch at := v.(type) {
		case map[string]any:
			inner, ok := at[token]
			if !ok {
				return false
			}
			v = inner
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return false
			}
			v = at[i]
		default:
			return false
		}
	}
	return true
}

// evidence takes away, weakens and spoils the support of each value that
// needs some.
func (g *proposalMutator) evidence() {
	args, _ := canon.ParseObject(g.of.Proposal.ArgumentsJSON)
	caller := g.world.Callers[g.of.Caller]
	for _, p := range g.contract.EvidencePointers() {
		if !present(args, p) {
			continue
		}
		line := g.contract.Evidence[p]
		each := func(name string, change func(*writ.Evidence), code writ.Code) *proposalMutant {
			return g.add("evidence of "+p+": "+name, func(m *proposalMutant) {
				for i := range m.proposal.Evidence {
					if m.proposal.Evidence[i].Argument == p {
						change(&m.proposal.Evidence[i])
					}
				}
			}, code)
		}
		alone := func(name string, kind writ.SourceKind) {
			code := writ.CodeUntrustedSoleSource
			m := g.add("evidence of "+p+": "+name, func(m *proposalMutant) {
				first := -1
				for i, e := range m.proposal.Evidence {
					if e.Argument == p && first < 0 {
						first = i
					}
				}
				if first < 0 {
					return
				}
				one := m.proposal.Evidence[first]
				one.Kind = kind
				m.proposal.Evidence = append(slices.DeleteFunc(m.proposal.Evidence, func(e writ.Evidence) bool { return e.Argument == p }), one)
			})
			if slices.Contains(line.From, kind) && caller.VouchesFor(kind) {
				if code = writ.CodeEvidenceMissing; line.Independent <= 1 {
					m.free = true
				}
			}
			m.codes = []writ.Code{code}
		}
		g.add("evidence of "+p+": removed", func(m *proposalMutant) {
			m.proposal.Evidence = slices.DeleteFunc(m.proposal.Evidence, func(e writ.Evidence) bool { return e.Argument == p })
		}, writ.CodeUntrustedSoleSource)
		alone("from a document only", writ.SourceDocument)
		alone("from a model only", writ.SourceModel)
		each("of another value", func(e *writ.Evidence) { e.ValueJSON = []byte(`"writ-mutant"`) }, writ.CodeUntrustedSoleSource)
		if line.Fresh > 0 {
			each("stale", func(e *writ.Evidence) { e.ObservedAt = g.of.Now.Add(-line.Fresh - time.Second) }, writ.CodeEvidenceStale)
			each("from the future", func(e *writ.Evidence) { e.ObservedAt = g.of.Now.Add(time.Hour) }, writ.CodeEvidenceStale)
		}
		if line.Independent > 1 {
			each("all derived from one source", func(e *writ.Evidence) { e.DerivedFrom = []string{"writ:mutant"} }, writ.CodeEvidenceMissing)
		}
	}
	if len(g.contract.Server.Classifications) == 0 || !slices.Contains(g.contract.Server.Classifications, stranger) {
		if len(g.of.Proposal.Evidence) > 0 {
			g.add("evidence classified as what the server may not have", func(m *proposalMutant) {
				m.proposal.Evidence[0].Classification = stranger
			}, writ.CodeClassificationDenied)
		}
	}
}

// approvals takes away and spoils the agreement of people, where it is needed.
func (g *proposalMutator) approvals() {
	if len(g.of.Approvers) == 0 {
		return
	}
	asked := g.decide(g.world.Callers[g.of.Caller], &g.of.Proposal, g.of.Now)
	if asked.Outcome != writ.ReviewRequired {
		g.skip("approvals", "nobody needs to agree")
		return
	}
	need := 0
	for _, p := range asked.Policies {
		need = max(need, p.Review)
	}
	signed := func(name string, change func(m *proposalMutant), codes ...writ.Code) *proposalMutant {
		m := g.add("approval "+name, func(m *proposalMutant) {
			g.sign(&m.proposal, g.of, asked)
			change(m)
		}, codes...)
		m.unasked = true
		return m
	}
	each := func(change func(a *writ.Approval)) func(m *proposalMutant) {
		return func(m *proposalMutant) {
			for i := range m.proposal.Approvals {
				change(&m.proposal.Approvals[i])
			}
		}
	}
	signed("by nobody", func(m *proposalMutant) { m.proposal.Approvals = nil }, writ.CodeApprovalRequired)
	for i, who := range g.of.Approvers {
		if len(g.of.Approvers) > need {
			g.skip(fmt.Sprintf("approval without %s", who), "more people agreed than are needed")
			continue
		}
		signed(fmt.Sprintf("without %s", who), func(m *proposalMutant) {
			m.proposal.Approvals = without(m.proposal.Approvals, i)
		}).reviewed = true
		signed(fmt.Sprintf("by the principal in place of %s", who), func(m *proposalMutant) {
			m.proposal.Approvals[i].Approver = m.proposal.Principal
			m.proposal.Approvals[i].Claims = nil
			if m.proposal.Token != nil {
				m.proposal.Approvals[i].Claims = m.proposal.Token.Claims
			}
		}).reviewed = true
	}
	signed("of another review", each(func(a *writ.Approval) { a.ReviewDigest[0] ^= 1 }), writ.CodeStaleApproval)
	signed("of another proposal", each(func(a *writ.Approval) { a.ProposalDigest[0] ^= 1 }), writ.CodeStaleApproval)
	signed("used for another request", func(m *proposalMutant) { m.proposal.RequestID += "-again" }, writ.CodeStaleApproval)
	signed("expired", each(func(a *writ.Approval) { a.ExpiresAt = g.of.Now })).reviewed = true
	signed("forged", each(func(a *writ.Approval) { a.Forged = true }), writ.CodeApprovalInvalid)
}
