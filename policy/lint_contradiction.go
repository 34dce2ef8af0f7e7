package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// What is joined by && holds together, so that it can contradict itself:
//
//	context.local.hour >= 22 && context.local.hour < 6
//
// Only what is certain is reported: one term, compared with literals. Where
// the negations of what is joined by || contradict each other, the whole is
// always true.

// fact is what one part of a conjunction says of a term.
type fact struct {
	e     *expr
	holds bool // false: the fact is that e does not hold
	term  string
	// values are all that the term can be; nil: any that admits, from least
	// to most where it has an order.
	values      []types.Value
	admits      func(v types.Value) bool
	least, most int64
	atom        bool // the term is e itself
}

// contradictions reports conjunctions that are never true, disjunctions that
// always are, and policies whose conditions exclude each other, and notes them
// as explained. It leaves out the expressions in which something else is wrong.
func (c *checker) contradictions(wrong, explained map[*expr]bool) writ.Faults {
	f := &contradictions{checker: c, wrong: wrong, explained: explained, reported: map[*expr]bool{}}
	for _, condition := range c.located.conditions {
		f.visit(condition.body)
	}
	facts := c.scopeFacts()
	for _, condition := range c.located.conditions {
		facts = f.flatten(facts, condition.body, !condition.unless)
	}
	f.check(facts, func(a, b *fact) string {
		if a == nil {
			return fmt.Sprintf("the policy never applies: %s leaves nothing of what other parts allow", b.text())
		}
		return fmt.Sprintf("the policy never applies: %s and %s exclude each other", a.text(), b.text())
	})
	return f.found
}

type contradictions struct {
	*checker
	wrong, explained map[*expr]bool
	reported         map[*expr]bool
	found            writ.Faults
}

// visit checks every conjunction and disjunction below e.
func (f *contradictions) visit(e *expr) {
	_, and := e.node.(ast.NodeTypeAnd)
	_, or := e.node.(ast.NodeTypeOr)
	switch parent := f.parents[e]; {
	case and && !isAnd(parent):
		f.check(f.flatten(nil, e, true), func(a, b *fact) string {
			if a == nil {
				return fmt.Sprintf("this can never be true: %s leaves nothing of what the parts before it allow", b.text())
			}
			message := fmt.Sprintf("this can never be true: %s and %s exclude each other", a.text(), b.text())
			if different(a, b) {
				message += ". If either is enough, write || between them"
			}
			return message
		})
	case or && !isOr(parent):
		f.check(f.flatten(nil, e, false), func(a, b *fact) string {
			if a == nil {
				return fmt.Sprintf("this is always true: where nothing before %s holds, it does", b.opposite())
			}
			message := fmt.Sprintf("this is always true: where %s doesn't hold, %s does", a.opposite(), b.opposite())
			if different(a, b) {
				message += ". If both must hold, write && between them"
			}
			return message
		})
	}
	for _, arg := range e.args {
		f.visit(arg)
	}
}

// different reports whether two facts are different things to ask for, rather
// than one and its opposite.
func different(a, b *fact) bool { return !a.atom && !b.atom && a.text() != b.opposite() }

func isAnd(e *expr) bool {
	if e == nil {
		return false
	}
	_, ok := e.node.(ast.NodeTypeAnd)
	return ok
}

func isOr(e *expr) bool {
	if e == nil {
		return false
	}
	_, ok := e.node.(ast.NodeTypeOr)
	return ok
}

// check reports the facts that contradict an earlier one, or nil, the earlier
// ones together.
func (f *contradictions) check(facts []*fact, message func(a, b *fact) string) {
	byTerm := map[string][]*fact{}
	for _, one := range facts {
		before := byTerm[one.term]
		if f.wrong[one.e] || excluded(one) { // that is another lint's
			continue
		}
		if !excluded(append(slices.Clip(before), one)...) {
			byTerm[one.term] = append(before, one)
			continue
		}
		if f.reported[one.e] {
			continue
		}
		f.reported[one.e] = true
		for e := one.e; e != nil && f.explained != nil; e = f.parents[e] {
			f.explained[e] = true
		}
		var other *fact
		for _, earlier := range before {
			if excluded(earlier, one) {
				other = earlier
				break
			}
		}
		f.found = append(f.found, f.located.fault(one.e.at, message(other, one)))
	}
}

