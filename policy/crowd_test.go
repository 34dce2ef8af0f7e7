package policy_test

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// TestCrowded: arrays are refused only where their texts collide on purpose.
func TestCrowded(t *testing.T) {
	list := &contract.Type{Kind: contract.Set, Elem: &contract.Type{Kind: contract.String}}
	args := &contract.Type{Kind: contract.Record, Fields: []contract.Field{{Name: "a", Type: list}, {Name: "b", Type: list, Optional: true}}}
	texts := func(n int, format string) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = fmt.Sprintf(format, i)
		}
		return out
	}
	var bytes []any // differ in their last byte only
	for b := byte('!'); b < 127; b++ {
		bytes = append(bytes, "/srv/work/"+string(rune(b)))
	}
	// Two texts of one hash, as the check shows.
	const one, other = "$!#@!!$!!,!@", "#o#D]]*!5!Ps"
	hash := func(s string) uint64 {
		h := fnv.New64()
		_, _ = h.Write([]byte(s))
		return h.Sum64()
	}
	if one == other || hash(one) != hash(other) {
		t.Fatal("the texts don't collide")
	}
	for name, c := range map[string]struct {
		args map[string]any
		fail bool
	}{
		"numbered":             {map[string]any{"a": texts(1024, "/srv/work/%d")}, false},
		"numbered in two":      {map[string]any{"a": texts(1024, "x%d"), "b": texts(1024, "x%d")}, false},
		"by the last byte":     {map[string]any{"a": bytes}, false},
		"colliding":            {map[string]any{"a": append(texts(40, "%d"), one, other)}, true},
		"colliding across two": {map[string]any{"a": append(texts(40, "%d"), one), "b": []any{other}}, true},
		"the same in two":      {map[string]any{"a": append(texts(40, "%d"), one), "b": []any{one}}, false},
		"too many":             {map[string]any{"a": texts(1025, "%d")}, true},
	} {
		_, failure := policy.Project(args, c.args)
		if (failure != nil) != c.fail {
			t.Errorf("%s: %v", name, failure)
		}
	}
}
