package contract

import (
	"time"

	"github.com/writ-pdp/writ/canon"
)

// digest returns the digest of everything declared that can change a decision
// about c, over one object in canonical form. It reads the effective values, so
// that what is spelled out and what is left to a default are one. Sets are
// sorted; lists whose order means something are not.
func digest(c *Contract, typed map[string]Argument, absent map[string]any) canon.Digest {
	s := c.Server
	return canon.Sum(canon.Append(nil, map[string]any{
		"type":       "writ.contract.v1",
		"definition": c.Tool.Digest.String(),
		"server": object(
			"id", s.ID, "endpoint", s.Endpoint, "package_hash", s.PackageHash, "audience", s.Audience, "version", s.Version,
			"redeemed_by", s.RedeemedBy, "token_required", s.TokenRequired,
			"proof_of_possession", said(s.ProofOfPossession),
			"valid", windowValue(s.Valid),
			"classifications", texts(s.Classifications), "purposes", texts(s.Purposes)),
		"tool": object(
			"valid", windowValue(c.Valid),
			"effect", string(c.Effect), "reversible", c.Reversible, "scope", c.Scope, "intent_required", c.IntentRequired,
			"method_argument", c.MethodArgument, "methods", methodsValue(c.Methods),
			"resource", resourceValue(c.Resource),
			"opaque", texts(c.Opaque), "arguments", argumentsValue(typed), "when_absent", absent,
			"evidence", evidenceValue(c.Evidence), "review_shows", texts(c.ReviewShows),
			"loggable", texts(c.Loggable), "secret", texts(c.Secret),
			"postconditions", postconditionsValue(c.Postconditions),
			"on_change", c.OnChange, "decide_at", c.DecideAt, "grant", c.Grant, "undeclared_allowed", c.UndeclaredAllowed),
	}))
}

// object makes an object of pairs, without those that say nothing.
func object(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		switch v := pairs[i+1].(type) {
		case nil:
		case string:
			if v != "" {
				m[pairs[i].(string)] = v
			}
		case []any:
			if len(v) > 0 {
				m[pairs[i].(string)] = v
			}
		case map[string]any:
			if len(v) > 0 {
				m[pairs[i].(string)] = v
			}
		default:
			m[pairs[i].(string)] = v
		}
	}
	return m
}

func windowValue(w *Window) map[string]any {
	if w == nil {
		return nil
	}
	bound := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return object("from", bound(w.From), "until", bound(w.Until))
}

// said is true, or nothing: for what is new and mostly not asked for.
func said(b bool) any {
	if b {
		return true
	}
	return nil
}

func texts[S ~string](list []S) []any {
	values := make([]any, len(list))
	for i, s := range list {
		values[i] = string(s)
	}
	return values
}

func textMap(m map[string]string) map[string]any {
	values := make(map[string]any, len(m))
	for k, v := range m {
		values[k] = v
	}
	return values
}

func methodsValue(methods map[string]MethodRule) map[string]any {
	values := make(map[string]any, len(methods))
	for name, m := range methods {
		values[name] = object("effect", string(m.Effect), "reversible", m.Reversible, "scope", m.Scope)
	}
	return values
}

func resourceValue(r *Resource) map[string]any {
	if r == nil {
		return nil
	}
	letters := r.Case
	if r.Path != nil {
		letters = first(letters, "sensitive")
	}
	return object(
		"entity", r.Entity, "id", r.ID, "in", textMap(r.In), "fold", r.Fold, "may_be_new", r.MayBeNew,
		"path", texts(r.Path), "host", texts(r.Host), "url", texts(r.URL), "email", texts(r.Email),
		"within", texts(r.Within), "base", r.Base, "case", letters)
}

func argumentsValue(typed map[string]Argument) map[string]any {
	values := make(map[string]any, len(typed))
	for name, a := range typed {
		values[name] = object("entity", a.Entity, "may_be_new", a.MayBeNew, "long", a.Long, "bound_to", a.BoundTo)
	}
	return values
}

func evidenceValue(lines map[string]EvidenceLine) map[string]any {
	values := make(map[string]any, len(lines))
	for pointer, e := range lines {
		values[pointer] = object("from", texts(e.From), "fresh", e.Fresh.String(), "independent", e.Independent)
	}
	return values
}

func postconditionsValue(p *Postconditions) map[string]any {
	if p == nil {
		return nil
	}
	checks := make([]any, len(p.Checks))
	for i, c := range p.Checks {
		value := object("at", c.At, "equals", c.Equals, "in", c.In, "tolerance", c.Tolerance)
		if c.Present != nil {
			value["present"] = *c.Present
		}
		checks[i] = value
	}
	return object("observer", p.Observer, "tool", p.Tool, "within", p.Within.String(), "checks", checks)
}