// excluded reports whether no value of the term, which all facts share,
// fulfils them.
func excluded(facts ...*fact) bool {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	if facts[0].term == "context.local.hour" {
		least, most = 0, lastHour
	}
	var values []types.Value
	for _, f := range facts {
		least, most = max(least, f.least), min(most, f.most)
		if f.values != nil {
			values = f.values
		}
	}
	if least > most {
		return true
	}
	return values != nil && !slices.ContainsFunc(values, func(v types.Value) bool {
		if n, ordered := rank(v); ordered && (n < least || n > most) {
			return false
		}
		return !slices.ContainsFunc(facts, func(f *fact) bool { return !f.allows(v) })
	})
}

// allows reports whether the fact leaves a value possible. Values of different
// types are the type checker's to report.
func (f *fact) allows(v types.Value) bool {
	if f.admits != nil {
		return f.admits(v)
	}
	return f.values == nil || slices.ContainsFunc(f.values, func(w types.Value) bool {
		return reflect.TypeOf(v) != reflect.TypeOf(w) || v.Equal(w)
	})
}

// rank numbers the values that have an order, each kind without gaps.
func rank(v types.Value) (int64, bool) {
	switch v := v.(type) {
	case types.Long:
		return int64(v), true
	case types.Decimal:
		return number(json.Number(v.String()), 4)
	case types.Datetime:
		return v.Milliseconds(), true
	case types.Duration:
		return v.ToMilliseconds(), true
	}
	return 0, false
}

// flatten appends the facts that hold together where e holds, or doesn't.
func (f *contradictions) flatten(facts []*fact, e *expr, holds bool) []*fact {
	switch e.node.(type) {
	case ast.NodeTypeNot:
		return f.flatten(facts, e.args[0], !holds)
	case ast.NodeTypeAnd:
		if holds {
			return f.flatten(f.flatten(facts, e.args[0], true), e.args[1], true)
		}
	case ast.NodeTypeOr:
		if !holds {
			return f.flatten(f.flatten(facts, e.args[0], false), e.args[1], false)
		}
	}
	return append(facts, factsOf(e, holds)...)
}

// scopeFacts are what the scope says of principal and resource.
func (c *checker) scopeFacts() []*fact {
	var out []*fact
	for _, scope := range []struct {
		name string
		node ast.IsScopeNode
	}{{"principal", c.in.policy.Principal}, {"resource", c.in.policy.Resource}} {
		if eq, ok := scope.node.(ast.ScopeTypeEq); ok {
			variable := &expr{node: ast.NodeTypeVariable{Name: types.String(scope.name)}}
			e := &expr{node: ast.NodeTypeEquals{}, args: []*expr{variable, {node: ast.NodeValue{Value: eq.Entity}}}}
			out = append(out, factsOf(e, true)...)
		}
	}
	return out
}

// factsOf returns what e says where it holds, or doesn't.
func factsOf(e *expr, holds bool) []*fact {
	anything := func(term *expr) *fact {
		return &fact{e: e, holds: holds, term: term.text(), least: math.MinInt64, most: math.MaxInt64}
	}
	atom := anything(e)
	atom.values, atom.atom = []types.Value{types.Boolean(holds)}, true
	_, equals := e.node.(ast.NodeTypeEquals)
	_, differs := e.node.(ast.NodeTypeNotEquals)
	switch n := e.node.(type) {
	case ast.NodeValue:
		return nil
	case ast.NodeTypeLike:
		match := anything(e.args[0])
		match.admits = func(v types.Value) bool {
			text, ok := v.(types.String)
			return !ok || n.Value.Match(text) == holds
		}
		return []*fact{match, atom}
	case ast.NodeTypeContains:
		if values := literals(e.args[0]); values != nil {
			return []*fact{anything(e.args[1]).oneOf(values, holds)}
		}
	}
	if term, v, operator := comparison(e); operator != "" {
		f := anything(term)
		if equals || differs {
			return []*fact{f.oneOf([]types.Value{v}, equals == holds)}
		}
		if !holds {
			operator = negated[operator]
		}
		if f.order(operator, v) {
			return []*fact{f}
		}
	}
	return []*fact{atom}
}

