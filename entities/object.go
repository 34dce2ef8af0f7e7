package entities

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// object is the reading of a JSON object whose member names are fixed.
type object struct {
	known []string
	seen  uint // bit i: known[i] has been met
	at    int  // offset of its opening brace
}

// open begins the object that comes next. want says what belongs here, for
// the fault where something else does; then ok is false and it is consumed.
func (r *reader) open(want string, known []string) (o object, ok bool) {
	if r.peek() != jsontext.KindBeginObject {
		r.wrong(want)
		return o, false
	}
	if r.tooDeep() {
		return o, false
	}
	o = object{known: known, at: r.start()}
	r.token()
	r.path = append(r.path, step{})
	return o, true
}

// member moves to the next known member, notes and consumes others, and
// returns its index in known; the caller consumes its value. At the end of
// the object it returns -1.
func (r *reader) member(o *object) int {
	last := len(r.path) - 1
	for r.peek() == jsontext.KindString {
		r.path = r.path[:last] // a fault of the name belongs to the object
		name, at, ok := r.text()
		i := -1
		if ok {
			if i = indexOf(o.known, name); i < 0 {
				r.unknown(name, at, o.known)
			} else if o.seen&(1<<i) != 0 {
				r.fault(at, "member %q is given twice: keep one", o.known[i])
				i = -1
			}
		}
		r.path = append(r.path, step{})
		if i >= 0 {
			o.seen |= 1 << i
			r.path[last].name = o.known[i]
			return i
		}
		r.skip()
	}
	r.path = r.path[:last]
	r.token() // the closing brace, or a syntax error
	return -1
}

// has reports whether the member has been met.
func (o *object) has(i int) bool { return o.seen&(1<<i) != 0 }

// require notes which of the first n known members are missing.
func (r *reader) require(o *object, n int) bool {
	ok := true
	for i, name := range o.known[:n] {
		if !o.has(i) {
			r.fault(o.at, "member %q is missing: add it", name)
			ok = false
		}
	}
	return ok
}

func (r *reader) unknown(name []byte, at int, known []string) {
	if near := nearest(string(name), slices.Values(known)); near != "" {
		r.fault(at, "unknown member %s: did you mean %q?", show(name), near)
		return
	}
	r.fault(at, "unknown member %s: want one of %s", show(name), strings.Join(known, ", "))
}

func indexOf(known []string, name []byte) int {
	for i, k := range known {
		if k == string(name) {
			return i
		}
	}
	return -1
}
