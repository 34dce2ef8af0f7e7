package policy

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Cedar's decimals and its whole numbers have different literals, and
// different ways to compare them.

// decimalText writes a number as a decimal; "" for anything else.
func decimalText(e *expr) string {
	v, ok := e.node.(ast.NodeValue)
	if !ok {
		return ""
	}
	n, ok := v.Value.(types.Long)
	if !ok {
		return ""
	}
	return fmt.Sprintf(`decimal("%d.00")`, int64(n))
}

// decimalOfText writes a text that is a number as a decimal; "" for anything
// else.
func decimalOfText(e *expr) string {
	v, _ := e.node.(ast.NodeValue)
	text, _ := v.Value.(types.String)
	for _, try := range []string{string(text), string(text) + ".0"} {
		if _, err := types.ParseDecimal(try); err == nil {
			return fmt.Sprintf("decimal(%q)", try)
		}
	}
	return ""
}

// wholeText writes what is whole, or a decimal literal without a fraction, as a
// whole number; "" for anything else.
func wholeText(e *expr) string {
	switch v := literalOf(e).(type) {
	case types.Long:
		return e.text()
	case types.Decimal:
		if whole, ok := strings.CutSuffix(v.String(), ".0"); ok {
			return whole
		}
	}
	return ""
}

// decimalMethods are the methods of decimals that stand for operators.
var decimalMethods = map[string]string{
	"<": "lessThan", "<=": "lessThanOrEqual", ">": "greaterThan", ">=": "greaterThanOrEqual",
}

// operators are how a method of decimals is written for whole numbers and the
// like.
var operators = map[types.Path]string{
	"lessThan": "<", "lessThanOrEqual": "<=", "greaterThan": ">", "greaterThanOrEqual": ">=",
}

// decimalOrder says how to compare decimals. Operand i is one.
func (c *checker) decimalOrder(e *expr, args []typ, operator string, i int) string {
	x, y := e.args[0], e.args[1]
	if other := e.args[1-i]; sameType(args[1-i].t, longType.t) && decimalText(other) == "" {
		if n := wholeText(e.args[i]); n != "" && i == 1 {
			return fmt.Sprintf("%s is a whole number: write `%s %s %s`", c.named(other), x.text(), operator, n)
		} else if n != "" {
			return fmt.Sprintf("%s is a whole number: write `%s %s %s`", c.named(other), n, operator, y.text())
		}
		if literalOf(e.args[i]) != nil {
			return fmt.Sprintf("%s is a whole number: compare it with one, not with a fraction", c.named(other))
		}
		return fmt.Sprintf("%s is a decimal and %s is a whole number: they can't be compared", c.named(e.args[i]), c.named(other))
	}
	if literal := e.args[1-i]; sameType(args[1-i].t, stringType.t) {
		if d := decimalOfText(literal); d != "" && i == 0 {
			return fmt.Sprintf("%s is a decimal: write `%s.%s(%s)`", c.named(x), x.text(), decimalMethods[operator], d)
		}
		return fmt.Sprintf("%s is a decimal and %s is text: they can't be compared", c.named(e.args[i]), c.named(literal))
	}
	left, right := decimalText(x), decimalText(y)
	if left == "" {
		left = x.text()
	}
	if right == "" {
		right = y.text()
	}
	return fmt.Sprintf("%s is a decimal: write `%s.%s(%s)`", c.named(e.args[i]), left, decimalMethods[operator], right)
}

// decimalArgument says what is wrong with operand i of a comparison of decimals
// that is written as a method; "" where it is nothing in particular.
func (c *checker) decimalArgument(e *expr, name types.Path, i int, args []typ) string {
	receiver, operator := e.args[0], operators[name]
	if operator == "" {
		return ""
	}
	if d := decimalText(e.args[i]); d != "" && i == 1 {
		return fmt.Sprintf("%s compares decimals: write `.%s(%s)`", name, name, d)
	}
	if d := decimalOfText(e.args[i]); d != "" && i == 1 {
		return fmt.Sprintf("%s compares decimals: write `.%s(%s)`", name, name, d)
	}
	switch n := wholeText(e.args[1]); {
	case i != 0 || !args[0].known() || !args[1].known():
	case sameType(args[0].t, longType.t) && n != "":
		return fmt.Sprintf("%s is a whole number: write `%s %s %s`", c.named(receiver), receiver.text(), operator, n)
	case sameType(args[0].t, args[1].t):
		return fmt.Sprintf("%s compares decimals and %s is %s: write `%s %s %s`", name, c.named(receiver), describe(args[0].t), receiver.text(), operator, e.args[1].text())
	case sameType(args[0].t, longType.t):
		return fmt.Sprintf("%s is a whole number, and %s compares decimals: compare it with `%s` and a whole number", c.named(receiver), name, operator)
	}
	return ""
}
