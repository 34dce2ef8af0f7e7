package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/writ-pdp/writ/canon"
)

// MaxVisits is how many schema visits the validation of one call may take: the
// product of values and of the schemas that look at them.
const MaxVisits = 10_000

// regexCost is what it costs to judge a text of format regex, which takes
// compiling it.
const regexCost = 500

// errExhausted fails every visit after the budget is exhausted, so that the
// library unwinds at once. What it makes of such failures (a not turns them
// round) is never looked at.
var errExhausted = errors.New("budget exhausted")

// refused is why a guard refuses a value. Each is made with its schema, so
// that refusing allocates nothing.
type refused struct {
	keyword string // that the value breaks
	want    string // what the schema wants: must be …
}

func (r *refused) Error() string { return r.want }

// What no schema's own words are needed for.
var (
	notInteger  = &refused{"type", "must be a whole number"}
	notDistinct = &refused{"uniqueItems", "must not hold the same element twice"}
)

// guard stands at one schema of a validator. It is called for each value that
// the schema visits, before the library descends into it: it sits in the
// schema's format, the one keyword that is checked for every value, before
// $ref and all that visits others, in every dialect. (Extensions run only when a schema's
// own keywords are done, and not at all for some failures: too late to count.)
//
// A visit is charged by the schema that makes it, before it makes it, so that
// also visits which fail at their type are counted.
//
// Keywords that would cost more than a comparison before or beside the count are
// taken out of the compiled schema and checked here: enum and const (the
// library compares with each value), uniqueItems (quadratic on crafted arrays),
// integer and the bounds (the library makes rationals).
type guard struct {
	v      *validator
	format func(any) error // nil: none that is known

	fixed      int // share of the lists that are gone through at each visit
	inPlace    int // visits of the same value
	properties int // visits of at most so many members
	perMember  int // visits of every member
	prefix     int // visits of at most so many elements
	perElement int // visits of every element

	enum, constant             *valueSet
	noEnum, noConst, badFormat *refused
	integer                    bool
	bounds                     []bound
	rational                   bool // multipleOf
	unique                     bool
}

// guard is a vocabulary's Compile: it is called for every schema of the
// document that is not a boolean, when its own keywords are compiled.
func (v *validator) guard(ctx *jsonschema.CompilerContext, object map[string]any) (jsonschema.SchemaExt, error) {
	s := ctx.Enqueue(nil) // the schema itself
	if err := checkKeywords(s, object); err != nil {
		return nil, err
	}
	for name := range s.Properties {
		v.declared[name] = true
	}
	g := &guard{v: v}
	g.count(s)
	g.takeOver(s)
	name := ""
	if s.Format != nil {
		name, g.format = s.Format.Name, s.Format.Validate
		g.badFormat = &refused{"format", "must have the format " + shown(name)}
	}
	s.Format = &jsonschema.Format{Name: name, Validate: g.visit}
	return nil, nil
}

// count works out how many visits s makes.
func (g *guard) count(s *jsonschema.Schema) {
	one := func(subs ...*jsonschema.Schema) (n int) {
		for _, sub := range subs {
			if sub != nil {
				n++
			}
		}
		return n
	}
	g.inPlace = one(s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else) +
		len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.DependentSchemas) + len(s.Dependencies)
	if s.DynamicRef != nil {
		g.inPlace++
	}
	g.fixed = len(s.Required) + len(s.DependentRequired)
	for _, names := range s.DependentRequired {
		g.fixed += len(names)
	}
	for _, dep := range s.Dependencies {
		if names, ok := dep.([]string); ok {
			g.fixed += len(names)
		}
	}
	g.fixed /= 16
	if s.Format != nil && s.Format.Name == "regex" {
		g.fixed += regexCost
	}
	g.properties = len(s.Properties)
	g.perMember = len(s.PatternProperties) + one(s.PropertyNames, s.UnevaluatedProperties)
	if _, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		g.perMember++
	}
	g.prefix = len(s.PrefixItems)
	g.perElement = one(s.Items2020, s.Contains, s.UnevaluatedItems)
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		g.perElement++
	case []*jsonschema.Schema:
		g.prefix += len(items)
	}
	if _, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
		g.perElement++
	}
	if s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil {
		g.v.unevaluated = true
	}
}

// takeOver moves the keywords that the guard checks out of s.
func (g *guard) takeOver(s *jsonschema.Schema) {
	if s.Enum != nil {
		g.noEnum = &refused{"enum", mustBeOneOf(s.Enum.Values)}
		g.enum, s.Enum = newValueSet(s.Enum.Values), nil
	}
	if s.Const != nil {
		g.noConst = &refused{"const", mustBeOneOf([]any{*s.Const})}
		g.constant, s.Const = newValueSet([]any{*s.Const}), nil
	}
	g.unique, s.UniqueItems = s.UniqueItems, false
	g.rational = s.MultipleOf != nil
	for _, b := range [...]struct {
		keyword, words string
		at             **big.Rat
	}{
		{"minimum", "must be at least ", &s.Minimum}, {"maximum", "must be at most ", &s.Maximum},
		{"exclusiveMinimum", "must be more than ", &s.ExclusiveMinimum}, {"exclusiveMaximum", "must be less than ", &s.ExclusiveMaximum},
	} {
		if *b.at != nil {
			limit, _ := (*b.at).Float64()
			g.bounds = append(g.bounds, bound{&refused{b.keyword, b.words + ratText(*b.at)}, limit})
			*b.at = nil
		}
	}
	if s.Types == nil {
		return
	}
	if words := s.Types.ToStrings(); slices.Contains(words, "integer") {
		g.integer = !slices.Contains(words, "number")
		others := new(jsonschema.Types)
		for _, word := range words {
			if word != "integer" {
				others.Add(word)
			}
		}
		others.Add("number")
		s.Types = others
	}
}

