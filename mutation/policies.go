package mutation

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ/policy"
)

// policyMutant is one changed policy.
type policyMutant struct {
	of   *policy.Policy
	name string // unique among the policy's mutants
	text []byte // empty: the policy is dropped
	// same says that the text is that of the policy itself.
	same bool
}

// mutatedCode is the code of a permit that is made a forbid.
const mutatedCode = "MUTANT"

// mutantsOf lists the mutants of one policy, each text once, in the order in
// which the policy reads.
// Approving says that it is about approving, not about calls.
func mutantsOf(p *policy.Policy, approving bool, ids func(types.EntityType) []string) ([]policyMutant, error) {
	original, err := parse(p.Text)
	if err != nil {
		return nil, err
	}
	g := &policyMutator{of: p, approving: approving, ids: ids, original: original, text: write(original), seen: map[string]bool{}, names: map[string]int{}}
	again, err := parse(g.text)
	if err != nil || !bytes.Equal(write(again), g.text) {
		return nil, fmt.Errorf("policy %s can't be written as it was read", p.ID)
	}
	g.policy()
	return g.out, nil
}

type policyMutator struct {
	of        *policy.Policy
	approving bool
	ids       func(types.EntityType) []string
	original  *ast.Policy
	text      []byte // of original, as every mutant is written
	seen      map[string]bool
	names     map[string]int
	out       []policyMutant
}

// add notes a mutant. A text that is there already is not a further mutant.
func (g *policyMutator) add(name string, p *ast.Policy) {
	text := write(p)
	if g.seen[string(text)] {
		return
	}
	g.seen[string(text)] = true
	g.put(name, text)
}

func (g *policyMutator) put(name string, text []byte) {
	g.names[name]++
	if n := g.names[name]; n > 1 {
		name += fmt.Sprintf(" (%d)", n)
	}
	g.out = append(g.out, policyMutant{g.of, name, text, bytes.Equal(text, g.text)})
}

func (g *policyMutator) policy() {
	g.put("policy dropped", nil)
	g.effect()
	g.review()
	g.scopes()
	for i, c := range g.original.Conditions {
		word := "when"
		if c.Condition == ast.ConditionUnless {
			word = "unless"
		}
		body := abridged(show(c.Body))
		p := *g.original
		p.Conditions = without(p.Conditions, i)
		g.add(word+" removed: "+body, &p)
		p.Conditions = replaced(g.original.Conditions, i, ast.ConditionType{Condition: !c.Condition, Body: c.Body})
		g.add("when and unless exchanged: "+body, &p)
		g.expression(c.Body, func(name string, body ast.IsNode) {
			p := *g.original
			p.Conditions = replaced(g.original.Conditions, i, ast.ConditionType{Condition: c.Condition, Body: body})
			g.add(name, &p)
		})
	}
}

// effect flips the effect, with the annotations that the other needs.
func (g *policyMutator) effect() {
	p := *g.original
	p.Effect = !p.Effect
	if p.Effect == ast.EffectPermit {
		p.Annotations = slices.DeleteFunc(slices.Clone(p.Annotations), func(a ast.AnnotationType) bool {
			return a.Key == "code" || a.Key == "review" || a.Key == "absent"
		})
		g.add("effect flipped: forbid → permit", &p)
		return
	}
	p.Annotations = append(slices.Clone(p.Annotations), ast.AnnotationType{Key: "code", Value: mutatedCode})
	g.add("effect flipped: permit → forbid", &p)
}

// review changes what lifts a forbid: fewer or more people, or nobody.
func (g *policyMutator) review() {
	set := func(name, drop, key, value string) {
		p := *g.original
		p.Annotations = slices.Clone(p.Annotations)
		for i, a := range p.Annotations {
			if string(a.Key) == drop {
				p.Annotations[i] = ast.AnnotationType{Key: types.AnnotationKey(key), Value: types.String(value)}
			}
		}
		g.add(name, &p)
	}
	n := g.of.Review
	switch {
	case g.of.Effect == types.Permit || g.approving:
		return
	case n == 0:
		set(`@code → @review("1")`, "code", "review", "1")
		return
	case n < 9:
		set(fmt.Sprintf("@review %d → %d", n, n+1), "review", "review", strconv.Itoa(n+1))
	}
	if n > 1 {
		set(fmt.Sprintf("@review %d → %d", n, n-1), "review", "review", strconv.Itoa(n-1))
	}
	set("@review → @code", "review", "code", mutatedCode)
}

