package policy

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// text writes e in Cedar, for messages and to tell expressions apart. Equal
// texts mean equal expressions.
func (e *expr) text() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e *expr) write(b *strings.Builder) {
	switch n := e.node.(type) {
	case ast.NodeValue:
		b.Write(n.Value.MarshalCedar())
	case ast.NodeTypeVariable:
		b.WriteString(string(n.Name))
	case ast.NodeTypeAccess:
		e.args[0].operand(b)
		b.WriteString(memberText(n.Value))
	case ast.NodeTypeHas:
		e.args[0].operand(b)
		b.WriteString(" has " + nameText(n.Value))
	case ast.NodeTypeLike:
		e.args[0].operand(b)
		b.WriteString(" like ")
		b.Write(n.Value.MarshalCedar())
	case ast.NodeTypeIs:
		e.args[0].operand(b)
		b.WriteString(" is " + string(n.EntityType))
	case ast.NodeTypeIsIn:
		e.args[0].operand(b)
		b.WriteString(" is " + string(n.EntityType) + " in ")
		e.args[1].operand(b)
	case ast.NodeTypeNot:
		b.WriteByte('!')
		e.args[0].operand(b)
	case ast.NodeTypeNegate:
		b.WriteByte('-')
		e.args[0].operand(b)
	case ast.NodeTypeIfThenElse:
		b.WriteString("if ")
		e.args[0].operand(b)
		b.WriteString(" then ")
		e.args[1].operand(b)
		b.WriteString(" else ")
		e.args[2].operand(b)
	case ast.NodeTypeSet:
		b.WriteByte('[')
		writeList(b, e.args)
		b.WriteByte(']')
	case ast.NodeTypeRecord:
		b.WriteByte('{')
		for i, member := range n.Elements {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(nameText(member.Key) + ": ")
			e.args[i].write(b)
		}
		b.WriteByte('}')
	default:
		e.writeCall(b)
	}
}

// writeCall writes an infix operator, a method or a function.
func (e *expr) writeCall(b *strings.Builder) {
	if _, _, operator := binary(e.node); operator != "" {
		e.args[0].operand(b)
		b.WriteString(" " + operator + " ")
		e.args[1].operand(b)
		return
	}
	_, _, name := method(e.node)
	args := e.args
	if call, ok := e.node.(ast.NodeTypeExtensionCall); ok {
		name = string(call.Name)
		if isConstructor(call.Name) {
			b.WriteString(name + "(")
			writeList(b, args)
			b.WriteByte(')')
			return
		}
	}
	if len(args) > 0 {
		args[0].operand(b)
		args = args[1:]
	}
	b.WriteString("." + name + "(")
	writeList(b, args)
	b.WriteByte(')')
}

// operand writes e, in brackets unless it is a chain or a literal.
func (e *expr) operand(b *strings.Builder) {
	switch e.node.(type) {
	case ast.NodeValue, ast.NodeTypeVariable, ast.NodeTypeAccess, ast.NodeTypeSet, ast.NodeTypeRecord, ast.NodeTypeExtensionCall,
		ast.NodeTypeContains, ast.NodeTypeContainsAll, ast.NodeTypeContainsAny, ast.NodeTypeIsEmpty, ast.NodeTypeGetTag, ast.NodeTypeHasTag:
		e.write(b)
	default:
		b.WriteByte('(')
		e.write(b)
		b.WriteByte(')')
	}
}

func writeList(b *strings.Builder, list []*expr) {
	for i, e := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		e.write(b)
	}
}

// memberText writes .name, or ["name"] where the name is no identifier.
func memberText(name types.String) string {
	if isName(string(name)) {
		return "." + string(name)
	}
	return "[" + string(name.MarshalCedar()) + "]"
}

func nameText(name types.String) string {
	if isName(string(name)) {
		return string(name)
	}
	return string(name.MarshalCedar())
}

// isName reports whether s can stand in a policy as an attribute's name
// without quotes.
func isName(s string) bool {
	if s == "" || isDigitByte(s[0]) || quoteHint(s) != "" || s == "__cedar" {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !isWordByte(s[i]) {
			return false
		}
	}
	return true
}

// negatedText writes in Cedar that e doesn't hold.
func negatedText(e *expr) string {
	var b strings.Builder
	left, _, operator := binary(e.node)
	if opposite := negated[operator]; opposite != "" && left != nil {
		e.args[0].operand(&b)
		b.WriteString(" " + opposite + " ")
		e.args[1].operand(&b)
		return b.String()
	}
	switch n := e.node.(type) {
	case ast.NodeTypeNot:
		return e.args[0].text()
	case ast.NodeTypeExtensionCall:
		if opposite := decimalMethods[negated[operators[n.Name]]]; opposite != "" && len(e.args) == 2 {
			e.args[0].operand(&b)
			b.WriteString("." + opposite + "(")
			writeList(&b, e.args[1:])
			b.WriteByte(')')
			return b.String()
		}
	}
	b.WriteByte('!')
	e.operand(&b)
	return b.String()
}
