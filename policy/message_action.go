package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// maxSuggestions bounds how many unknown actions are compared with all the
// others: a bundle that lost a server can have thousands.
const maxSuggestions = 100

// actionNames says which actions may have been meant by ones that aren't
// there.
type actionNames struct {
	schema *Schema
	ids    []string // of all actions and groups, sorted
	said   map[types.EntityUID]string
}

func newActionNames(s *Schema) *actionNames {
	return &actionNames{schema: s, said: map[types.EntityUID]string{}}
}

// unknown says that no tool has an action, and which one has it.
func (a *actionNames) unknown(uid types.EntityUID) string {
	if isRight(uid) {
		return unknownRight(uid)
	}
	hint, ok := a.said[uid]
	if !ok && len(a.said) < maxSuggestions {
		if a.ids == nil {
			for known := range a.schema.covers {
				a.ids = append(a.ids, string(known.ID))
			}
			a.ids = append(a.ids, actionVouch)
			slices.Sort(a.ids)
		}
		hint = a.hint(string(uid.ID))
		a.said[uid] = hint
	}
	return fmt.Sprintf("no tool has action %s%s", uid, hint)
}

func (a *actionNames) known(id string) bool {
	_, ok := slices.BinarySearch(a.ids, id)
	return ok
}

// hint says what the writer of an action's id may have meant. An id is a
// server, S:effect, S/T, S/T#method, approve:S/T, or an effect.
func (a *actionNames) hint(id string) string {
	before, rest := "", id
	if after, ok := strings.CutPrefix(id, groupApprove+":"); ok {
		before, rest = groupApprove+":", after
	}
	server, tail := rest, ""
	if i := strings.IndexAny(rest, ":/"); i >= 0 {
		server, tail = rest[:i], rest[i:]
	}
	if tail != "" && !a.known(server) {
		near := nearest(server, a.servers())
		switch {
		case near != "" && a.known(before+near+tail):
			return "; did you mean " + actionUID(before+near+tail).String() + "?"
		case near != "":
			return fmt.Sprintf(": there is no server %q; did you mean %q?", server, near)
		}
	}
	if tail != "" && a.known(server) {
		return a.hintOf(before, server, tail)
	}
	if near := nearest(id, a.ids); near != "" {
		return "; did you mean " + actionUID(near).String() + "?"
	}
	switch {
	case before != "":
		return fmt.Sprintf(": the approvals of all tools are in %s, those of one tool in %s", actionUID(groupApprove), actionUID(groupApprove+":SERVER/TOOL"))
	case tail == "":
		if found := a.tools(rest); len(found) > 0 {
			return ": write the server too, " + alternatives(found)
		}
		return ""
	}
	return fmt.Sprintf(": there is no server %q", server)
}

// hintOf is hint for what a known server lacks.
func (a *actionNames) hintOf(before, server, tail string) string {
	start := before + server + tail[:1]
	var own []string
	for _, id := range a.ids {
		if rest, ok := strings.CutPrefix(id, start); ok {
			own = append(own, rest)
		}
	}
	if near := nearest(tail[1:], own); near != "" {
		return "; did you mean " + actionUID(start+near).String() + "?"
	}
	if tail[0] == ':' {
		return fmt.Sprintf(": the groups of a server are those of its effects, %s", alternatives(effectGroups(server)))
	}
	return fmt.Sprintf(": server %q has no such tool", server)
}

// servers lists the servers' ids, sorted.
func (a *actionNames) servers() []string {
	var out []string
	for _, id := range a.ids {
		if server, ok := strings.CutSuffix(id, ":"+string(effects[0])); ok {
			out = append(out, server)
		}
	}
	return out
}

// tools lists the actions of the tools called name.
func (a *actionNames) tools(name string) []string {
	var out []string
	for _, id := range a.ids {
		if strings.HasSuffix(id, "/"+name) && !strings.HasPrefix(id, groupApprove+":") && len(out) < maxNamed {
			out = append(out, actionUID(id).String())
		}
	}
	return out
}

func effectGroups(server string) []string {
	var out []string
	for _, e := range effects {
		out = append(out, actionUID(server+":"+string(e)).String())
	}
	return out
}

// covering says which of the groups of an empty one's kind do cover a tool.
func (s *Schema) covering(uid types.EntityUID) string {
	has := func(prefix string) []string {
		var out []string
		for _, e := range effects {
			if len(s.covers[actionUID(prefix+string(e))]) > 0 {
				out = append(out, string(e))
			}
		}
		return out
	}
	id := string(uid.ID)
	if server, _, ok := strings.Cut(id, ":"); ok {
		if some := has(server + ":"); len(some) > 0 {
			return fmt.Sprintf("%s has only %s", server, list(some))
		}
		return fmt.Sprintf("server %s has no tools", server)
	}
	if some := has(""); len(some) > 0 {
		return fmt.Sprintf("the tools of this bundle are only %s", list(some))
	}
	return "the bundle has no tools"
}

// inactive says why a policy's action scope covers no tool.
func (s *Schema) inactive(scope ast.IsActionScopeNode) string {
	var groups []types.EntityUID
	switch scope := scope.(type) {
	case ast.ScopeTypeIn:
		groups = []types.EntityUID{scope.Entity}
	case ast.ScopeTypeInSet:
		groups = scope.Entities
	default:
		return "the bundle has no tools"
	}
	var out []string
	for _, uid := range groups[:min(len(groups), maxNamed)] {
		out = append(out, fmt.Sprintf("%s covers no tool: %s", uid, s.covering(uid)))
	}
	if len(groups) > maxNamed {
		out = append(out, "and so on")
	}
	return strings.Join(out, "; ")
}