// scopes widens each part of the scope.
func (g *policyMutator) scopes() {
	for _, to := range widened(g.original.Principal) {
		if scope, ok := to.(ast.IsPrincipalScopeNode); ok {
			p := *g.original
			p.Principal = scope
			g.add("principal widened: "+scopeText("principal", g.original.Principal)+" → "+scopeText("principal", to), &p)
		}
	}
	for _, to := range widenedAction(g.original.Action) {
		p := *g.original
		p.Action = to
		g.add("action widened: "+scopeText("action", g.original.Action)+" → "+scopeText("action", to), &p)
	}
	if set, ok := g.original.Action.(ast.ScopeTypeInSet); ok && len(set.Entities) > 1 {
		for i, uid := range set.Entities {
			p := *g.original
			p.Action = ast.ScopeTypeInSet{Entities: without(set.Entities, i)}
			g.add("action dropped: "+uid.String(), &p)
		}
	}
	for _, to := range widened(g.original.Resource) {
		if scope, ok := to.(ast.IsResourceScopeNode); ok {
			p := *g.original
			p.Resource = scope
			g.add("resource widened: "+scopeText("resource", g.original.Resource)+" → "+scopeText("resource", to), &p)
		}
	}
}

// widened lists wider scopes for a principal or a resource.
func widened(s ast.IsScopeNode) []ast.IsScopeNode {
	switch s := s.(type) {
	case ast.ScopeTypeEq:
		return []ast.IsScopeNode{ast.ScopeTypeIs{Type: s.Entity.Type}, ast.ScopeTypeAll{}}
	case ast.ScopeTypeIn:
		return []ast.IsScopeNode{ast.ScopeTypeAll{}}
	case ast.ScopeTypeIs:
		return []ast.IsScopeNode{ast.ScopeTypeAll{}}
	case ast.ScopeTypeIsIn:
		return []ast.IsScopeNode{ast.ScopeTypeIs{Type: s.Type}, ast.ScopeTypeIn{Entity: s.Entity}}
	}
	return nil
}

// widenedAction lists wider action scopes: the group around a tool or around
// an effect of a server, and every call.
func widenedAction(s ast.IsActionScopeNode) []ast.IsActionScopeNode {
	var around string
	switch s := s.(type) {
	case ast.ScopeTypeEq:
		around = groupOf(string(s.Entity.ID))
	case ast.ScopeTypeIn:
		around = groupOf(string(s.Entity.ID))
	case ast.ScopeTypeInSet:
	default:
		return nil
	}
	var out []ast.IsActionScopeNode
	if around != "" {
		out = append(out, ast.ScopeTypeIn{Entity: types.NewEntityUID("Action", types.String(around))})
	}
	return append(out, ast.ScopeTypeAll{})
}

// groupOf is the next group around an action or group: S/T#m, S/T, S;
// approve:S/T, approve; S:read, S.
func groupOf(id string) string {
	if strings.HasPrefix(id, "approve:") {
		return "approve"
	}
	if tool, _, ok := strings.Cut(id, "#"); ok {
		return tool
	}
	if server, _, ok := strings.Cut(id, "/"); ok {
		return server
	}
	if server, _, ok := strings.Cut(id, ":"); ok {
		return server
	}
	return ""
}

func scopeText(variable string, s ast.IsScopeNode) string {
	switch s := s.(type) {
	case ast.ScopeTypeEq:
		return variable + " == " + s.Entity.String()
	case ast.ScopeTypeIn:
		return variable + " in " + s.Entity.String()
	case ast.ScopeTypeInSet:
		list := make([]string, len(s.Entities))
		for i, uid := range s.Entities {
			list[i] = uid.String()
		}
		return variable + " in [" + strings.Join(list, ", ") + "]"
	case ast.ScopeTypeIs:
		return variable + " is " + string(s.Type)
	case ast.ScopeTypeIsIn:
		return variable + " is " + string(s.Type) + " in " + s.Entity.String()
	}
	return variable
}

