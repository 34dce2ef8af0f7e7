package contract

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of an input schema, so that loading a hostile definition stays cheap:
// the library's compiler is quadratic in the number of schemas.
const (
	maxSchemaObjects = 2000
	schemaURL        = "https://schema.invalid/inputSchema" // of the root; nothing is ever fetched
)

// validators holds the compiled forms of one input schema.
//
// A compiled schema carries the counter of the one call that uses it, because
// the library gives its hooks no other way to tell calls apart. So each call
// takes a form of its own from the free list. The first is made at load, which
// is when mistakes are reported; further ones (some hundred microseconds each)
// when calls of the same tool overlap, up to one for each processor, and they
// are kept. Beyond that a call waits for another one of the same tool, which the
// budget bounds.
type validators struct {
	schema map[string]any
	// declared holds every name in any properties of the schema.
	declared map[string]bool
	free     chan *validator
	made     atomic.Int32
}

// validator is one compiled form of a schema and its counter.
type validator struct {
	schema *jsonschema.Schema
	// left is what remains of the budget of the call that holds the validator;
	// below zero: exhausted.
	left int
	// unevaluated says that the schema has unevaluatedProperties or
	// unevaluatedItems anywhere: then each visit copies the names or indexes
	// of its value.
	unevaluated bool
	declared    map[string]bool
	// compiling is set while the schema's own patterns are compiled, and
	// instructions is the size of their programs so far.
	compiling    bool
	instructions int
}

func newValidators(schema map[string]any) (*validators, *schemaError) {
	if n := countObjects(schema); n > maxSchemaObjects {
		return nil, &schemaError{"", fmt.Sprintf("it holds %d objects, more than the %d that are checked", n, maxSchemaObjects)}
	}
	v, err := compile(schema)
	if err != nil {
		return nil, err
	}
	vs := &validators{schema: schema, declared: v.declared, free: make(chan *validator, max(1, runtime.GOMAXPROCS(0)))}
	vs.made.Store(1)
	vs.free <- v
	return vs, nil
}

// take returns a validator that nobody else holds.
func (vs *validators) take() *validator {
	select {
	case v := <-vs.free:
		return v
	default:
	}
	if int(vs.made.Add(1)) <= cap(vs.free) {
		// The schema compiled before, so it does again; if not, waiting is
		// safe too.
		if v, err := compile(vs.schema); err == nil {
			return v
		}
	}
	vs.made.Add(-1)
	return <-vs.free
}

// check says how args break the schema: nil when they don't, and how is not
// known of those that exhausted the budget.
func (vs *validators) check(args map[string]any) (broken *jsonschema.ValidationError, exhausted bool) {
	v := vs.take()
	defer func() { vs.free <- v }() // also after a panic: each call starts the counter anew
	return v.check(v.schema, args)
}

// check checks one value against s, a part of v's schema, with a fresh budget.
func (v *validator) check(s *jsonschema.Schema, value any) (broken *jsonschema.ValidationError, exhausted bool) {
	// The one place where panics of the library are contained: arguments come
	// from strangers, and what it stumbles over is refused, not a crash. (It
	// does over numbers that canon.Parse did not make.)
	defer func() {
		if recover() != nil {
			broken = &jsonschema.ValidationError{}
		}
	}()
	v.left = MaxVisits - 1 // the first visit is this one
	err := s.Validate(value)
	switch broken, known := errors.AsType[*jsonschema.ValidationError](err); {
	case v.left < 0:
		return nil, true
	case err == nil:
		return nil, false
	case known:
		return broken, false
	}
	return &jsonschema.ValidationError{}, false
}

// refusal says why the schema at steps refuses value, or nothing.
func (vs *validators) refusal(steps []step, value any) string {
	v := vs.take()
	defer func() { vs.free <- v }()
	s := v.schema
	for _, step := range steps {
		for s != nil && s.Ref != nil && s.Properties == nil && s.Items == nil && s.Items2020 == nil {
			s = s.Ref
		}
		switch items, _ := s.Items.(*jsonschema.Schema); {
		case !step.each:
			s = s.Properties[step.member]
		case s.Items2020 != nil:
			s = s.Items2020
		default:
			s = items
		}
		if s == nil {
			return "" // beyond what types are made of
		}
	}
	switch broken, exhausted := v.check(s, value); {
	case exhausted:
		return "checking it against the tool's schema takes too long"
	case broken != nil:
		return refusal(blame(broken))
	}
	return ""
}

// nothing is a loader that loads nothing.
type nothing struct{}

func (nothing) Load(string) (any, error) {
	return nil, errors.New("nothing is ever loaded")
}

// compile returns a compiled form of schema. Its error says what is wrong and
// where, for the reviewer.
func compile(schema map[string]any) (v *validator, fault *schemaError) {
	defer func() {
		// The library gets definitions that a stranger's server sent. Whatever
		// it stumbles over is a fault of that one definition.
		if p := recover(); p != nil {
			v, fault = nil, &schemaError{"", fmt.Sprintf("the schema library failed on it: %v", p)}
		}
	}()
	v = &validator{declared: map[string]bool{}, compiling: true}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nothing{})
	c.AssertFormat()
	c.UseRegexpEngine(v.pattern)
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "urn:writ:budget", Compile: v.guard})
	c.AssertVocabs()
	if err := c.AddResource(schemaURL, schema); err != nil {
		return nil, explain(schema, err)
	}
	var err error
	if v.schema, err = c.Compile(schemaURL); err != nil {
		return nil, explain(schema, err)
	}
	v.compiling = false
	return v, nil
}

func countObjects(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = 1
		for _, e := range v {
			n += countObjects(e)
		}
	case []any:
		for _, e := range v {
			n += countObjects(e)
		}
	}
	return n
}
