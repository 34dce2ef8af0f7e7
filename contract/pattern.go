package contract

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of a pattern.
const (
	maxPattern         = 2048    // bytes
	maxInstructions    = 4096    // of its program; a{1,1000} has about a thousand
	maxAllInstructions = 1 << 16 // of all patterns of a schema, each counted as often as the library compiles it
)

// pattern is one compiled regular expression of a schema. Matching takes time
// in proportion to text times program, and is charged like that.
type pattern struct {
	v            *validator
	re           *regexp.Regexp
	instructions int
}

// pattern is the library's regular expression engine: RE2, within limits. It
// also judges arguments of format regex.
func (v *validator) pattern(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, fmt.Errorf("the pattern compiles to more than %d instructions: make its repetitions shorter", maxInstructions)
	}
	if v.compiling {
		if v.instructions += len(program.Inst); v.instructions > maxAllInstructions {
			return nil, fmt.Errorf("the patterns of the schema compile to more than %d instructions: make their repetitions shorter", maxAllInstructions)
		}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{v, re, len(program.Inst)}, nil
}

// MatchString reports whether the pattern matches somewhere in s. It matches
// nothing when the budget is exhausted.
func (p *pattern) MatchString(s string) bool {
	return p.v.charge(len(s)*p.instructions/2048) && p.re.MatchString(s)
}

func (p *pattern) String() string { return p.re.String() }
