package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
)

// Limits on the texts that cedar-go is given. Its parser, compiler, validator
// and printer recurse, and a stack overflow ends the process; besides, parts
// of them take time or memory that is exponential or cubic in the counts
// below. A person's policy comes nowhere near any of them.
const (
	maxFileBytes   = 1 << 20
	maxPolicyBytes = 64 << 10 // of one policy, from its first annotation to its semicolon

	// maxNesting bounds, together, the brackets around a token, the `if`s
	// that it is part of, the unary operators before it and the members that
	// lead to it.
	maxNesting = 64
	// maxChain bounds the operators && || + - * between two commas or
	// brackets: they make a tree as deep as they are many.
	maxChain = 256
	// maxOperators bounds the operators of one policy. The validator's
	// messages hold whole record types, once for each wrong operator.
	maxOperators = 1024
	// maxConditions bounds the when and unless of one policy.
	maxConditions = 64
	// maxHas bounds `has`, each of its members, and hasTag in one policy: the
	// validator compares every guard with every other at each step.
	maxHas = 64
	// maxMembers bounds a chain a.b.c, together with the chains in brackets
	// before its end. The validator checks the whole chain anew for each
	// optional member, so that its time doubles with each.
	maxMembers = 12
	// maxChainWork bounds the sum of 2^members over all chains of a policy,
	// for the same reason: 32 chains of twelve, or 4096 of five.
	maxChainWork = 1 << 17
	// maxIsIn bounds `is … in` inside the left side of another: the
	// validator reports what is wrong there twice at each level.
	maxIsIn = 4
	// maxHasCopies bounds how often `has a.b.c` repeats what stands left of
	// it, which it does once for each member, and again in an enclosing one.
	maxHasCopies = 64
	// maxActions bounds the action list of a scope.
	maxActions = 256
	// maxInnerSets bounds the sets inside sets of one policy. Cedar-go's hash
	// of a set is the sum of its elements', so that many sets may share one.
	maxInnerSets = 256
)

// checkLimits returns the first place at which a policy file or a schema
// (a file whose name ends in .cedarschema) exceeds what cedar-go can be
// trusted with, or nil. It must accept a text before any parser sees it.
// What is wrong with the text otherwise is left to the parser.
func checkLimits(src Source) *writ.Fault {
	if f := checkText(src); f != nil {
		return f
	}
	if strings.HasSuffix(src.File, ".cedarschema") {
		return checkSchemaLimits(src)
	}
	tokens, _ := scan(src.Text, policyLanguage)
	m := meter{src: src, tokens: tokens}
	m.reset(0)
	for i := range tokens {
		if message := m.step(i); message != "" {
			f := faultAt(src, int(tokens[i].start), message)
			return &f
		}
		if m.stop {
			return nil
		}
	}
	return nil
}

// checkText returns what keeps a file from being looked at, or nil.
func checkText(src Source) *writ.Fault {
	if len(src.Text) > maxFileBytes {
		return &writ.Fault{File: src.File, Message: fmt.Sprintf("the file has %d bytes, and %d are allowed: split it", len(src.Text), maxFileBytes)}
	}
	if i := badText(src.Text); i >= 0 {
		f := faultAt(src, i, "this is not valid UTF-8")
		if src.Text[i] == 0 {
			f.Message = "a NUL character may not stand in a file"
		}
		return &f
	}
	return nil
}

// badText returns the offset of the first NUL or byte that is not UTF-8, or -1.
func badText(text []byte) int {
	i := bytes.IndexByte(text, 0)
	if i < 0 {
		i = len(text)
	}
	for j := 0; j < i; {
		r, size := utf8.DecodeRune(text[j:])
		if r == utf8.RuneError && size == 1 {
			return j
		}
		j += size
	}
	if i < len(text) {
		return i
	}
	return -1
}

// meter measures one policy after the other, token by token. It needs no
// grammar: each measure is at least what the parsed policy will have.
type meter struct {
	src    Source
	tokens []token
	// stop says that no parser will get past the token at hand.
	stop bool

	start      int // offset of the policy's first token
	stack      []bracket
	conditions int
	has        int
	operators  int
	work       int
	innerSets  int
	is         bool // between `is` and the end of the type's name
	hasMembers int  // of the `has a.b.c` at hand
}

