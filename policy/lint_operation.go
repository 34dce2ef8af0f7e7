package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
)

// operation types an operator, method or function whose operands have the
// given types. An operand that isn't known makes no further notes.
func (c *checker) operation(e *expr, args []typ, g guards) typ {
	switch n := e.node.(type) {
	case ast.NodeTypeEquals:
		return boolType(c.equal(e, args))
	case ast.NodeTypeNotEquals:
		return boolType(c.equal(e, args).not())
	case ast.NodeTypeLessThan, ast.NodeTypeLessThanOrEqual, ast.NodeTypeGreaterThan, ast.NodeTypeGreaterThanOrEqual:
		c.order(e, args)
		return boolType(either)
	case ast.NodeTypeAdd, ast.NodeTypeSub, ast.NodeTypeMult, ast.NodeTypeNegate:
		c.arithmetic(e, args)
		return longType
	case ast.NodeTypeIn:
		return boolType(c.member(e, args))
	case ast.NodeTypeIs:
		return boolType(c.is(e, args[0], n.EntityType))
	case ast.NodeTypeIsIn:
		c.isIn(e, args, n.EntityType)
		return boolType(either) // the validator settles no `is … in`
	case ast.NodeTypeLike:
		c.like(e, args[0], n.Value)
		return boolType(either)
	case ast.NodeTypeContains, ast.NodeTypeContainsAll, ast.NodeTypeContainsAny, ast.NodeTypeIsEmpty:
		c.contains(e, args)
		return boolType(either)
	case ast.NodeTypeGetTag:
		return c.getTag(e, args, g)
	case ast.NodeTypeSet:
		return c.set(e, args)
	case ast.NodeTypeRecord:
		return recordOf(n, args)
	case ast.NodeTypeExtensionCall:
		return c.call(e, n.Name, args)
	}
	return typ{}
}

// arithmetic types + - * and the sign.
func (c *checker) arithmetic(e *expr, args []typ) {
	for i, t := range args {
		if !t.known() || sameType(t.t, longType.t) {
			continue
		}
		message := fmt.Sprintf("Cedar calculates with whole numbers only, and %s is %s", c.named(e.args[i]), describe(t.t))
		if t.isExtension("datetime") || t.isExtension("duration") {
			message += ": use offset, durationSince and toMilliseconds"
		}
		c.note(topicOperand, e, message)
	}
}

// member types `in` and returns what it always is.
func (c *checker) member(e *expr, args []typ) truth {
	left, right := e.args[0], e.args[1]
	a, b := args[0], args[1]
	group, isEntity := b.entity()
	if elem, isSet := b.elem(); isSet {
		if group, isEntity = elem.entity(); !elem.known() {
			return either
		}
	}
	child, ok := a.entity()
	switch {
	case a.known() && !ok:
		c.note(topicOperand, e, c.notMember(left, right, a, b))
		return either
	case !a.known() || !b.known():
		return either
	case !isEntity:
		c.note(topicOperand, e, fmt.Sprintf("`in` asks whether an entity is in another, and %s is %s", c.named(right), describe(b.t)))
		return either
	case child == typeAction && isVariable(left):
		return c.actionIn(right)
	case !c.in.schema.mayBeIn(child, group):
		c.note(topicNever, e, fmt.Sprintf("%s is %s, which is never in %s", c.named(left), article(string(child)), article(string(group))))
		return alwaysFalse
	}
	c.inBounds(e, right, a)
	if a.tool && group == typeServer {
		a.closed = c.env.class.toolMember("server")
		for _, literal := range elements(right) {
			c.outside(literal, a)
		}
	}
	for _, literal := range elements(right) {
		in := a
		if isVariable(left) {
			in.fold = c.resourceFold(group)
		}
		c.spelling(literal, in)
	}
	return either
}

// notMember says what `in` is for, and what was meant.
func (c *checker) notMember(left, right *expr, a, b typ) string {
	message := fmt.Sprintf("`in` asks for group membership and %s is %s", c.named(left), describe(a.t))
	if elem, isSet := b.elem(); isSet && (!elem.known() || sameType(elem.t, a.t)) {
		return message + ". Write `" + right.text() + ".contains(" + left.text() + ")`"
	}
	if _, isEntity := b.entity(); isEntity && sameType(a.t, stringType.t) {
		return message + ": groups hold entities"
	}
	return message
}

// actionIn returns whether the action at hand is in one that e names.
func (c *checker) actionIn(e *expr) truth {
	action := c.env.class.action
	for _, literal := range elements(e) {
		v, ok := literal.node.(ast.NodeValue)
		if !ok {
			return either
		}
		uid, _ := v.Value.(types.EntityUID)
		for _, group := range append(c.in.schema.closure[action], action) {
			if uid == group {
				return alwaysTrue
			}
		}
	}
	return alwaysFalse
}

// elements returns the elements of a set literal, or e alone.
func elements(e *expr) []*expr {
	if isLiteralSet(e) {
		return e.args
	}
	return []*expr{e}
}

// is types `is` and returns what it always is.
func (c *checker) is(e *expr, arg typ, want types.EntityType) truth {
	et, ok := arg.entity()
	switch {
	case !arg.known():
		return either
	case !ok:
		c.note(topicOperand, e, fmt.Sprintf("`is` asks for an entity's type, and %s is %s", c.named(e.args[0]), describe(arg.t)))
		return either
	case !c.in.schema.declaredType(want):
		c.note(topicNever, e, unknownEntityType(c.in.schema, string(want)))
	}
	return truthOf(et == want)
}

