package policy

import (
	"fmt"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
)

// equal types == and returns what it always is.
func (c *checker) equal(e *expr, args []typ) truth {
	a, b := args[0], args[1]
	if !a.known() || !b.known() {
		return either
	}
	left, isLeft := e.args[0].node.(ast.NodeValue)
	right, isRight := e.args[1].node.(ast.NodeValue)
	if isLeft && isRight { // of whatever types: the validator settles these first
		return truthOf(left.Value.Equal(right.Value))
	}
	if !sameType(a.t, b.t) {
		c.note(topicComparison, e, c.mismatch(e, a, b))
		return either
	}
	x, isX := a.entity()
	y, isY := b.entity()
	switch {
	case isX && isY && x != y:
		c.note(topicNever, e, fmt.Sprintf("%s is %s and %s is %s: they are never equal",
			c.named(e.args[0]), article(string(x)), c.named(e.args[1]), article(string(y))))
		return alwaysFalse
	case e.args[0].text() == e.args[1].text() && isVariable(e.args[0]):
		return alwaysTrue
	}
	for i, literal := range e.args {
		other := args[1-i]
		if message := c.beyond(literal, other, false); message != "" {
			c.note(topicNever, e, message).strong = true
			continue
		}
		c.allowed(literal, other)
	}
	return either
}

func isVariable(e *expr) bool {
	_, ok := e.node.(ast.NodeTypeVariable)
	return ok
}

// mismatch says why two values can't be compared, and how they could.
func (c *checker) mismatch(e *expr, a, b typ) string {
	x, y := e.args[0], e.args[1]
	for range 2 {
		name := c.named(x)
		_, literal := y.node.(ast.NodeValue)
		et, isEntity := a.entity()
		switch {
		case a.isExtension("decimal") && sameType(b.t, longType.t):
			if d := decimalText(y); d != "" {
				return fmt.Sprintf("%s is a decimal: compare it with `%s`", name, d)
			}
			if n := wholeText(x); n != "" {
				return fmt.Sprintf("%s is a whole number: compare it with `%s`", c.named(y), n)
			}
			return fmt.Sprintf("%s is a decimal and %s is a whole number: they can't be compared", name, c.named(y))
		case isEntity && sameType(b.t, stringType.t) && literal:
			uid := types.NewEntityUID(et, y.node.(ast.NodeValue).Value.(types.String))
			return fmt.Sprintf("%s is %s, not text: compare it with `%s`", name, article(string(et)), uid)
		case sameType(a.t, stringType.t) && !literal && isLiteralSet(y):
			return fmt.Sprintf("%s is text and %s is a set: write `%s.contains(%s)`", name, c.named(y), y.text(), x.text())
		case literal && isSetOf(a, b):
			return fmt.Sprintf("%s is a set: write `%s.contains(%s)`", name, x.text(), y.text())
		case literal && writtenAs(y, a) != "":
			return fmt.Sprintf("%s is %s: compare it with `%s`", name, describe(a.t), writtenAs(y, a))
		}
		x, y, a, b = y, x, b, a
	}
	_, isRecord := a.t.(resolved.RecordType)
	if _, both := b.t.(resolved.RecordType); isRecord && both {
		return "records are compared only with records that have the same members of the same types: compare single members"
	}
	return fmt.Sprintf("%s is %s and %s is %s: they can't be compared", c.named(e.args[0]), describe(a.t), c.named(e.args[1]), describe(b.t))
}

// isSetOf reports whether a is a set of what b is.
func isSetOf(a, b typ) bool {
	elem, ok := a.elem()
	return ok && elem.known() && sameType(elem.t, b.t)
}

// writtenAs writes a text as the datetime, duration or IP address that it
// should have been to compare with a value of type t; "" where it is none.
func writtenAs(e *expr, t typ) string {
	extension, _ := t.t.(resolved.ExtensionType)
	v, _ := e.node.(ast.NodeValue)
	text, isText := v.Value.(types.String)
	function := string(extension)
	if function == "ipaddr" {
		function = "ip"
	}
	if function == "" || function == "decimal" || !isText || badLiteral(types.Path(function), string(text)) != "" {
		return ""
	}
	return fmt.Sprintf("%s(%q)", function, string(text))
}

func isLiteralSet(e *expr) bool {
	_, ok := e.node.(ast.NodeTypeSet)
	return ok
}

// order types < and its like.
func (c *checker) order(e *expr, args []typ) {
	a, b := args[0], args[1]
	if !a.known() || !b.known() {
		return
	}
	_, _, operator := binary(e.node)
	for i, t := range args {
		if t.isExtension("decimal") {
			c.note(topicComparison, e, c.decimalOrder(e, args, operator, i))
			return
		}
	}
	comparable := func(t typ) bool {
		return sameType(t.t, longType.t) || t.isExtension("datetime") || t.isExtension("duration")
	}
	if comparable(a) && sameType(a.t, b.t) {
		c.hours(e, args, operator)
		return
	}
	for i, t := range args {
		if written := writtenAs(e.args[1-i], t); written != "" {
			c.note(topicComparison, e, fmt.Sprintf("%s is %s: compare it with `%s`", c.named(e.args[i]), describe(t.t), written))
			return
		}
	}
	c.note(topicComparison, e, fmt.Sprintf("`%s` orders two whole numbers, two datetimes or two durations: %s is %s and %s is %s",
		operator, c.named(e.args[0]), describe(a.t), c.named(e.args[1]), describe(b.t)))
}