// expression mutates n and everything under it. put is given the whole
// condition's body with the change in it.
func (g *policyMutator) expression(n ast.IsNode, put func(name string, body ast.IsNode)) {
	g.operator(n, put)
	g.literal(n, put)
	if call, ok := n.(ast.NodeTypeExtensionCall); ok && constructor(string(call.Name)) {
		return // what is in it is one literal
	}
	for i, child := range children(n) {
		g.expression(child, func(name string, changed ast.IsNode) { put(name, with(n, i, changed)) })
	}
}

func constructor(name string) bool {
	return name == "decimal" || name == "datetime" || name == "duration" || name == "ip"
}

// operator drops operands and turns operators.
func (g *policyMutator) operator(n ast.IsNode, put func(string, ast.IsNode)) {
	if to, from, name := turned(n); to != nil {
		left, right, _ := binary(n)
		put(fmt.Sprintf("%s → %s: %s", from, name, abridged(show(n))), to(ast.BinaryNode{Left: left, Right: right}))
	}
	drop := func(what string, dropped, kept ast.IsNode) {
		if isGuard(dropped) {
			what = "guard"
		}
		put(what+" dropped: "+abridged(show(dropped)), kept)
	}
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		if _, chain := n.Left.(ast.NodeTypeAnd); !chain {
			drop("conjunct", n.Left, n.Right)
		}
		drop("conjunct", n.Right, n.Left)
	case ast.NodeTypeOr:
		if _, chain := n.Left.(ast.NodeTypeOr); !chain {
			drop("disjunct", n.Left, n.Right)
		}
		drop("disjunct", n.Right, n.Left)
	case ast.NodeTypeNot:
		put("! removed: "+abridged(show(n)), n.Arg)
	case ast.NodeTypeIfThenElse:
		put("then and else exchanged: "+abridged(show(n)), ast.NodeTypeIfThenElse{If: n.If, Then: n.Else, Else: n.Then})
	case ast.NodeTypeIsIn:
		put("in dropped: "+abridged(show(n)), n.NodeTypeIs)
	case ast.NodeTypeSet:
		for i, e := range n.Elements {
			put("element dropped: "+abridged(show(e)), ast.NodeTypeSet{Elements: without(n.Elements, i)})
		}
	case ast.NodeTypeExtensionCall:
		if to, ok := turnedCalls[string(n.Name)]; ok {
			turned := n
			turned.Name = types.Path(to)
			put(fmt.Sprintf("%s → %s: %s", n.Name, to, abridged(show(n))), turned)
		}
	case ast.NodeTypeVariable:
		if n.Name == "principal" {
			put("principal → context.principal", ast.NodeTypeAccess{StrOpNode: ast.StrOpNode{Arg: ast.NodeTypeVariable{Name: "context"}, Value: "principal"}})
		}
	case ast.NodeTypeAccess:
		// A forbid is asked for the principal, too: there it would be no other.
		if v, ok := n.Arg.(ast.NodeTypeVariable); ok && v.Name == "context" && n.Value == "principal" && g.of.Effect == types.Permit {
			put("context.principal → principal", ast.NodeTypeVariable{Name: "principal"})
		}
	}
}

// isGuard reports whether n asks only for the presence of attributes.
func isGuard(n ast.IsNode) bool {
	switch n := n.(type) {
	case ast.NodeTypeHas, ast.NodeTypeHasTag:
		return true
	case ast.NodeTypeAnd:
		return isGuard(n.Left) && isGuard(n.Right)
	}
	return false
}

