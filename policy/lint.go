package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// lint finds rules that could never fire, or that let through what their
// author can't have meant to, in a policy that Cedar's validator accepts.
func lint(in lintInput) findings { return check(in).lints() }

// findings are what is found of one policy.
type findings struct {
	faults writ.Faults   // whatever else the bundle holds
	named  []namedEntity // which may or may not be there
	// inactive says that the policy's action scope covers no tool.
	inactive bool
}

// lints reports what the validator accepts.
func (c *checker) lints() findings {
	spelling := c.scopeSpelling()
	out := slices.Concat(spelling, c.scopeBounds(), c.targetlessCalls(), c.positiveGuards(), c.strangers())
	explained, wrong := map[*expr]bool{}, map[*expr]bool{} // in which a lint is reported, and anything
	mark := func(in map[*expr]bool, e *expr) {
		for ; e != nil; e = c.parents[e] {
			in[e] = true
		}
	}
	spelt := map[int]bool{} // where an entity's case is what is wrong with it
	if len(spelling) > 0 {
		spelt[c.located.resource.entities[0]] = true
	}
	for _, n := range c.notes {
		if n.topic <= lastMistake {
			mark(wrong, n.e)
			continue
		}
		merged := c.everywhere(n)
		if merged == nil {
			continue
		}
		if message := c.lintMessage(merged); message != "" {
			out = append(out, c.located.fault(c.placeOf(n), message))
			mark(wrong, n.e)
			mark(explained, n.e)
			spelt[n.e.at] = spelt[n.e.at] || n.topic == topicCase
		}
	}
	named, abnormal := c.names(spelt)
	return findings{
		faults: slices.Concat(out, c.contradictions(wrong, explained), abnormal, c.constants(explained)),
		named:  named,
	}
}

// placeOf returns where a note belongs.
func (c *checker) placeOf(n *note) int {
	switch n.e.node.(type) {
	case ast.NodeTypeLike, ast.NodeTypeIs, ast.NodeTypeIsIn: // the pattern or the type
		return n.e.name
	}
	return n.e.at
}

// everywhere returns all notes like n, put together, if there is one for each
// environment in which the expression is looked at, and n is the first of
// them. Where a rule could fire for one tool, it may be there for that tool.
func (c *checker) everywhere(n *note) *note {
	all := newNote(n.topic, n.e, n.message)
	for _, other := range c.notes {
		if other.e != n.e || other.topic != n.topic {
			continue
		}
		if all.envs == 0 && other != n {
			return nil
		}
		all.envs += other.envs
		maps.Copy(all.classes, other.classes)
		maps.Copy(all.owners, other.owners)
		maps.Copy(all.words, other.words)
		if all.order == nil {
			all.order = other.order
		}
		if other.strong {
			all.message = other.message
		}
	}
	if all.envs < c.reached[n.e] {
		return nil
	}
	return all
}

func (c *checker) lintMessage(n *note) string {
	words := slices.Sorted(maps.Keys(n.words))
	if len(n.order) == len(words) {
		words = n.order
	}
	switch n.topic {
	case topicUndeclared:
		return c.attributeMessage(n.e, n, nil)
	case topicEnum:
		return outsideEnum(n.e, n.message, words)
	case topicCase:
		if _, ok := n.e.node.(ast.NodeTypeLike); ok {
			return "policies see " + n.message + " in lower case, so that this pattern never matches: write " + list(words)
		}
		return wrongCase(list(words))
	case topicNever:
		if len(n.owners) > 0 {
			return noTags(slices.Sorted(maps.Keys(n.owners))...)
		}
		return n.message
	}
	return ""
}

// maxWords is how many of an enum's values a message lists.
const maxWords = 12

// outsideEnum says that a literal isn't one of words; with what, in these
// words.
func outsideEnum(e *expr, what string, words []string) string {
	text := ""
	switch n := e.node.(type) {
	case ast.NodeTypeLike:
		text = string(n.Value.MarshalCedar())
	case ast.NodeValue:
		text = string(n.Value.MarshalCedar())
		if uid, ok := n.Value.(types.EntityUID); ok && what == "" {
			text = string(uid.ID.MarshalCedar())
		}
	}
	near := backquoted(nearest(strings.Trim(text, `"`), words))
	if what != "" {
		return text + " " + what + near
	}
	shown := slices.Clone(words)
	if len(words) > maxWords {
		shown = append(shown[:maxWords], "…")
	}
	if i := slices.Index(shown, ""); i >= 0 {
		shown[i] = `""`
	}
	verb := "is not one of"
	if _, like := e.node.(ast.NodeTypeLike); like {
		verb = "matches none of"
	}
	return fmt.Sprintf("%s %s %s%s", text, verb, strings.Join(shown, ", "), near)
}

// constants reports conditions with which the policy never applies, and warns
// of those that are always true.
func (c *checker) constants(explained map[*expr]bool) writ.Faults {
	var out writ.Faults
	for i, condition := range c.located.conditions {
		truth := c.bodies[i]
		if truth.of == 0 || explained[condition.body] {
			continue
		}
		never, always := truth.never == truth.of, truth.always == truth.of
		if condition.unless {
			never, always = always, never
		}
		switch {
		case never && condition.unless:
			out = append(out, c.located.fault(condition.at, "this `unless` is always true, so that the policy never applies"))
		case never:
			out = append(out, c.located.fault(condition.at, "this `when` is never true, so that the policy never applies"))
		case always:
			f := c.located.fault(condition.at, "this condition changes nothing: it holds for every call in the policy's scope")
			f.Severity = writ.Warning
			out = append(out, f)
		}
	}
	return out
}
