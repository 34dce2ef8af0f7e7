package bundle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones are known where the machine has none

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// Bundle is a bundle that may be served.
type Bundle struct {
	Name     string // from bundle.yaml, for people; often empty
	Snapshot *snapshot.Snapshot
	// Scenarios are in order of file and line. Their times are filled in by
	// [Scenario.At].
	Scenarios []Scenario
	// Warnings are what should be looked at, though the bundle may be served.
	Warnings writ.Faults
	// Revocations are what revocations.yaml says, in its order. The snapshot's
	// view is made of them.
	Revocations []revocation.Entry
	// NotDecisionBearing and AcceptedMutants are what bundle.yaml says for
	// mutation tests.
	NotDecisionBearing []NotDecisionBearing
	AcceptedMutants    []AcceptedMutant

	memory *memory // for the next Build
}

// builder holds what has been read of a bundle so far.
type builder struct {
	memory
	layout layout
	faults writ.Faults
	// unchecked names the parts that could not be checked because of faults in
	// what they rest on.
	unchecked []string
	before    *memory // of the previous bundle; nil: there is none
	// callersRead: callers are all that there are.
	callersRead bool
}

// Build makes a world of files, or says everything that is wrong with them.
// It returns no bundle when any fault is an error. The faults are sorted, and
// hold the warnings too. A fault in one part would only show again in those
// that rest on it: they are not checked then, and the last of the faults, a
// warning without a file, names them.
//
// Of the previous bundle it takes over what depends on nothing that changed:
// the result is that of a build from nothing. The previous bundle stays as it
// is, may be the previous one of others, and is not kept alive. It may be nil.
//
// The snapshot's LoadedAt is zero: whoever puts it to use sets it first.
func Build(files []File, previous *Bundle) (*Bundle, writ.Faults) {
	b := &builder{memory: memory{said: map[string]writ.Faults{}}}
	if previous != nil {
		b.before = previous.memory
	}
	files = b.sortFiles(files)
	b.remember(files)
	b.arrange(files)

	b.step("bundle", b.same(b.layout.bundle, "bundle.yaml"), b.readBundle, b.reuseBundle)
	issuers := b.step("issuers", b.same(b.layout.issuers, "issuers.yaml") && b.sameFiles("jwks/", b.layout.keySets), b.readIssuers, b.reuseIssuers)
	callers := b.step("callers", b.same(b.layout.callers, "callers.yaml"), b.readCallers, b.reuseCallers)
	b.step("revocations", b.same(b.layout.revocations, "revocations.yaml"), b.readRevocations, b.reuseRevocations)
	servers := b.clean(b.readServers)
	known := b.clean(b.readEntities)
	b.callersRead = callers
	b.crossCheck(servers, callers, issuers)
	schema := false
	if servers && issuers {
		schema = b.clean(b.makeSchema)
	} else {
		b.readSchema()
	}
	if !schema && len(b.layout.entities) > 0 {
		b.unchecked = append(b.unchecked, "entities")
	}
	if schema && b.clean(b.checkEntities) && known {
		b.compile()
	} else if !b.layout.lawless() {
		b.faults = append(b.faults, policy.Read(b.policySources(), b.before.set())...)
		b.unchecked = append(b.unchecked, "policies")
	}
	scenarios := b.readScenarios()

	var world *snapshot.Snapshot
	if len(b.faults.Errors()) == 0 {
		world = b.world(revision(files))
		b.step("mutants", b.sameBundle && b.sameRules(), func() { b.checkMutants(world) }, func() {})
		b.step("ceremony", b.sameRules(), b.ceremony, func() {})
	}
	out := &Bundle{Name: b.name, Snapshot: world, Revocations: b.revoked, NotDecisionBearing: b.free, AcceptedMutants: b.accepted}
	if world != nil {
		out.Scenarios = b.makeScenarios(scenarios, world)
	} else if len(scenarios) > 0 {
		b.unchecked = append(b.unchecked, "scenarios")
	}
	for _, s := range scenarios {
		b.faults = append(b.faults, s.faults...)
	}
	b.faults = b.faults.Sort()
	if len(b.faults.Errors()) > 0 {
		return nil, b.closing(b.faults)
	}
	out.Warnings = b.faults
	kept := b.memory
	out.memory = &kept
	return out, b.faults
}

// crossCheck holds against each other what different files say.
func (b *builder) crossCheck(servers, callers, issuers bool) {
	same := b.sameServers && b.sameCallers
	if servers && callers {
		b.step("redeemers", same, b.checkRedeemers, func() {})
	}
	if servers && issuers {
		b.step("possession", b.sameServers && b.sameIssuers, b.checkPossession, func() {})
	}
	if servers {
		b.step("identities", b.sameServers, b.checkIdentities, func() {})
		b.step("revoked", same && b.sameIssuers && b.sameRevocations, b.checkRevoked, func() {})
		b.step("observers", b.sameServers, b.checkObservers, func() {})
	}
}

// closing adds, after the faults, which parts they kept from being checked.
func (b *builder) closing(faults writ.Faults) writ.Faults {
	if len(b.unchecked) == 0 {
		return faults
	}
	return append(faults, writ.Fault{
		Severity: writ.Warning, Message: "mend these first: " + strings.Join(b.unchecked, ", ") + " were not checked",
	})
}

// clean runs a step and reports whether it found no error.
func (b *builder) clean(step func()) bool {
	before := len(b.faults)
	step()
	return len(b.faults[before:].Errors()) == 0
}