// bracket is what is known about the innermost open bracket, or about the
// policy itself.
type bracket struct {
	open  string
	depth int // of nesting outside
	// The expression at hand, which ends at a comma or a bracket.
	ifs, unary, members, names, chain int
	commas                            int
	// The greatest of everything inside so far.
	most struct{ members, copies, isIn int }
	// The greatest of the closed brackets inside so far.
	closed struct{ copies, isIn int }
}

func (m *meter) reset(start int) {
	*m = meter{src: m.src, tokens: m.tokens, start: start, stack: append(m.stack[:0], bracket{})}
}

func (m *meter) top() *bracket { return &m.stack[len(m.stack)-1] }

func (b *bracket) nesting() int { return b.depth + b.ifs + b.unary + b.members }

// step takes token i and says what it exceeds, or nothing.
func (m *meter) step(i int) string {
	t := m.tokens[i]
	if size := int(t.end) - m.start; size > maxPolicyBytes {
		return fmt.Sprintf("this policy goes on for more than %d bytes: split it", maxPolicyBytes)
	}
	top := m.top()
	switch text := t.text(m.src.Text); {
	case t.kind == tokenWord:
		return m.word(i, text)
	case t.kind != tokenOperator:
	case text == "(" || text == "[" || text == "{":
		return m.open(i, text)
	case text == ")" || text == "]" || text == "}":
		m.close(text)
	case text == ",":
		if top.commas++; top.open == "[" && m.conditions == 0 && top.commas >= maxActions {
			return fmt.Sprintf("more than %d actions in one list: name a group, or split the policy", maxActions)
		}
		m.endExpression()
	case text == ";":
		if len(m.stack) > 1 {
			m.stop = true
		} else if i+1 < len(m.tokens) {
			m.reset(int(m.tokens[i+1].start))
		}
	case text == "::":
		if top.names++; top.names > maxNesting {
			return fmt.Sprintf("a name of more than %d parts", maxNesting)
		}
	case text == ".":
		return m.member()
	case text == "!" || text == "-" && !m.operand(i-1):
		top.unary++
		return m.nested()
	default:
		return m.operator(text)
	}
	return ""
}

// word takes an identifier or reserved word.
func (m *meter) word(i int, text string) string {
	top := m.top()
	switch text {
	case "when", "unless":
		if len(m.stack) > 1 {
			return ""
		}
		m.endExpression()
		if m.conditions++; m.conditions > maxConditions {
			return fmt.Sprintf("more than %d conditions in one policy: join them with &&, or split the policy", maxConditions)
		}
	case "if":
		if m.constant(i + 1) {
			return "this `if` always takes the same branch: write that branch alone"
		}
		top.ifs++
		return m.nested()
	case "then", "else":
		top.unary, top.members, top.names = 0, 0, 0
	case "in":
		if m.is {
			top.most.isIn = max(top.most.isIn, 1+top.closed.isIn)
			if top.most.isIn > maxIsIn {
				return fmt.Sprintf("`is … in` inside more than %d others", maxIsIn-1)
			}
		}
		return m.operator(text)
	case "like":
		return m.operator(text)
	case "is":
		message := m.operator(text)
		m.is = true
		return message
	case "has":
		members := top.members
		message := m.operator(text)
		top.members = members // has a.b.c goes on with the chain on its left
		if message == "" {
			message = m.guard()
		}
		if message == "" {
			message = m.member()
		}
		m.hasMembers = 1
		return message
	case "hasTag":
		return m.guard()
	}
	return ""
}

func (m *meter) guard() string {
	if m.has++; m.has > maxHas {
		return fmt.Sprintf("more than %d `has` in one policy (each member counts): split the policy", maxHas)
	}
	return ""
}

// member takes one step of a chain such as a.b.c or a["b"], or of has a.b.
func (m *meter) member() string {
	top := m.top()
	top.members++
	top.most.members = max(top.most.members, top.members)
	if m.hasMembers > 0 {
		if message := m.hasMember(); message != "" {
			return message
		}
	}
	if top.members > maxMembers {
		return fmt.Sprintf("a chain of more than %d members", maxMembers)
	}
	if m.work += 1 << (top.members - 1); m.work > maxChainWork {
		return "too many long chains of members in one policy: split the policy"
	}
	return m.nested()
}