// literal changes literals by one step.
func (g *policyMutator) literal(n ast.IsNode, put func(string, ast.IsNode)) {
	to := func(changed ast.IsNode) { put(fmt.Sprintf("%s → %s", show(n), show(changed)), changed) }
	switch n := n.(type) {
	case ast.NodeTypeExtensionCall:
		if !constructor(string(n.Name)) || len(n.Args) != 1 {
			return
		}
		v, ok := n.Args[0].(ast.NodeValue)
		text, isText := v.Value.(types.String)
		if !ok || !isText {
			return
		}
		for _, next := range steps(string(n.Name), string(text)) {
			to(ast.NodeTypeExtensionCall{Name: n.Name, Args: []ast.IsNode{ast.NodeValue{Value: types.String(next)}}})
		}
	case ast.NodeValue:
		switch v := n.Value.(type) {
		case types.Long:
			to(ast.NodeValue{Value: v + 1})
			to(ast.NodeValue{Value: v - 1})
		case types.Boolean:
			to(ast.NodeValue{Value: !v})
		case types.String:
			to(ast.NodeValue{Value: v + "~"})
		case types.EntityUID:
			if other, ok := another(g.ids(v.Type), string(v.ID)); ok {
				to(ast.NodeValue{Value: types.NewEntityUID(v.Type, types.String(other))})
			}
		}
	case ast.NodeTypeLike:
		for _, pattern := range patterns(n.Value) {
			changed := n
			changed.Value = pattern
			to(changed)
		}
	}
}

// another returns the id after id, of a sorted list; the first after the last.
func another(ids []string, id string) (string, bool) {
	if len(ids) == 0 || len(ids) == 1 && ids[0] == id {
		return "", false
	}
	i, found := slices.BinarySearch(ids, id)
	if found {
		i++
	}
	return ids[i%len(ids)], true
}

// decimalStep is the smallest step of Cedar's decimals: four places.
const decimalStep = 1

// steps returns the literals one step up and down.
func steps(kind, text string) []string {
	var out []string
	switch kind {
	case "decimal":
		if n, ok := tenThousandths(text); ok {
			for _, d := range []int64{n + decimalStep, n - decimalStep} {
				out = append(out, decimalText(d))
			}
		}
	case "duration":
		if d, err := types.ParseDuration(text); err == nil {
			for _, ms := range []int64{d.ToMilliseconds() + 1000, d.ToMilliseconds() - 1000} {
				out = append(out, types.NewDurationFromMillis(ms).String())
			}
		}
	case "datetime":
		if d, err := types.ParseDatetime(text); err == nil {
			for _, step := range []time.Duration{time.Second, -time.Second} {
				out = append(out, types.NewDatetime(d.Time().Add(step)).String())
			}
		}
	}
	return out
}

// tenThousandths reads a decimal as a count of its smallest step.
func tenThousandths(text string) (int64, bool) {
	d, err := types.ParseDecimal(text)
	if err != nil {
		return 0, false
	}
	whole, fraction, _ := strings.Cut(d.String(), ".")
	n, err := strconv.ParseInt(whole+(fraction + "0000")[:4], 10, 64)
	return n, err == nil
}

// decimalText writes such a count with as few places as it needs, at least one.
func decimalText(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	fraction := strings.TrimRight(fmt.Sprintf("%04d", n%10000), "0")
	if fraction == "" {
		fraction = "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, n/10000, fraction)
}

// patterns returns a pattern with a wildcard more at its end, and without its
// first one.
func patterns(p types.Pattern) []types.Pattern {
	text := strings.Trim(string(p.MarshalCedar()), `"`)
	if strings.Contains(text, `\`) {
		return nil // escapes: not worth reading here
	}
	var out []types.Pattern
	make := func(text string) {
		var parts []any
		for i, literal := range strings.Split(text, "*") {
			if i > 0 {
				parts = append(parts, types.Wildcard{})
			}
			if literal != "" {
				parts = append(parts, literal)
			}
		}
		out = append(out, types.NewPattern(parts...))
	}
	if !strings.HasSuffix(text, "*") {
		make(text + "*")
	}
	if i := strings.Index(text, "*"); i >= 0 {
		make(text[:i] + text[i+1:])
	}
	return out
}

// abridged cuts a text that is too long for a line.
func abridged(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return text
}
