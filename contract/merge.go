package contract

import (
	"maps"
	"slices"
	"strings"

	"github.com/writ-pdp/writ"
)

// entry is one named line of a review and where it was declared.
type entry[V any] struct {
	value V
	field string
	// own says that the tool's own review declares it; else it comes from the
	// defaults, and is ignored where the tool lacks the argument.
	own bool
}

// review is a tool's effective review: its own over the defaults.
type review struct {
	field string // tools.create_payment

	effect         string
	reversible     *bool
	scope          string
	intentRequired bool

	methodArgument string
	methods        map[string]Method
	resource       *Resource

	opaque      map[string]entry[bool]
	arguments   map[string]entry[Argument]
	whenAbsent  map[string]entry[any]
	evidence    map[string]entry[EvidenceLine]
	noEvidence  string
	reviewShows []entry[string]
	loggable    map[string]entry[bool]
	secret      map[string]entry[bool]

	postconditions *Postconditions
	onChange       string
	decideAt       string
	grant          string
	undeclared     string

	valid *Window

	partial bool // it, or the defaults, could not be read whole
}

// merge lays own over the defaults.
func merge(field string, own, defaults Review) *review {
	r := &review{
		field:          field,
		effect:         first(own.Effect, defaults.Effect),
		reversible:     firstSet(own.Reversible, defaults.Reversible),
		intentRequired: first(own.Intent, defaults.Intent) == "required",
		methodArgument: own.MethodArgument,
		methods:        own.Methods,
		resource:       own.Resource,
		arguments:      mergeMaps(field, "arguments", own.Arguments, defaults.Arguments),
		whenAbsent:     mergeMaps(field, "when_absent", own.WhenAbsent, defaults.WhenAbsent),
		evidence:       mergeMaps(field, "evidence", own.Evidence, defaults.Evidence),
		noEvidence:     own.NoEvidence,
		postconditions: own.Postconditions,
		onChange:       first(own.OnChange, defaults.OnChange, "strict"),
		decideAt:       first(own.DecideAt, defaults.DecideAt, "pdp"),
		grant:          first(own.Grant, defaults.Grant),
		undeclared:     first(own.Undeclared, defaults.Undeclared, "refuse"),
		valid:          firstSet(own.Valid, defaults.Valid),
		partial:        own.Partial || defaults.Partial,
	}
	if scope := firstSet(own.Scope, defaults.Scope); scope != nil {
		r.scope = *scope
	}
	if r.methodArgument == "" && r.methods != nil {
		r.methodArgument = "method"
	}
	// Evidence lines and the reason for having none exclude each other: the
	// tool's own word, either way, replaces the default's.
	switch {
	case own.NoEvidence != "":
		r.evidence = mergeMaps(field, "evidence", own.Evidence, nil)
	case len(own.Evidence) == 0:
		r.noEvidence = defaults.NoEvidence
	}
	r.opaque = mergeNames(field, "opaque", own.Opaque, defaults.Opaque)
	r.loggable = mergeNames(field, "loggable", own.Loggable, defaults.Loggable)
	r.secret = mergeNames(field, "secret", own.Secret, defaults.Secret)
	for name, a := range r.arguments {
		if _, listed := r.opaque[name]; a.value.Opaque && !listed {
			r.opaque[name] = entry[bool]{true, a.field, a.own}
		}
	}
	shows, at, isOwn := own.ReviewShows, member(field, "review_shows"), true
	if shows == nil {
		shows, at, isOwn = defaults.ReviewShows, "defaults.review_shows", false
	}
	for i, name := range shows {
		r.reviewShows = append(r.reviewShows, entry[string]{name, item(at, i), isOwn})
	}
	return r
}

// mergeNames merges lists that add up.
func mergeNames(field, list string, own, defaults []string) map[string]entry[bool] {
	merged := make(map[string]entry[bool], len(own)+len(defaults))
	for i, name := range defaults {
		merged[name] = entry[bool]{true, item(member("defaults", list), i), false}
	}
	for i, name := range own {
		merged[name] = entry[bool]{true, item(member(field, list), i), true}
	}
	return merged
}