func (b *builder) fault(file string, line, column int, message string) {
	b.faults = append(b.faults, writ.Fault{File: file, Line: line, Column: column, Message: message})
}

// faultAt reports a fault at a field of a file that has been read.
func (b *builder) faultAt(d *document, field, message string) {
	n := d.at(field)
	b.faults = append(b.faults, writ.Fault{File: d.file, Line: n.Line, Column: n.Column, Field: field, Message: message})
}

// zoneName are names that mean the same on every machine: not Local, nor the
// aliases and variants that some systems keep beside the IANA names.
var zoneName = regexp.MustCompile(`^(UTC|[A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+)+)$`)

// readBundle reads bundle.yaml.
func (b *builder) readBundle() {
	b.zone = time.UTC
	if b.layout.bundle == nil {
		return
	}
	d := parseYAML(b.layout.bundle.Name, b.layout.bundle.Data)
	var file bundlev1.BundleFile
	if decode(d, &file) {
		b.name = file.GetName()
		b.readMutants(d, &file)
		if name := file.GetTimeZone(); name != "" {
			zone, err := time.LoadLocation(name)
			if err != nil || !zoneName.MatchString(name) {
				d.add(d.at("time_zone"), "time_zone", fmt.Sprintf("there is no time zone %q: write an IANA name such as Europe/London", name))
			} else {
				b.zone = zone
			}
		}
	}
	b.faults = append(b.faults, d.faults...)
}

// makeSchema makes the Cedar schema of all contracts and the bundle's types.
func (b *builder) makeSchema() {
	t := policy.Types{}
	b.types = &t
	for _, s := range b.servers {
		t.Contracts = append(t.Contracts, s.contracts...)
	}
	if f := b.layout.schema; f != nil {
		t.Schema = policy.Source{File: f.Name, Text: f.Data}
	}
	for _, name := range keys(b.issuers) {
		t.Principals = append(t.Principals, b.issuers[name].Principal.Type())
		t.Actors = append(t.Actors, b.issuers[name].Actor.Type())
		if i := b.issuers[name]; i.GroupsClaim != "" {
			t.Supplied = append(t.Supplied, i.Group.Type())
		}
	}
	slices.Sort(t.Principals)
	slices.Sort(t.Actors)
	slices.Sort(t.Supplied)
	t.Principals, t.Actors, t.Supplied = slices.Compact(t.Principals), slices.Compact(t.Actors), slices.Compact(t.Supplied)
	if old := b.before; old != nil && b.same(b.layout.schema, "schema.cedarschema") && slices.Equal(old.types.Contracts, t.Contracts) &&
		slices.Equal(old.types.Principals, t.Principals) && slices.Equal(old.types.Actors, t.Actors) && slices.Equal(old.types.Supplied, t.Supplied) {
		b.schema = old.schema
		b.checkGroupTypes()
		return
	}
	schema, faults := policy.NewSchema(t)
	if schema != nil {
		for _, c := range t.Contracts {
			faults = append(faults, schema.CheckBound(c)...)
		}
	}
	b.locateTypes(faults)
	b.faults = append(b.faults, b.locateContracts(faults)...)
	if b.schema = schema; schema != nil {
		b.checkGroupTypes()
	}
}

// readSchema says what is wrong with the bundle's own types, where other
// faults leave no schema to make.
func (b *builder) readSchema() {
	f := b.layout.schema
	if f == nil {
		return
	}
	_, faults := policy.NewSchema(policy.Types{Schema: policy.Source{File: f.Name, Text: f.Data}})
	for _, fault := range faults {
		if fault.File == f.Name {
			b.faults = append(b.faults, fault)
		}
	}
}

func (b *builder) policySources() []policy.Source {
	sources := make([]policy.Source, len(b.layout.policies))
	for i, f := range b.layout.policies {
		sources[i] = policy.Source{File: f.Name, Text: f.Data}
	}
	return sources
}

// compile makes the policy set, and warns of reviews that too few could lift.
func (b *builder) compile() {
	set, faults := policy.Recompile(b.schema, b.holdings(), b.policySources(), b.before.set())
	b.faults = append(b.faults, faults...)
	b.policies = set
	if len(faults.Errors()) > 0 {
		return
	}
	old := b.before
	same := old != nil && old.policies == set && old.store == b.store && b.sameIssuers
	b.step("reviews", same, b.checkReviews, func() { b.likely = old.likely })
}

// world is the snapshot of what has been read without an error.
func (b *builder) world(revision string) *snapshot.Snapshot {
	if b.sameServers {
		b.contracts, b.serversByID = b.before.contracts, b.before.serversByID
	} else {
		b.contracts, b.serversByID = map[string]*contract.Contract{}, map[string]*contract.Server{}
		for _, server := range b.servers {
			for _, c := range server.contracts {
				b.serversByID[server.id] = c.Server
				b.contracts[server.id+"/"+c.Tool.Name] = c
			}
		}
	}
	world := &snapshot.Snapshot{
		Revision: revision, Contracts: b.contracts, Servers: b.serversByID,
		Schema: b.schema, Policies: b.policies, Entities: b.store, Revocations: b.revocations,
		Issuers: b.issuers, Callers: b.callers, Identities: b.identities,
		LocalHost: b.localHost, LocalServer: b.localServer, LocalOperator: b.localOperator,
		Zone: b.zone,
	}
	b.entitle(world)
	return world
}
