package policy

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/contract"
)

const (
	// fewElements is how many texts may stand in a call's arrays before it
	// matters how their hashes lie.
	fewElements = 32
	// maxCrowd is how many different texts may lie within crowd hashes of each
	// other. Texts that differ in their last byte only lie near each other by
	// themselves, 256 at most; more are there on purpose.
	maxCrowd = 256
	crowd    = 1 << 12
	// maxRecords is how many records an array may hold: their hashes are not
	// for us to see.
	maxRecords = 256
)

// hashed is a text in a set with the hash that Cedar's sets keep it under.
type hashed struct {
	hash uint64
	text string
}

// note remembers an element of a set.
func (p *projector) note(v types.Value) {
	h := fnv.New64() // as package types does; a hash that anybody can aim at
	var text string
	switch v := v.(type) {
	case types.String:
		text = string(v)
		_, _ = io.WriteString(h, text)
	case types.EntityUID:
		text = v.String()
		_, _ = io.WriteString(h, string(v.Type))
		_, _ = io.WriteString(h, string(v.ID))
	default:
		return
	}
	p.elements = append(p.elements, hashed{h.Sum64(), text})
}

// crowded refuses texts that were made to collide. Cedar's sets find elements
// by walking from their hash on, so that arrays of colliding texts cost the
// product of their sizes in every policy that compares them.
func (p *projector) crowded(elements []hashed) *contract.Failure {
	if len(elements) <= fewElements {
		return nil
	}
	elements = slices.Clone(elements)
	slices.SortFunc(elements, func(a, b hashed) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.text, b.text)) })
	different := slices.CompactFunc(elements, func(a, b hashed) bool { return a.text == b.text })
	for i := 1; i < len(different); i++ {
		if different[i].hash == different[i-1].hash || i >= maxCrowd && different[i].hash-different[i-maxCrowd].hash < crowd {
			return p.invalid("holds texts that were chosen to collide in a set")
		}
	}
	return nil
}

// tooMany says how long a set of elements of type t may be.
func tooMany(t *contract.Type, n int) (string, bool) {
	limit := contract.MaxSet
	if t.Kind == contract.Record {
		limit = maxRecords
	}
	return "has more than " + strconv.Itoa(limit) + " elements", n > limit
}
