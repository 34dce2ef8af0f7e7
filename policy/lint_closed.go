package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
)

// Much of what Writ itself tells policies is one of few values: weekdays,
// effects, kinds of sources, pointers to arguments, the tools of a policy's own
// scope. A literal outside such a set is a mistake, like one outside an
// argument's enum, though to Cedar it is any text or number.

// closed is a closed set of values, and what is known of their parts.
type closed struct {
	// words are all texts, or ids of entities, that there are; nil: any, unless
	// admits says otherwise.
	words []string
	// admits reports whether there is a text, where words are only what to
	// suggest.
	admits func(text string) bool
	// what goes on after a literal that isn't in the set; empty: "is not one of"
	// and the words.
	what string
	// hour says that these are hours, 0 to 23.
	hour   bool
	elem   *closed // of a set
	fields map[types.String]*closed
}

// has reports whether the set has a text.
func (s *closed) has(text string) bool {
	switch {
	case s == nil:
		return true
	case s.admits != nil:
		return s.admits(text)
	}
	return s.words == nil || slices.Contains(s.words, text)
}

func (s *closed) field(name types.String) *closed {
	if s == nil {
		return nil
	}
	return s.fields[name]
}

var weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

const lastHour = 23

var (
	closedLocal = &closed{fields: map[types.String]*closed{
		"weekday": {words: weekdays},
		"hour":    {hour: true},
	}}
	closedEffects = &closed{words: effectWords()}
)

func effectWords() []string {
	var out []string
	for _, e := range effects {
		out = append(out, string(e))
	}
	return out
}

func sourceWords() []string {
	var out []string
	for _, kind := range writ.SourceKinds {
		out = append(out, string(kind))
	}
	return out
}

// member returns what is known of a member of the context in a class; nil:
// nothing.
func (of *class) member(name types.String) *closed {
	if known, ok := of.closed[name]; ok {
		return known
	}
	var made *closed
	switch name {
	case "local":
		made = closedLocal
	case "tool":
		made = &closed{words: of.tools, what: "is the tool of no call in this policy's scope"}
	case "purpose":
		made = of.purposes()
	case "intent":
		made = &closed{fields: map[types.String]*closed{"purpose": of.purposes()}}
	case "classifications":
		made = &closed{elem: of.classifications()}
	case "unsupported":
		made = &closed{elem: of.pointers(true)}
	case "unknown":
		made = &closed{elem: of.pointers(false)}
	case "evidence":
		classification := *of.classifications()
		classification.words = append([]string{""}, classification.words...)
		classification.what = ""
		made = &closed{elem: &closed{fields: map[types.String]*closed{
			"argument": of.pointers(false), "kind": {words: sourceWords()}, "classification": &classification,
		}}}
	}
	if of.closed == nil {
		of.closed = map[types.String]*closed{}
	}
	of.closed[name] = made
	return made
}

// toolMember returns what is known of an attribute of the call's own tool.
func (of *class) toolMember(name types.String) *closed {
	names, servers := map[string]bool{}, map[string]bool{}
	switch name {
	case "name":
		for _, c := range of.contracts {
			names[c.Tool.Name] = true
		}
		return &closed{words: slices.Sorted(maps.Keys(names)), what: "is the name of no tool in this policy's scope"}
	case "server":
		for _, c := range of.contracts {
			servers[c.Server.ID] = true
		}
		return &closed{words: slices.Sorted(maps.Keys(servers)), what: "has no tool in this policy's scope"}
	}
	return nil
}

// purposes are those that calls can have: DATA_FLOW refuses any other where a
// server lists its own.
func (of *class) purposes() *closed {
	all := map[string]bool{}
	for _, c := range of.contracts {
		if len(c.Server.Purposes) == 0 {
			return nil
		}
		for _, purpose := range c.Server.Purposes {
			all[purpose] = true
		}
	}
	return &closed{words: slices.Sorted(maps.Keys(all)), what: "is no purpose that the servers of this policy's scope declare"}
}

// classifications are those that evidence can have: DATA_FLOW refuses any
// that the server isn't entitled to.
func (of *class) classifications() *closed {
	all := map[string]bool{}
	for _, c := range of.contracts {
		for _, classification := range c.Server.Classifications {
			all[classification] = true
		}
	}
	return &closed{
		words: append([]string{}, slices.Sorted(maps.Keys(all))...),
		what:  "is no classification that the servers of this policy's scope declare, and calls with any other are denied before policies are asked",
	}
}

// pointers are the JSON Pointers (RFC 6901) to arguments of the class's tools;
// with top, only those to whole arguments.
func (of *class) pointers(top bool) *closed {
	suggested := map[string]bool{}
	for _, c := range of.contracts {
		suggestPointers(suggested, "", c.Arguments, top)
	}
	what := "points to no argument of a tool in this policy's scope"
	if top {
		what = "points to no whole argument of a tool in this policy's scope"
	}
	return &closed{words: slices.Sorted(maps.Keys(suggested)), what: what, admits: func(text string) bool {
		return slices.ContainsFunc(of.contracts, func(c *contract.Contract) bool { return pointsTo(c, text, top) })
	}}
}

