package mutation

import (
	"bytes"

	"github.com/cedar-policy/cedar-go"
	cedarast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// parse reads the text of one policy.
func parse(text []byte) (*ast.Policy, error) {
	var p cedar.Policy
	if err := p.UnmarshalCedar(text); err != nil {
		return nil, err
	}
	return (*ast.Policy)(p.AST()), nil
}

// write writes a policy as Cedar text.
func write(p *ast.Policy) []byte {
	return cedar.NewPolicyFromAST((*cedarast.Policy)(p)).MarshalCedar()
}

// show writes an expression as Cedar text, for people.
func show(n ast.IsNode) string {
	p := ast.Permit()
	p.Conditions = []ast.ConditionType{{Condition: ast.ConditionWhen, Body: n}}
	text := write(p)
	_, text, _ = bytes.Cut(text, []byte("when {"))
	text = bytes.TrimSuffix(text, []byte(";"))
	text = bytes.TrimSuffix(bytes.TrimSpace(text), []byte("}"))
	return string(bytes.TrimSpace(text))
}

// children lists the direct subexpressions of n.
func children(n ast.IsNode) []ast.IsNode {
	if left, right, _ := binary(n); left != nil {
		return []ast.IsNode{left, right}
	}
	switch n := n.(type) {
	case ast.NodeTypeIfThenElse:
		return []ast.IsNode{n.If, n.Then, n.Else}
	case ast.NodeTypeNot:
		return []ast.IsNode{n.Arg}
	case ast.NodeTypeNegate:
		return []ast.IsNode{n.Arg}
	case ast.NodeTypeIsEmpty:
		return []ast.IsNode{n.Arg}
	case ast.NodeTypeAccess:
		return []ast.IsNode{n.Arg}
	case ast.NodeTypeHas:
		return []ast.IsNode{n.Arg}
	case ast.NodeTypeLike:
		return []ast.IsNode{n.Arg}
	case ast.NodeTypeIs:
		return []ast.IsNode{n.Left}
	case ast.NodeTypeIsIn:
		return []ast.IsNode{n.Left, n.Entity}
	case ast.NodeTypeExtensionCall:
		return n.Args
	case ast.NodeTypeSet:
		return n.Elements
	case ast.NodeTypeRecord:
		out := make([]ast.IsNode, len(n.Elements))
		for i, e := range n.Elements {
			out[i] = e.Value
		}
		return out
	}
	return nil
}

// with returns n with another i'th subexpression.
func with(n ast.IsNode, i int, child ast.IsNode) ast.IsNode {
	if left, right, make := binary(n); left != nil {
		if i == 0 {
			return make(ast.BinaryNode{Left: child, Right: right})
		}
		return make(ast.BinaryNode{Left: left, Right: child})
	}
	switch n := n.(type) {
	case ast.NodeTypeIfThenElse:
		switch i {
		case 0:
			n.If = child
		case 1:
			n.Then = child
		default:
			n.Else = child
		}
		return n
	case ast.NodeTypeNot:
		n.Arg = child
		return n
	case ast.NodeTypeNegate:
		n.Arg = child
		return n
	case ast.NodeTypeIsEmpty:
		n.Arg = child
		return n
	case ast.NodeTypeAccess:
		n.Arg = child
		return n
	case ast.NodeTypeHas:
		n.Arg = child
		return n
	case ast.NodeTypeLike:
		n.Arg = child
		return n
	case ast.NodeTypeIs:
		n.Left = child
		return n
	case ast.NodeTypeIsIn:
		if i == 0 {
			n.Left = child
		} else {
			n.Entity = child
		}
		return n
	case ast.NodeTypeExtensionCall:
		n.Args = replaced(n.Args, i, child)
		return n
	case ast.NodeTypeSet:
		n.Elements = replaced(n.Elements, i, child)
		return n
	case ast.NodeTypeRecord:
		n.Elements = replaced(n.Elements, i, ast.RecordElementNode{Key: n.Elements[i].Key, Value: child})
		return n
	}
	return n
}

func replaced[T any](list []T, i int, value T) []T {
	out := append([]T(nil), list...)
	out[i] = value
	return out
}

// without returns a list without its i'th element.
func without[T any](list []T, i int) []T {
	return append(append([]T(nil), list[:i]...), list[i+1:]...)
}

// maker makes a node of one kind of two operands.
type maker func(ast.BinaryNode) ast.IsNode

// binary returns the operands of a node that has two, and what makes another
// of its kind.
func binary(n ast.IsNode) (left, right ast.IsNode, make maker) {
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		return n.Left, n.Right, and
	case ast.NodeTypeOr:
		return n.Left, n.Right, or
	case ast.NodeTypeEquals:
		return n.Left, n.Right, equals
	case ast.NodeTypeNotEquals:
		return n.Left, n.Right, notEquals
	case ast.NodeTypeLessThan:
		return n.Left, n.Right, less
	case ast.NodeTypeLessThanOrEqual:
		return n.Left, n.Right, lessOrEqual
	case ast.NodeTypeGreaterThan:
		return n.Left, n.Right, greater
	case ast.NodeTypeGreaterThanOrEqual:
		return n.Left, n.Right, greaterOrEqual
	case ast.NodeTypeAdd:
		return n.Left, n.Right, add
	case ast.NodeTypeSub:
		return n.Left, n.Right, subtract
	case ast.NodeTypeMult:
		return n.Left, n.Right, func(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeMult{BinaryNode: b} }
	case ast.NodeTypeIn:
		return n.Left, n.Right, func(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeIn{BinaryNode: b} }
	case ast.NodeTypeContains:
		return n.Left, n.Right, func(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeContains{BinaryNode: b} }
	case ast.NodeTypeContainsAll:
		return n.Left, n.Right, containsAll
	case ast.NodeTypeContainsAny:
		return n.Left, n.Right, containsAny
	case ast.NodeTypeHasTag:
		return n.Left, n.Right, func(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeHasTag{BinaryNode: b} }
	case ast.NodeTypeGetTag:
		return n.Left, n.Right, func(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeGetTag{BinaryNode: b} }
	}
	return nil, nil, nil
}