// oneOf says that the term is, or isn't, one of values.
func (f *fact) oneOf(values []types.Value, is bool) *fact {
	if b, ok := values[0].(types.Boolean); ok && len(values) == 1 && !is {
		values, is = []types.Value{!b}, true
	}
	if f.values = values; is {
		return f
	}
	f.values = nil
	f.admits = func(v types.Value) bool {
		return !slices.ContainsFunc(values, func(w types.Value) bool { return v.Equal(w) })
	}
	return f
}

// order says that the term is before or after v. ok is false where that is
// not a fact of its own.
func (f *fact) order(operator string, v types.Value) (ok bool) {
	n, ordered := rank(v)
	switch {
	case !ordered:
		return false
	case operator == "<" && n > math.MinInt64:
		f.most = n - 1
	case operator == "<=":
		f.most = n
	case operator == ">" && n < math.MaxInt64:
		f.least = n + 1
	case operator == ">=":
		f.least = n
	default:
		return false
	}
	return true
}

// comparison splits a comparison with a literal: its term, the literal, and the
// operator as if the term stood left. operator is empty for anything else.
func comparison(e *expr) (term *expr, v types.Value, operator string) {
	_, _, operator = binary(e.node)
	if call, ok := e.node.(ast.NodeTypeExtensionCall); ok {
		operator = operators[call.Name]
	}
	switch operator {
	case "==", "!=", "<", "<=", ">", ">=":
	default:
		return nil, nil, ""
	}
	if len(e.args) != 2 {
		return nil, nil, ""
	}
	left, right := literalOf(e.args[0]), literalOf(e.args[1])
	switch {
	case left == nil && right != nil:
		return e.args[0], right, operator
	case left != nil && right == nil:
		if other := mirrored[operator]; other != "" {
			operator = other
		}
		return e.args[1], left, operator
	}
	return nil, nil, ""
}

// literalOf returns the value of a literal, or of a function of a literal; nil
// for anything else.
func literalOf(e *expr) types.Value {
	if v, ok := e.node.(ast.NodeValue); ok {
		return v.Value
	}
	call, ok := e.node.(ast.NodeTypeExtensionCall)
	if !ok || len(e.args) != 1 {
		return nil
	}
	v, _ := e.args[0].node.(ast.NodeValue)
	text, ok := v.Value.(types.String)
	if !ok {
		return nil
	}
	var out types.Value
	var err error
	switch call.Name {
	case "decimal":
		out, err = types.ParseDecimal(string(text))
	case "datetime":
		out, err = types.ParseDatetime(string(text))
	case "duration":
		out, err = types.ParseDuration(string(text))
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	return out
}

// literals returns the elements of a set of literals; nil for anything else.
func literals(e *expr) []types.Value {
	if !isLiteralSet(e) {
		return nil
	}
	var out []types.Value
	for _, element := range e.args {
		v := literalOf(element)
		if v == nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// negated are the operators that hold where others don't.
var negated = map[string]string{"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

// text is the fact in Cedar.
func (f *fact) text() string { return quotedText(f.e, f.holds) }

// opposite is what the fact denies.
func (f *fact) opposite() string { return quotedText(f.e, !f.holds) }

// maxQuoted is how many characters of a policy a message repeats.
const maxQuoted = 100

func quotedText(e *expr, holds bool) string {
	text := e.text()
	if !holds {
		text = negatedText(e)
	}
	if utf8.RuneCountInString(text) > maxQuoted {
		text = string([]rune(text)[:maxQuoted]) + "…"
	}
	return "`" + text + "`"
}
