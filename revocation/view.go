package revocation

import (
	"iter"
	"slices"
	"sort"
	"time"
)

// View is the state of the revocation log at one sequence number. It never
// changes and is safe for concurrent use. A nil View revokes nothing, and so
// does the zero View.
type View struct {
	log      chunks
	sequence uint64
	names    names
	dated    []int32 // indices of the entries that begin at an instant of their own
}

// name is what a revocation is looked up by. issuer is empty for kinds that
// no issuer is part of.
type name struct {
	kind       Kind
	issuer, id string
}

// nameOf leaves out an issuer that isn't part of the name.
func nameOf(k Kind, issuer, id string) name {
	if !k.byIssuer() {
		issuer = ""
	}
	return name{k, issuer, id}
}

// Revoked reports whether id is revoked at now, and by which entry: of those
// that revoke it, the one that reaches furthest (no IssuedBefore, or the
// latest one), and of equals the last of the log. issuer matters for kinds
// that an issuer is part of. issuedAt is when what is named was issued; zero,
// where that is unknown or has no meaning, counts as before every
// IssuedBefore. At the zero time every window counts as open, and an unknown
// kind is revoked: what can't be judged is not let through.
func (v *View) Revoked(k Kind, issuer, id string, issuedAt, now time.Time) (Entry, bool) {
	if v == nil {
		return Entry{}, false
	}
	if !k.known() {
		return Entry{Kind: k, Issuer: issuer, ID: id, Reason: "unknown kind of revocation"}, true
	}
	s, ok := v.names.find(nameOf(k, issuer, id))
	if !ok {
		return Entry{}, false
	}
	i := s.line.at(now)
	if i == none || !v.log.at(i).revokes(issuedAt) {
		return Entry{}, false
	}
	return *v.log.at(i), true
}

// Sequence returns the sequence number of the log's last entry, 0 for an
// empty log.
func (v *View) Sequence() uint64 {
	if v == nil {
		return 0
	}
	return v.sequence
}

// Len returns how many entries the log has.
func (v *View) Len() int {
	if v == nil {
		return 0
	}
	return v.log.n
}

// Entries returns the entries whose sequence number is greater than after, in
// the order of the log.
func (v *View) Entries(after uint64) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if v == nil {
			return
		}
		first := sort.Search(v.log.n, func(i int) bool { return v.log.at(int32(i)).Sequence > after })
		for i := first; i < v.log.n; i++ {
			if !yield(*v.log.at(int32(i))) {
				return
			}
		}
	}
}

// Stands reports whether e, an entry of the log, is no lift and was not
// withdrawn by a later one. It may yet begin, or have ended.
func (v *View) Stands(e *Entry) bool {
	if v == nil || e.Lift {
		return false
	}
	s, _ := v.names.find(nameOf(e.Kind, e.Issuer, e.ID))
	return e.Sequence > s.lifted
}

// InForce reports whether e, an entry of the log, revokes something at now: it
// stands, and now is within its times.
func (v *View) InForce(e *Entry, now time.Time) bool { return v.Stands(e) && e.holds(now) }

// With returns the view of v's log with entries after it. The error is that of
// [New]. It costs about as much as there are entries, however long the log is;
// v, which may be nil, stays as it is.
func (v *View) With(entries []Entry) (*View, error) {
	if v == nil {
		v = &View{}
	}
	more, sequence, err := numbered(v.sequence, entries)
	if err != nil {
		return nil, err
	}
	if len(more) == 0 {
		return v, nil
	}
	out := &View{log: v.log.with(more), sequence: sequence, names: v.names, dated: v.dated}
	out.date(v.log.n)
	if len(more) > max(bulk, v.log.n/bulk) {
		out.index()
		return out, nil
	}
	e := edit(v.names)
	for i := v.log.n; i < out.log.n; i++ {
		entry := out.log.at(int32(i))
		of := nameOf(entry.Kind, entry.Issuer, entry.ID)
		s, ok := e.find(of)
		switch {
		case entry.Lift:
			s = standing{timeline{widest: none}, entry.Sequence}
		case ok:
			s.line = s.line.with(&out.log, int32(i))
		default:
			s.line = newTimeline(&out.log, []int32{int32(i)})
		}
		e.set(of, s)
	}
	out.names = e.names
	return out, nil
}

// date notes which of the entries from an index on begin at an instant.
func (v *View) date(first int) {
	v.dated = slices.Clip(v.dated) // other views share it
	for i := first; i < v.log.n; i++ {
		if e := v.log.at(int32(i)); !e.From.IsZero() && !e.Lift {
			v.dated = append(v.dated, int32(i))
		}
	}
}

// Begins reports whether an entry of the log begins to revoke after one instant
// and not after another. It costs as much as there are entries with a From.
func (v *View) Begins(from, to time.Time) bool {
	if v == nil {
		return false
	}
	return slices.ContainsFunc(v.dated, func(i int32) bool {
		e := v.log.at(i)
		return e.From.After(from) && !e.From.After(to) && v.Stands(e)
	})
}

// bulk is from how many entries on the whole log is indexed anew: many entries
// of one name cost the square of their number one by one.
const bulk = 64

// index makes the timelines of the whole log. A lift empties what stood under
// its name.
func (v *View) index() {
	type of struct {
		indices []int32
		lifted  uint64
	}
	all := make(map[name]of)
	for i := range v.log.n {
		e := v.log.at(int32(i))
		n := nameOf(e.Kind, e.Issuer, e.ID)
		if e.Lift {
			all[n] = of{lifted: e.Sequence}
			continue
		}
		s := all[n]
		s.indices = append(s.indices, int32(i))
		all[n] = s
	}
	e := edit(names{})
	for n, s := range all {
		line := timeline{widest: none}
		if len(s.indices) > 0 {
			line = newTimeline(&v.log, s.indices)
		}
		e.set(n, standing{line, s.lifted})
	}
	v.names = e.names
}
