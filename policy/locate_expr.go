package policy

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// expr locates one node and everything under it.
func (a *aligner) expr(node ast.IsNode) *expr {
	e := &expr{node: node}
	switch n := node.(type) {
	case ast.NodeValue:
		e.at = a.value(n.Value)
	case ast.NodeTypeVariable:
		e.at = a.take(string(n.Name))
	case ast.NodeTypeAnd:
		return a.and(n)
	case ast.NodeTypeNot:
		e.at = a.take("!")
		e.args = []*expr{a.expr(n.Arg)}
	case ast.NodeTypeNegate:
		e.at = a.take("-")
		e.args = []*expr{a.expr(n.Arg)}
	case ast.NodeTypeIfThenElse:
		e.at = a.take("if")
		condition := a.expr(n.If)
		a.take("then")
		then := a.expr(n.Then)
		a.take("else")
		e.args = []*expr{condition, then, a.expr(n.Else)}
	case ast.NodeTypeAccess:
		e.args = []*expr{a.expr(n.Arg)}
		if a.peek() == "." {
			a.take(".")
			e.at = a.take(string(n.Value))
		} else {
			e.at = a.takeString()
		}
	case ast.NodeTypeHas:
		e.args = []*expr{a.expr(n.Arg)}
		a.take("has")
		e.at = a.name(string(n.Value))
	case ast.NodeTypeLike:
		e.args = []*expr{a.expr(n.Arg)}
		e.at = a.take("like")
		e.name = a.takeString()
	case ast.NodeTypeIs:
		e.args = []*expr{a.expr(n.Left)}
		e.at = a.take("is")
		e.name = a.path(string(n.EntityType))
	case ast.NodeTypeIsIn:
		left := a.expr(n.Left)
		e.at = a.take("is")
		e.name = a.path(string(n.EntityType))
		a.take("in")
		e.args = []*expr{left, a.expr(n.Entity)}
	case ast.NodeTypeSet:
		e.at = a.takeRaw("[")
		for _, elem := range n.Elements {
			e.args = append(e.args, a.expr(elem))
		}
	case ast.NodeTypeRecord:
		e.at = a.takeRaw("{")
		for _, member := range n.Elements {
			a.name(string(member.Key))
			a.take(":")
			e.args = append(e.args, a.expr(member.Value))
		}
	case ast.NodeTypeExtensionCall:
		a.call(e, n)
	default:
		if left, right, operator := binary(node); operator != "" {
			e.args = []*expr{a.expr(left)}
			e.at = a.take(operator)
			e.args = append(e.args, a.expr(right))
		} else if arg, right, method := method(node); method != "" {
			e.args = []*expr{a.expr(arg)}
			a.take(".")
			e.at = a.take(method)
			if right != nil {
				e.args = append(e.args, a.expr(right))
			}
		} else {
			a.failed = true
		}
	}
	return e
}

// and locates a && b, and the guards of `x has a.b`, which cedar-go parses
// as x has a && x.a has b.
func (a *aligner) and(n ast.NodeTypeAnd) *expr {
	left := a.expr(n.Left)
	has, short := n.Right.(ast.NodeTypeHas)
	if !short || a.peek() != "." {
		at := a.take("&&")
		return &expr{node: n, at: at, args: []*expr{left, a.expr(n.Right)}}
	}
	a.take(".")
	at := a.take(string(has.Value))
	before := left
	if _, ok := left.node.(ast.NodeTypeAnd); ok && len(left.args) == 2 {
		before = left.args[1]
	}
	owner := &expr{node: has.Arg, at: before.at, args: before.args}
	right := &expr{node: has, at: at, args: []*expr{owner}}
	return &expr{node: n, at: at, args: []*expr{left, right}}
}

// call locates a function or a method of Cedar's extensions.
func (a *aligner) call(e *expr, n ast.NodeTypeExtensionCall) {
	args := n.Args
	if !isConstructor(n.Name) && len(args) > 0 {
		e.args = []*expr{a.expr(args[0])}
		a.take(".")
		args = args[1:]
	}
	e.at = a.path(string(n.Name))
	for _, arg := range args {
		e.args = append(e.args, a.expr(arg))
	}
}

// name takes an attribute's name, with or without quotes.
func (a *aligner) name(want string) int {
	if text := a.peek(); strings.HasPrefix(text, `"`) {
		return a.takeString()
	}
	return a.take(want)
}

// value takes a literal.
func (a *aligner) value(v types.Value) int {
	switch v := v.(type) {
	case types.Boolean:
		return a.take(v.String())
	case types.String:
		return a.takeString()
	case types.EntityUID:
		return a.entity(v)
	case types.Long:
		if v < 0 {
			at := a.take("-")
			a.take(a.peek())
			return at
		}
		return a.take(a.peek())
	}
	a.failed = true
	return 0
}

// isConstructor reports whether an extension function is called as f(x)
// rather than as x.f().
func isConstructor(name types.Path) bool {
	switch name {
	case "ip", "decimal", "datetime", "duration":
		return true
	}
	return false
}

// binary returns the operands of an infix operator and how it is written.
func binary(node ast.IsNode) (left, right ast.IsNode, operator string) {
	switch n := node.(type) {
	case ast.NodeTypeAnd:
		return n.Left, n.Right, "&&"
	case ast.NodeTypeOr:
		return n.Left, n.Right, "||"
	case ast.NodeTypeEquals:
		return n.Left, n.Right, "=="
	case ast.NodeTypeNotEquals:
		return n.Left, n.Right, "!="
	case ast.NodeTypeLessThan:
		return n.Left, n.Right, "<"
	case ast.NodeTypeLessThanOrEqual:
		return n.Left, n.Right, "<="
	case ast.NodeTypeGreaterThan:
		return n.Left, n.Right, ">"
	case ast.NodeTypeGreaterThanOrEqual:
		return n.Left, n.Right, ">="
	case ast.NodeTypeAdd:
		return n.Left, n.Right, "+"
	case ast.NodeTypeSub:
		return n.Left, n.Right, "-"
	case ast.NodeTypeMult:
		return n.Left, n.Right, "*"
	case ast.NodeTypeIn:
		return n.Left, n.Right, "in"
	}
	return nil, nil, ""
}

// method returns the receiver and the argument, if any, of one of Cedar's own
// methods.
func method(node ast.IsNode) (receiver, arg ast.IsNode, name string) {
	switch n := node.(type) {
	case ast.NodeTypeContains:
		return n.Left, n.Right, "contains"
	case ast.NodeTypeContainsAll:
		return n.Left, n.Right, "containsAll"
	case ast.NodeTypeContainsAny:
		return n.Left, n.Right, "containsAny"
	case ast.NodeTypeHasTag:
		return n.Left, n.Right, "hasTag"
	case ast.NodeTypeGetTag:
		return n.Left, n.Right, "getTag"
	case ast.NodeTypeIsEmpty:
		return n.Arg, nil, "isEmpty"
	}
	return nil, nil, ""
}
