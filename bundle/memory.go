package bundle

import (
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"
	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
	"github.com/writ-pdp/writ/entities"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// memory is what was made of a bundle's files, step by step. A bundle without
// an error keeps it, so that the next one needn't make again what rests on
// nothing that has changed. Then nobody writes to it, or to what it reaches.
//
// Only bundles without errors have one, so that a step that is taken over has
// warnings at most: those that it gave before.
type memory struct {
	files map[string]*fileMemory // by name
	said  map[string]writ.Faults // warnings by step

	name           string
	zone           *time.Location
	issuers        map[string]*snapshot.Issuer
	templates      map[string]*yaml.Node // where "principal type User " is written
	callers        map[string]*writ.Caller
	identities     map[snapshot.Identity]*writ.Caller
	localHost      *writ.Caller
	localServer    *writ.Caller
	localOperator  *writ.Caller
	revocations    *revocation.View
	revoked        []revocation.Entry // of revocationFile, in its order
	revocationFile *document
	servers        []*server
	store          *entities.Store
	types          *policy.Types // what schema is made of
	schema         *policy.Schema
	policies       *policy.Set
	likely         []types.EntityUID // who may lift reviews
	bundle         *document         // bundle.yaml; nil: there is none
	free           []NotDecisionBearing
	accepted       []AcceptedMutant
	contracts      map[string]*contract.Contract
	serversByID    map[string]*contract.Server
	codes, ids     []string // of policies: see policyNames
	rights         *snapshot.Rights
	reduced        map[*writ.Caller]*writ.Caller // those of the world where they may vouch for something else

	// What is the very same as in the bundle before.
	sameBundle, sameIssuers, sameCallers, sameRevocations, sameServers bool
}

// fileMemory is what one file holds, whatever stands in others.
type fileMemory struct {
	sum  sum
	size int
	data []byte // nil: an entity file's text isn't kept

	tools     []*definition.Tool // of servers/*.tools.json
	held      []entities.Held    // of entities/**.json
	scenarios *scenarioFile      // of scenarios/**.yaml, as it was parsed
	made      []Scenario         // of that, in the bundle's world
}

// remember notes the files, and finds again those that the bundle before had.
func (b *builder) remember(files []File) {
	b.files = make(map[string]*fileMemory, len(files))
	for i := range files {
		f := &files[i]
		f.sum = f.digest()
		m := &fileMemory{sum: f.sum, size: f.Size()}
		if !strings.HasPrefix(f.Name, "entities/") {
			m.data = f.Data
		}
		if old := b.before.file(f.Name); old != nil && old.sum == m.sum {
			m.data, m.tools, m.held, m.scenarios, m.made = old.data, old.tools, old.held, old.scenarios, old.made
		}
		b.files[f.Name] = m
	}
}

// file returns what is known of a file, or nil. A nil memory knows nothing.
func (m *memory) file(name string) *fileMemory {
	if m == nil {
		return nil
	}
	return m.files[name]
}

// set is the policies of a memory, or nil.
func (m *memory) set() *policy.Set {
	if m == nil {
		return nil
	}
	return m.policies
}

// same reports whether a file, or its absence, is that of the bundle before.
func (b *builder) same(f *File, name string) bool {
	if b.before == nil {
		return false
	}
	old := b.before.files[name]
	if f == nil || old == nil {
		return f == nil && old == nil
	}
	return b.files[name].sum == old.sum
}

// sameFiles reports whether all files under a directory are those of the bundle
// before.
func (b *builder) sameFiles(dir string, files []*File) bool {
	if b.before == nil {
		return false
	}
	before := 0
	for name := range b.before.files {
		if strings.HasPrefix(name, dir) {
			before++
		}
	}
	return before == len(files) && !slices.ContainsFunc(files, func(f *File) bool { return !b.same(f, f.Name) })
}

// step runs a step, or takes it over from the bundle before with what it said
// then, and reports whether it found no error.
func (b *builder) step(name string, same bool, run, reuse func()) bool {
	first := len(b.faults)
	if same {
		reuse()
		b.faults = append(b.faults, b.before.said[name]...)
	} else {
		run()
	}
	b.said[name] = slices.Clone(b.faults[first:])
	return len(b.said[name].Errors()) == 0
}

func (b *builder) reuseBundle() {
	m := b.before
	b.name, b.zone, b.bundle, b.free, b.accepted, b.sameBundle = m.name, m.zone, m.bundle, m.free, m.accepted, true
}

func (b *builder) reuseIssuers() {
	b.issuers, b.templates, b.sameIssuers = b.before.issuers, b.before.templates, true
}

func (b *builder) reuseCallers() {
	m := b.before
	b.callers, b.identities, b.sameCallers = m.callers, m.identities, true
	b.localHost, b.localServer, b.localOperator = m.localHost, m.localServer, m.localOperator
}

func (b *builder) reuseRevocations() {
	m := b.before
	b.revocations, b.revoked, b.revocationFile, b.sameRevocations = m.revocations, m.revoked, m.revocationFile, true
}

// sameRules reports whether contracts and policies are those of the bundle
// before.
func (b *builder) sameRules() bool {
	return b.sameServers && b.policies == b.before.policies
}

// copy is the document before anything more is found in it.
func (d *document) copy() *document {
	out := *d
	out.faults, out.unread = slices.Clip(d.faults), slices.Clip(d.unread)
	return &out
}