func suggestPointers(into map[string]bool, parent string, t *contract.Type, top bool) {
	if t == nil || t.Kind != contract.Record {
		return
	}
	for _, f := range t.Fields {
		pointer := string(canon.AppendPointer([]byte(parent), f.Name))
		into[pointer] = true
		if !top {
			suggestPointers(into, pointer, f.Type, top)
		}
	}
}

var pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")

// pointsTo reports whether a JSON Pointer can lead to an argument in calls of
// a contract. What is below an opaque argument isn't known.
func pointsTo(c *contract.Contract, pointer string, top bool) bool {
	steps := strings.Split(pointer, "/")
	if len(steps) < 2 || steps[0] != "" || top && len(steps) > 2 {
		return false
	}
	t := c.Arguments
	for i, step := range steps[1:] {
		if t == nil {
			return c.UndeclaredAllowed
		}
		switch t.Kind {
		case contract.Record:
			f := t.Field(pointerUnescapes.Replace(step))
			if f == nil {
				return i == 0 && c.UndeclaredAllowed
			}
			t = f.Type
		case contract.Set:
			if !isDigits(step) || len(step) > 1 && step[0] == '0' {
				return false
			}
			t = t.Elem
		case contract.Opaque:
			return true
		default:
			return false
		}
	}
	return true
}

// outside notes what a value of type t, to which a literal is compared, can
// never be.
func (c *checker) outside(literal *expr, t typ) {
	v, _ := literal.node.(ast.NodeValue)
	switch v := v.Value.(type) {
	case types.String:
		if !t.closed.has(string(v)) {
			c.outsideNote(literal, t.closed)
		}
	case types.Long:
		if t.closed != nil && t.closed.hour && (v < 0 || v > lastHour) {
			c.outsideNote(literal, &closed{words: []string{}, what: "is no hour: there are 0 to 23"})
		}
	case types.EntityUID:
		_, there := c.in.schema.Static(v)
		switch {
		case v.Type == typeAction && c.in.schema.contract(v) == nil && (!isRight(v) || v.ID == groupMethods):
			c.note(topicNever, literal, fmt.Sprintf("%s is a group of actions, which no call is itself: write `action in %s`", v, v))
		case there && !t.closed.has(string(v.ID)): // if it isn't there, its name is wrong
			c.outsideNote(literal, &closed{words: []string{}, what: t.closed.what})
		}
	}
}

func (c *checker) outsideNote(literal *expr, of *closed) {
	n := c.note(topicEnum, literal, of.what)
	if n.order == nil {
		n.order = of.words
	}
	for _, word := range of.words {
		n.words[word] = true
	}
}

// parts looks for literals inside a set or a record that is compared with a
// value of type t.
func (c *checker) parts(e *expr, t typ) {
	switch n := e.node.(type) {
	case ast.NodeTypeSet:
		if elem, ok := t.elem(); ok {
			for _, literal := range e.args {
				c.allowed(literal, elem)
			}
		}
	case ast.NodeTypeRecord:
		record, _ := t.t.(resolved.RecordType)
		for i, member := range n.Elements {
			attribute, there := record[member.Key]
			if !there {
				continue
			}
			part := typ{t: attribute.Type, closed: t.closed.field(member.Key)}
			if t.c != nil && t.c.Kind == contract.Record && t.c.Field(string(member.Key)) != nil {
				part.c = t.c.Field(string(member.Key)).Type
				part.fold, part.bounds = foldOf(part.c), boundsOf(part.c)
			}
			c.allowed(e.args[i], part)
		}
	}
}

// hours notes an order of hours that is always or never true.
func (c *checker) hours(e *expr, args []typ, operator string) {
	n, hour := literalLong(e.args[1]), args[0].closed
	if n == nil {
		n, hour = literalLong(e.args[0]), args[1].closed
		operator = mirrored[operator]
	}
	if n == nil || hour == nil || !hour.hour {
		return
	}
	holds := 0
	for h := range types.Long(lastHour + 1) {
		if compares(operator, h, *n) {
			holds++
		}
	}
	switch holds {
	case 0:
		c.note(topicNever, e, "this is never true: hours are 0 to 23")
	case lastHour + 1:
		c.note(topicNever, e, "this is always true: hours are 0 to 23")
	}
}

// mirrored are the operators with which operands change places.
var mirrored = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}

func compares(operator string, a, b types.Long) bool {
	switch operator {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

func literalLong(e *expr) *types.Long {
	v, _ := e.node.(ast.NodeValue)
	if n, ok := v.Value.(types.Long); ok {
		return &n
	}
	return nil
}