// charge takes cost from the budget and reports whether it still holds.
func (v *validator) charge(cost int) bool {
	if v.left >= 0 {
		v.left -= cost
	}
	return v.left >= 0
}

// visit charges what the visit of value will cost, then checks the keywords
// that the guard took over, and the format.
func (g *guard) visit(value any) error {
	if !g.v.charge(g.cost(value)) {
		return errExhausted
	}
	if g.enum != nil && !g.enum.holds(g.v, value) {
		return g.noEnum
	}
	if g.constant != nil && !g.constant.holds(g.v, value) {
		return g.noConst
	}
	switch value := value.(type) {
	case json.Number:
		if g.integer && !isInteger(value) {
			return notInteger
		}
		for _, b := range g.bounds {
			if !b.holds(value) {
				return b.broken
			}
		}
	case []any:
		if g.unique && !distinctValues(g.v, value) {
			return notDistinct
		}
	}
	if g.format != nil && g.format(value) != nil {
		return g.badFormat
	}
	return nil
}

// cost is what a visit of value costs beyond itself: the visits that it makes,
// and a share for going through large values.
func (g *guard) cost(value any) int {
	cost, size := g.fixed+g.inPlace, 0
	switch value := value.(type) {
	case map[string]any:
		size = len(value)
		cost += size/16 + size*g.perMember + min(size, g.properties)
	case []any:
		size = len(value)
		cost += size/16 + size*g.perElement + min(size, g.prefix)
	case string:
		cost += len(value) / 1024
	case json.Number:
		if g.rational {
			cost += len(value)
		}
	}
	if g.v.unevaluated {
		cost += size * (1 + g.inPlace) / 8
	}
	return cost
}

// bound is one of minimum, maximum, exclusiveMinimum and exclusiveMaximum.
type bound struct {
	broken *refused
	limit  float64
}

// holds compares exactly: both numbers are in RFC 8785 form, where different
// texts are different doubles, and rounding keeps the order.
func (b bound) holds(n json.Number) bool {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return false
	}
	switch b.broken.keyword {
	case "minimum":
		return f >= b.limit
	case "maximum":
		return f <= b.limit
	case "exclusiveMinimum":
		return f > b.limit
	case "exclusiveMaximum":
		return f < b.limit
	}
	return false
}

// isInteger reports whether a number in RFC 8785 form is an integer: it has no
// point or a positive exponent, which it has from 1e+21 on.
func isInteger(n json.Number) bool {
	text := string(n)
	return strings.Contains(text, "e+") || !strings.ContainsAny(text, ".e")
}

// valueSet is a set of JSON values. Values are equal when their canonical forms
// are.
type valueSet struct {
	texts   map[string]bool // strings
	others  map[string]bool // canonical forms of anything else
	deepest bool            // some are objects or arrays
}

func newValueSet(values []any) *valueSet {
	s := &valueSet{texts: map[string]bool{}, others: map[string]bool{}}
	for _, v := range values {
		if text, ok := v.(string); ok {
			s.texts[text] = true
			continue
		}
		t := jsonType(v)
		s.deepest = s.deepest || t == "object" || t == "array"
		s.others[string(canon.Append(nil, v))] = true
	}
	return s
}

func (s *valueSet) holds(v *validator, value any) bool {
	switch value := value.(type) {
	case string:
		return s.texts[value]
	case map[string]any, []any:
		if !s.deepest || !v.charge(treeCost(value)/4) {
			return false
		}
	}
	var few [32]byte
	return s.others[string(canon.Append(few[:0], value))]
}

// distinctValues reports whether no two elements are equal, in time linear in
// the size of the array.
func distinctValues(v *validator, array []any) bool {
	if !v.charge(treeCost(array) / 4) {
		return false
	}
	seen := make(map[string]bool, len(array))
	for _, e := range array {
		text := string(canon.Append(nil, e))
		if seen[text] {
			return false
		}
		seen[text] = true
	}
	return true
}

// treeCost measures a value: its parts, and its text in 64s of bytes.
func treeCost(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / 64
	case []any:
		for _, e := range v {
			n += treeCost(e)
		}
	case map[string]any:
		for name, e := range v {
			n += 1 + len(name)/64 + treeCost(e)
		}
	}
	return n
}

// checkKeywords refuses what the library reads over or misreads.
func checkKeywords(s *jsonschema.Schema, object map[string]any) error {
	if f, ok := object["format"]; ok {
		if _, text := f.(string); !text {
			return &keywordError{s.Location, "format", "it is no text"}
		}
	}
	for _, k := range [...]string{
		"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
	} {
		if n, ok := object[k].(json.Number); ok {
			// The library would wrap round.
			if f, err := strconv.ParseFloat(string(n), 64); err != nil || f > 1<<31 {
				return &keywordError{s.Location, k, "it is more than 2^31"}
			}
		}
	}
	return nil
}

// keywordError is a keyword that is refused beyond what the metaschema does.
type keywordError struct{ location, keyword, why string }

func (e *keywordError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.location, e.keyword, e.why)
}
