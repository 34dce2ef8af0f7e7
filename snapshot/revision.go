package snapshot

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/writ-pdp/writ/revocation"
)

// Revision names a world. As text it is opaque to clients:
//
//	sha256:<64 hex>                  a bundle alone
//	sha256:<64 hex>@ID.GEN.SEQ       a bundle as its source gave it
//
// Only a source orders revisions: it counts the bundles that it gives, so that
// a bundle that comes back is a later generation, and the entries of its
// revocation log.
type Revision struct {
	Bundle     string // the digest of the bundle's files: "sha256:…"
	Source     string // names the source whose counts these are; empty: none counts
	Generation uint64 // of the bundle, from 1
	Sequence   uint64 // of the revocation log's last entry, 0: it is empty
}

// String returns the text of r.
func (r Revision) String() string {
	if r.Source == "" {
		return r.Bundle
	}
	return fmt.Sprintf("%s@%s.%d.%d", r.Bundle, r.Source, r.Generation, r.Sequence)
}

var revisionText = regexp.MustCompile(`^(sha256:[0-9a-f]{64})(?:@([a-z0-9]{4,32})\.([1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18}))?$`)

// ParseRevision reads the text of a revision.
func ParseRevision(text string) (Revision, error) {
	m := revisionText.FindStringSubmatch(text)
	if m == nil {
		return Revision{}, fmt.Errorf("not a revision: take it from an answer as it is")
	}
	r := Revision{Bundle: m[1], Source: m[2]}
	if r.Source != "" {
		// At most 19 digits, so in range.
		r.Generation, _ = strconv.ParseUint(m[3], 10, 64)
		r.Sequence, _ = strconv.ParseUint(m[4], 10, 64)
	}
	return r, nil
}

// Covers reports whether a world r is at least as fresh as demand. Worlds of
// different sources can't be compared; without counts only equal ones are.
func (r Revision) Covers(demand Revision) bool {
	switch {
	case r.Source != demand.Source:
		return false
	case r.Source == "":
		return r.Bundle == demand.Bundle
	case r.Generation == demand.Generation && r.Bundle != demand.Bundle:
		return false
	}
	return r.Generation >= demand.Generation && r.Sequence >= demand.Sequence
}

// At returns s as a source gave it: as its generation of that number, with the
// revocations of its log. It shares everything else with s.
func (s *Snapshot) At(source string, generation uint64, revocations *revocation.View) *Snapshot {
	world := *s
	world.at = Revision{Bundle: s.bundle(), Source: source, Generation: generation, Sequence: revocations.Sequence()}
	world.Revision = world.at.String()
	world.Revocations = revocations
	return &world
}

// bundle is the digest of the files that s was made of.
func (s *Snapshot) bundle() string {
	if s.at.Bundle != "" {
		return s.at.Bundle
	}
	return s.Revision
}

// covers reports whether s is at least as fresh as demand.
func (s *Snapshot) covers(demand Revision) bool {
	at := s.at
	if at.Bundle == "" {
		at = Revision{Bundle: s.Revision}
	}
	return at.Covers(demand)
}
