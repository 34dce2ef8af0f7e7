package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// explain says what Cedar's validator found wrong with a policy: where, in
// how many tools, and what to write instead. The validator's own errors have
// no place and come once for each tool, so the policy is looked at again; what
// it finds beyond that is passed on in its own words. There is always at least
// one error.
func explain(in lintInput, err error) findings {
	c := check(in)
	out, told := c.mistakes(), map[topic]bool{}
	if c.scopeMatchesNothing() {
		out = append(out, c.emptyScope()...)
		told[topicType] = len(out) > 0
	}
	for _, n := range c.notes {
		told[n.topic] = true
	}
	for _, message := range validatorMessages(err) {
		if t, known := topicOf(message); known && told[t] || len(out.Errors()) > 0 && isScopeMessage(message) {
			continue
		}
		out = append(out, c.located.fault(c.quoted(message), c.translate(message)))
	}
	all := c.lints()
	all.faults = append(out, all.faults...)
	return all
}

// translate says in our words what the validator says of expressions that are
// never evaluated; anything else it leaves as it is.
func (c *checker) translate(message string) string {
	if name, _, ok := cutWords(message, "unrecognized entity type `", "`"); ok {
		return unknownEntityType(c.in.schema, name)
	}
	if name, _, ok := cutWords(message, "unrecognized action `", "`"); ok {
		var uid types.EntityUID
		if err := uid.UnmarshalCedar([]byte(name)); err == nil {
			return c.in.names.unknown(uid)
		}
	}
	return "Cedar's validator: " + message
}

// spot is what one fault is about.
type spot struct {
	e     *expr
	topic topic
}

// mistakes reports what Cedar's validator refuses too.
func (c *checker) mistakes() writ.Faults {
	var out writ.Faults
	missing, optional := map[*expr]*note{}, map[*expr]*note{}
	var attributes []*expr
	first := map[spot]environment{}
	for _, n := range c.notes {
		switch n.topic {
		case topicMissing, topicOptional:
			if missing[n.e] == nil && optional[n.e] == nil {
				attributes = append(attributes, n.e)
			}
			if n.topic == topicMissing {
				missing[n.e] = n
			} else {
				optional[n.e] = n
			}
		case topicOperand, topicComparison, topicLiteral, topicCall, topicTag, topicSet:
			// Elsewhere, the same may be wrong with other types.
			if at := (spot{n.e, n.topic}); first[at] == (environment{}) || first[at] == n.first {
				first[at] = n.first
				out = append(out, c.located.fault(n.e.at, n.message))
			}
		case topicType:
			out = append(out, c.located.fault(n.e.at, c.unknownType(n.e)))
		case topicUndeclared, topicEnum, topicCase, topicNever:
		}
	}
	// An argument that is read in many places is reported at the first.
	said := map[string]bool{}
	for _, e := range attributes {
		message := c.attributeMessage(e, missing[e], optional[e])
		if !said[message] {
			said[message] = true
			out = append(out, c.located.fault(e.at, message))
		}
	}
	return out
}

// unknownType is about an entity literal whose type, or action, isn't there.
func (c *checker) unknownType(e *expr) string {
	literal, _ := e.node.(ast.NodeValue)
	uid, _ := literal.Value.(types.EntityUID)
	if uid.Type == typeAction {
		return c.in.names.unknown(uid)
	}
	return unknownEntityType(c.in.schema, string(uid.Type))
}

func unknownEntityType(s *Schema, name string) string {
	var names []string
	for t := range s.whole.Entities {
		names = append(names, string(t))
	}
	for t := range s.whole.Enums {
		names = append(names, string(t))
	}
	slices.Sort(names)
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("there is no entity type %s; did you mean %s?", name, near)
	}
	return fmt.Sprintf("there is no entity type %s: declare `entity %s;` in schema.cedarschema", name, name)
}

// scopeMatchesNothing reports whether no action in scope has principals and
// resources that the scope allows.
func (c *checker) scopeMatchesNothing() bool {
	for range c.environments() {
		return false
	}
	return true
}

// emptyScope says which part of the scope keeps the policy from ever applying.
func (c *checker) emptyScope() writ.Faults {
	principals, resources := map[types.EntityType]bool{}, map[types.EntityType]bool{}
	for _, class := range c.classes {
		for _, t := range class.applies.Principals {
			principals[t] = true
		}
		for _, t := range class.applies.Resources {
			resources[t] = true
		}
	}
	out := c.emptyPart("principal", c.in.policy.Principal, c.located.principal, principals)
	return append(out, c.emptyPart("resource", c.in.policy.Resource, c.located.resource, resources)...)
}