// isIn types `is … in`.
func (c *checker) isIn(e *expr, args []typ, want types.EntityType) {
	is := c.is(e, args[0], want)
	group, isEntity := args[1].entity()
	if elem, isSet := args[1].elem(); isSet {
		if group, isEntity = elem.entity(); !elem.known() {
			return
		}
	}
	switch {
	case !args[1].known():
	case !isEntity:
		c.note(topicOperand, e, fmt.Sprintf("`in` asks whether an entity is in another, and %s is %s", c.named(e.args[1]), describe(args[1].t)))
	case !c.in.schema.declaredType(want):
	case is == alwaysFalse:
		et, _ := args[0].entity()
		c.note(topicNever, e, fmt.Sprintf("%s is %s and never %s", c.named(e.args[0]), article(string(et)), article(string(want))))
	case !c.in.schema.mayBeIn(want, group):
		c.note(topicNever, e, fmt.Sprintf("%s is never in %s", article(string(want)), article(string(group))))
	default:
		c.inBounds(e, e.args[1], args[0])
	}
}

// like types `like`.
func (c *checker) like(e *expr, arg typ, pattern types.Pattern) {
	if !arg.known() {
		return
	}
	if !sameType(arg.t, stringType.t) {
		c.note(topicOperand, e, c.notText(e.args[0], arg))
		return
	}
	text := string(pattern.MarshalCedar())
	if normal := arg.fold.lower(text); normal != text {
		c.note(topicCase, e, c.named(e.args[0])).words[normal] = true
		return
	}
	var words, order []string
	switch {
	case arg.c != nil && arg.c.Enum != nil:
		words = arg.c.Enum
	case arg.closed != nil && arg.closed.words != nil && arg.closed.admits == nil:
		words, order = arg.closed.words, arg.closed.words
	default:
		return
	}
	if slices.ContainsFunc(words, func(word string) bool { return pattern.Match(types.String(word)) }) {
		return
	}
	n := c.note(topicEnum, e, "")
	n.order = order
	for _, word := range words {
		n.words[word] = true
	}
}

// textOf are the attributes that hold the text of Writ's own entities.
var textOf = map[types.EntityType]string{
	typePath:  "`.name like \".env*\"`, `.text like …`, `.segments.contains(\".ssh\")`",
	typeHost:  "`.text like …`",
	typeURL:   "`.text like …`, `.scheme == \"https\"`, `.path like …`, `.host in Host::\"example.com\"`",
	typeEmail: "`.text like …`, `.local like …`, `.host in Host::\"example.com\"`",
}

// notText says what to match instead of something that isn't text.
func (c *checker) notText(e *expr, t typ) string {
	et, isEntity := t.entity()
	switch _, isSet := t.elem(); {
	case isEntity && textOf[et] != "":
		return fmt.Sprintf("%s is %s, and %s is not text: %s", c.named(e), article(string(et)), article(string(et)), textOf[et])
	case isSet:
		return fmt.Sprintf("`like` matches text and %s is a set: name each element that is allowed and use containsAny", c.named(e))
	}
	return fmt.Sprintf("`like` matches text and %s is %s", c.named(e), describe(t.t))
}

// contains types the methods of sets.
func (c *checker) contains(e *expr, args []typ) {
	_, _, name := method(e.node)
	elem, ok := args[0].elem()
	if !args[0].known() {
		return
	}
	if !ok {
		message := fmt.Sprintf("%s asks a set for elements, and %s is %s", name, c.named(e.args[0]), describe(args[0].t))
		if sameType(args[0].t, stringType.t) && name == "contains" {
			pattern := `"*…*"`
			if v, ok := e.args[1].node.(ast.NodeValue); ok && sameType(args[1].t, stringType.t) {
				pattern = string(types.NewPattern(types.Wildcard{}, v.Value, types.Wildcard{}).MarshalCedar())
			}
			message += fmt.Sprintf(": for a part of a text write `%s like %s`", e.args[0].text(), pattern)
		}
		c.note(topicOperand, e, message)
		return
	}
	if len(args) < 2 || !args[1].known() {
		return
	}
	other := args[1]
	if name != "contains" {
		if other, ok = args[1].elem(); !ok {
			c.note(topicOperand, e, fmt.Sprintf("%s takes a set, and %s is %s: write contains", name, c.named(e.args[1]), describe(args[1].t)))
			return
		}
	}
	x, isX := elem.entity()
	y, isY := other.entity()
	switch {
	case !sameType(elem.t, other.t):
		c.note(topicComparison, e, fmt.Sprintf("%s holds %s and %s is %s: it never contains it",
			c.named(e.args[0]), plural(elem.t), c.named(e.args[1]), describe(args[1].t)))
		return
	case isX && isY && x != y && name == "contains": // which the validator refuses
		message := fmt.Sprintf("%s holds %s and %s is %s: it never contains it", c.named(e.args[0]), plural(elem.t), c.named(e.args[1]), article(string(y)))
		if isVariable(e.args[1]) {
			message = fmt.Sprintf("the set holds %s, and %s may be %s: write `%s is %s && …` before this",
				plural(elem.t), c.named(e.args[1]), article(string(y)), e.args[1].text(), x)
		}
		c.note(topicComparison, e, message)
		return
	case isX && isY && x != y:
		c.note(topicNever, e, fmt.Sprintf("%s holds %s and never %s", c.named(e.args[0]), plural(elem.t), article(string(y))))
		return
	}
	for _, literal := range elements(e.args[0]) {
		c.allowed(literal, other)
	}
	for _, literal := range elements(e.args[1]) {
		c.allowed(literal, elem)
	}
}

// plural names many values of a type.
func plural(t resolved.IsType) string {
	switch t := t.(type) {
	case resolved.EntityType:
		return "entities of type " + string(t)
	case resolved.StringType:
		return "texts"
	case nil:
		return "values"
	}
	_, noun, _ := strings.Cut(describe(t), " ")
	return noun + "s"
}