func and(b ast.BinaryNode) ast.IsNode         { return ast.NodeTypeAnd{BinaryNode: b} }
func or(b ast.BinaryNode) ast.IsNode          { return ast.NodeTypeOr{BinaryNode: b} }
func equals(b ast.BinaryNode) ast.IsNode      { return ast.NodeTypeEquals{BinaryNode: b} }
func notEquals(b ast.BinaryNode) ast.IsNode   { return ast.NodeTypeNotEquals{BinaryNode: b} }
func less(b ast.BinaryNode) ast.IsNode        { return ast.NodeTypeLessThan{BinaryNode: b} }
func lessOrEqual(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeLessThanOrEqual{BinaryNode: b} }
func greater(b ast.BinaryNode) ast.IsNode     { return ast.NodeTypeGreaterThan{BinaryNode: b} }
func greaterOrEqual(b ast.BinaryNode) ast.IsNode {
	return ast.NodeTypeGreaterThanOrEqual{BinaryNode: b}
}
func add(b ast.BinaryNode) ast.IsNode         { return ast.NodeTypeAdd{BinaryNode: b} }
func subtract(b ast.BinaryNode) ast.IsNode    { return ast.NodeTypeSub{BinaryNode: b} }
func containsAll(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeContainsAll{BinaryNode: b} }
func containsAny(b ast.BinaryNode) ast.IsNode { return ast.NodeTypeContainsAny{BinaryNode: b} }

// turned says what each operator becomes: one kind looser or tighter.
func turned(n ast.IsNode) (to maker, from, name string) {
	switch n.(type) {
	case ast.NodeTypeAnd:
		return or, "&&", "||"
	case ast.NodeTypeOr:
		return and, "||", "&&"
	case ast.NodeTypeEquals:
		return notEquals, "==", "!="
	case ast.NodeTypeNotEquals:
		return equals, "!=", "=="
	case ast.NodeTypeLessThan:
		return lessOrEqual, "<", "<="
	case ast.NodeTypeLessThanOrEqual:
		return less, "<=", "<"
	case ast.NodeTypeGreaterThan:
		return greaterOrEqual, ">", ">="
	case ast.NodeTypeGreaterThanOrEqual:
		return greater, ">=", ">"
	case ast.NodeTypeAdd:
		return subtract, "+", "-"
	case ast.NodeTypeSub:
		return add, "-", "+"
	case ast.NodeTypeContainsAll:
		return containsAny, "containsAll", "containsAny"
	case ast.NodeTypeContainsAny:
		return containsAll, "containsAny", "containsAll"
	}
	return nil, "", ""
}

// turnedCalls likewise, for the comparisons of Cedar's extensions.
var turnedCalls = map[string]string{
	"lessThan": "lessThanOrEqual", "lessThanOrEqual": "lessThan",
	"greaterThan": "greaterThanOrEqual", "greaterThanOrEqual": "greaterThan",
}