// emptyPart is about a principal or resource scope that none of the types
// meets.
func (c *checker) emptyPart(variable string, scope ast.IsScopeNode, l locatedScope, have map[types.EntityType]bool) writ.Faults {
	parts, s := partsOf(scope), c.in.schema
	at, named := l.variable, parts.is
	if named != "" {
		at = l.name
	} else if len(l.entities) > 0 {
		at, named = l.entities[0], parts.uid.Type
	}
	sorted := slices.Sorted(maps.Keys(have))
	names := make([]string, len(sorted))
	for i, t := range sorted {
		names[i] = article(string(t))
	}
	what := "the principal"
	if variable == "resource" {
		what = "the resource of these actions"
	}
	if named != "" && !s.declaredType(named) {
		message := unknownEntityType(s, string(named))
		if !strings.HasSuffix(message, "?") {
			message = fmt.Sprintf("there is no entity type %s: %s is always %s", named, what, alternatives(names))
		}
		return writ.Faults{c.located.fault(at, message)}
	}
	if parts.is != "" && parts.in && !s.declaredType(parts.uid.Type) {
		return writ.Faults{c.located.fault(l.entities[0], unknownEntityType(s, string(parts.uid.Type)))}
	}
	if slices.ContainsFunc(sorted, func(t types.EntityType) bool { return s.scopeAllows(parts, t) }) {
		return nil
	}
	message := fmt.Sprintf("%s is always %s, never %s", what, alternatives(names), article(string(named)))
	if parts.equals && slices.ContainsFunc(sorted, func(t types.EntityType) bool { return s.mayBeIn(t, parts.uid.Type) }) {
		message += fmt.Sprintf(": write `%s in %s`", variable, parts.uid)
	} else if parts.in {
		message = fmt.Sprintf("%s is always %s, which is never in %s", what, alternatives(names), article(string(parts.uid.Type)))
	}
	return writ.Faults{c.located.fault(at, message)}
}

// alternatives writes names as a, b or c.
func alternatives(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// validatorMessages returns the validator's distinct messages, each short
// enough to read.
func validatorMessages(err error) []string {
	var out []string
	seen := map[string]bool{}
	var visit func(err error)
	visit = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				visit(e)
			}
			return
		}
		message := strings.TrimSpace(err.Error())
		if len(message) > maxMessage {
			message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
		}
		if !seen[message] && message != "" {
			seen[message] = true
			out = append(out, message)
		}
	}
	visit(err)
	return out
}

const maxMessage = 300

// topics tells which topic a message of the validator is about.
var topics = []struct {
	topic   topic
	message *regexp.Regexp
}{
	{topicMissing, regexp.MustCompile(`^attribute .* not found$`)},
	{topicOptional, regexp.MustCompile(`^unable to guarantee safety of access to optional attribute`)},
	{topicTag, regexp.MustCompile(`^unable to guarantee safety of access to tag`)},
	{topicLiteral, regexp.MustCompile(`^error during extension function argument validation`)},
	{topicCall, regexp.MustCompile(`^(wrong number of arguments|extension constructors may not)`)},
	{topicType, regexp.MustCompile(`^unrecognized`)},
	{topicSet, regexp.MustCompile(`^empty set literals`)},
}

// topicOf returns the topic of a validator's message. Messages about types
// that don't fit can be about any of several, and count as told when anything
// of the kind is.
func topicOf(message string) (topic, bool) {
	for _, t := range topics {
		if t.message.MatchString(message) {
			return t.topic, true
		}
	}
	return 0, false
}

func isScopeMessage(message string) bool {
	return strings.HasPrefix(message, "unable to find an applicable action") ||
		strings.HasPrefix(message, "unexpected type") || strings.HasSuffix(message, "are not compatible")
}

var quotedName = regexp.MustCompile("`([^`]*)`")

// quoted returns where the policy first has what a message quotes; its start
// if it has nothing of it.
func (c *checker) quoted(message string) int {
	for _, m := range quotedName.FindAllStringSubmatch(message, -1) {
		name := m[1][strings.LastIndexByte(m[1], '.')+1:]
		tokens, _ := scan(c.in.text, policyLanguage)
		for _, t := range tokens {
			if text := t.text(c.in.text); text == name || strings.Trim(text, `"`) == strings.Trim(name, `"`) {
				return int(t.start)
			}
		}
	}
	return 0
}
