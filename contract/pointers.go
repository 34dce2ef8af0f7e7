package contract

import (
	"maps"
	"slices"
)

// EvidencePointers returns the JSON Pointers that have an evidence line, sorted.
func (c *Contract) EvidencePointers() []string {
	if len(c.Evidence) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Evidence))
}