// hasMember takes the second or a later member of has a.b.c.
func (m *meter) hasMember() string {
	top := m.top()
	m.hasMembers++
	top.most.copies = max(top.most.copies, m.hasMembers*max(1, top.closed.copies))
	if top.most.copies > maxHasCopies {
		return "`has` with several members, inside others of its kind: write the guards one by one"
	}
	return m.guard()
}

// operator takes a binary operator.
func (m *meter) operator(text string) string {
	top := m.top()
	top.unary, top.members, top.names = 0, 0, 0
	m.is, m.hasMembers = false, 0
	if m.operators++; m.operators > maxOperators {
		return fmt.Sprintf("more than %d operators in one policy: split the policy", maxOperators)
	}
	switch text {
	case "&&", "||", "+", "-", "*":
		if top.chain++; top.chain > maxChain {
			return fmt.Sprintf("more than %d operators in a row: use a set and contains, or split the policy", maxChain)
		}
	}
	return ""
}

// open takes an opening bracket.
func (m *meter) open(i int, text string) string {
	if text == "[" && m.operand(i-1) { // an index
		if message := m.member(); message != "" {
			return message
		}
	}
	if text == "[" && !m.operand(i-1) && slices.ContainsFunc(m.stack, func(b bracket) bool { return b.open == "[" }) {
		if m.innerSets++; m.innerSets > maxInnerSets {
			return fmt.Sprintf("more than %d sets inside sets: use a set of texts, or split the policy", maxInnerSets)
		}
	}
	m.is, m.hasMembers = false, 0
	m.stack = append(m.stack, bracket{open: text, depth: m.top().nesting() + 1})
	return m.nested()
}

// close takes a closing bracket. Members after it go on with the chains
// inside it.
func (m *meter) close(text string) {
	inner := m.top()
	if len(m.stack) == 1 || closing(inner.open) != text {
		m.stop = true
		return
	}
	m.stack = m.stack[:len(m.stack)-1]
	m.is, m.hasMembers = false, 0
	outer := m.top()
	outer.members = max(outer.members, inner.most.members)
	outer.most.members = max(outer.most.members, inner.most.members)
	outer.most.isIn = max(outer.most.isIn, inner.most.isIn)
	outer.most.copies = max(outer.most.copies, inner.most.copies)
	outer.closed.isIn = max(outer.closed.isIn, inner.most.isIn)
	outer.closed.copies = max(outer.closed.copies, inner.most.copies)
}

func (m *meter) endExpression() {
	top := m.top()
	top.ifs, top.unary, top.members, top.names, top.chain = 0, 0, 0, 0, 0
	m.is, m.hasMembers = false, 0
}

func (m *meter) nested() string {
	if m.top().nesting() > maxNesting {
		return fmt.Sprintf("more than %d brackets, `if`s, signs and members inside each other", maxNesting)
	}
	return ""
}

// operand reports whether token i ends an operand, so that what follows is a
// binary operator or an index.
func (m *meter) operand(i int) bool {
	if i < 0 {
		return false
	}
	t := m.tokens[i]
	switch text := t.text(m.src.Text); t.kind {
	case tokenInt, tokenString:
		return true
	case tokenWord:
		switch text {
		case "if", "then", "else", "in", "like", "has", "is":
			return false
		}
		return true
	case tokenOperator:
		return text == ")" || text == "]" || text == "}"
	}
	return false
}

// constant reports whether the condition that starts at token i is true or
// false, in brackets or not. The validator prints the taken branch of such an
// `if` twice, and so on inward.
func (m *meter) constant(i int) bool {
	text := func() string {
		if i < len(m.tokens) {
			return m.tokens[i].text(m.src.Text)
		}
		return ""
	}
	for text() == "(" {
		i++
	}
	if text() != "true" && text() != "false" {
		return false
	}
	for i++; text() == ")"; {
		i++
	}
	return text() == "then"
}

func closing(open string) string {
	switch open {
	case "(":
		return ")"
	case "[":
		return "]"
	}
	return "}"
}