func mergeMaps[V any](field, list string, own, defaults map[string]V) map[string]entry[V] {
	merged := make(map[string]entry[V], len(own)+len(defaults))
	for name, v := range defaults {
		merged[name] = entry[V]{v, member(member("defaults", list), name), false}
	}
	for name, v := range own {
		merged[name] = entry[V]{v, member(member(field, list), name), true}
	}
	return merged
}

func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func firstSet[V any](own, other *V) *V {
	if own != nil {
		return own
	}
	return other
}

// shape reports what is wrong with a review whatever the tool is: words outside
// their closed sets, evidence lines and postconditions that cannot be met.
func (f *faults) shape(field string, r *Review) {
	f.oneOf(member(field, "effect"), r.Effect, "", string(writ.Pure), string(writ.Read), string(writ.Write))
	f.oneOf(member(field, "intent"), r.Intent, "", "required")
	f.oneOf(member(field, "decide_at"), r.DecideAt, "", "pdp", "server")
	f.oneOf(member(field, "grant"), r.Grant, "", "always")
	f.oneOf(member(field, "undeclared"), r.Undeclared, "", "refuse", "allow")
	if r.OnChange != "" && r.OnChange != "strict" {
		f.errorf(member(field, "on_change"), "%q: only strict exists in this version, by which any change of a definition "+
			"denies until it has been reviewed; leave it out", r.OnChange)
	}
	f.scope(member(field, "scope"), r.Scope)
	for _, name := range slices.Sorted(maps.Keys(r.Evidence)) {
		f.evidenceLine(member(member(field, "evidence"), name), r.Evidence[name])
	}
	if r.NoEvidence != "" && len(r.Evidence) > 0 {
		f.errorf(member(field, "evidence"), "there are evidence lines and a reason for having none: keep one of them")
	}
	f.window(member(field, "valid"), r.Valid)
	f.distinct(member(field, "opaque"), r.Opaque)
	f.distinct(member(field, "review_shows"), r.ReviewShows)
	f.distinct(member(field, "loggable"), r.Loggable)
	f.distinct(member(field, "secret"), r.Secret)
	if p := r.Postconditions; p != nil {
		f.postconditions(member(field, "postconditions"), p)
	}
}

// scope reports a scope that no token could carry (RFC 6749, section 3.3).
func (f *faults) scope(field string, scope *string) {
	if scope == nil {
		return
	}
	if bad := strings.IndexFunc(*scope, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '"' || c == '\\'
	}); bad >= 0 {
		f.errorf(field, "%q is not one scope: a scope is of printable ASCII without spaces, quotes and backslashes "+
			"(RFC 6749, section 3.3)", *scope)
	}
}

func (f *faults) distinct(field string, list []string) {
	for i, s := range list {
		if slices.Index(list, s) < i {
			f.errorf(item(field, i), "%q stands here twice", s)
		}
	}
}

// maxIndependent is how many sources a line may ask for: a proposal carries no
// more evidence.
const maxIndependent = 64

func (f *faults) evidenceLine(field string, e EvidenceLine) {
	from := member(field, "from")
	if len(e.From) == 0 {
		f.errorf(from, "name at least one kind of source: %s", joinKinds(writ.SourceKinds[:]))
	}
	for i, k := range e.From {
		if !slices.Contains(writ.SourceKinds[:], k) {
			f.errorf(item(from, i), "%q is no kind of source: %s", string(k), joinKinds(writ.SourceKinds[:]))
		}
		if slices.Index(e.From, k) < i {
			f.errorf(item(from, i), "%q stands here twice", string(k))
		}
	}
	if e.Fresh < 0 {
		f.errorf(member(field, "fresh"), "%s is less than nothing; leave it out for any age", e.Fresh)
	}
	if e.Independent < 0 || e.Independent > maxIndependent {
		f.errorf(member(field, "independent"), "%d: ask for 1 to %d sources", e.Independent, maxIndependent)
	}
}

func joinKinds(kinds []writ.SourceKind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}
