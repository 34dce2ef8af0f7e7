package entities

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-pdp/writ"
)

// Decode reads one file of entities. Every fault is an error and says where
// and what to do; a file with faults yields no entity. What it returns shares
// no memory with data.
//
// What concerns several entities (one declared twice, cycles, parents that
// nobody declares) is for [Join].
func Decode(file string, data []byte) ([]Held, writ.Faults) {
	if len(data) > MaxFile {
		return nil, writ.Faults{{File: file, Message: fmt.Sprintf(
			"the file is %d bytes long: at most %d (64 MiB) are read. Split it", len(data), MaxFile)}}
	}
	d := &decoder{reader: newReader(file, data), types: map[string]types.EntityType{}}
	held := d.entities()
	if len(d.faults) > 0 {
		return nil, d.faults.Sort()
	}
	return held, nil
}

// decoder makes entities of what its reader reads. The maps let equal things
// share memory, as most do: in a company, a million people have a dozen
// types, a thousand groups, and a few distinct lists of memberships.
type decoder struct {
	*reader
	types   map[string]types.EntityType
	parents shared[[]Parent]
	records shared[types.Record]
	ids     shared[types.String]
}

// minEntity is the length of the shortest text of an entity:
// {"uid":{"type":"T","id":"i"},"attrs":{},"parents":[]}
const minEntity = 53

// entities reads the whole text: one array, then nothing.
func (d *decoder) entities() []Held {
	switch {
	case bytes.HasPrefix(d.data, []byte("\xef\xbb\xbf")):
		d.fault(0, "the file begins with a byte order mark: save it as UTF-8 without one")
		return nil
	case len(bytes.TrimLeft(d.data, " \t\r\n")) == 0:
		d.fault(0, "the file is empty: write [] for no entities")
		return nil
	case d.peek() != jsontext.KindBeginArray:
		d.wrong("an array of entities")
		return nil
	}
	// Most often exact, and never more than the text could hold.
	held := make([]Held, 0, min(bytes.Count(d.data, []byte(`"uid"`)), len(d.data)/minEntity+1))
	d.token()
	d.path = append(d.path, step{})
	for d.more() {
		d.here.advance(d.data, d.start())
		if h, ok := d.entity(); ok {
			held = append(held, h)
		}
		d.path[0].index++
	}
	d.path = d.path[:0]
	d.token()
	d.end()
	return held
}

// more reports whether the array being read has another element.
func (r *reader) more() bool {
	kind := r.peek()
	return kind != jsontext.KindEndArray && kind != jsontext.KindInvalid
}

// end makes sure that nothing follows the array.
func (d *decoder) end() {
	if d.done {
		return
	}
	at := d.start()
	if _, err := d.tokens.ReadToken(); err != io.EOF {
		d.fault(at, "something follows the array of entities: remove it, a file is one array")
	}
}

const (
	entityUID = iota
	entityAttrs
	entityParents
	entityTags
	entityValid
)

var entityMembers = []string{"uid", "attrs", "parents", "tags", "valid"}

// entity reads one element of the file's array.
func (d *decoder) entity() (h Held, ok bool) {
	h = Held{File: d.file, Line: d.here.line, Column: d.here.column}
	before := len(d.faults)
	o, ok := d.open(`an entity: {"uid": …, "attrs": …, "parents": …}`, entityMembers)
	if !ok {
		return h, false
	}
	for i := d.member(&o); i >= 0; i = d.member(&o) {
		switch i {
		case entityUID:
			h.UID = d.uid(nil)
		case entityAttrs:
			h.Attributes = d.attributes("attrs")
		case entityParents:
			h.Parents = d.memberships()
		case entityTags:
			h.Tags = d.attributes("tags")
		case entityValid:
			h.Window = d.window()
		}
	}
	d.require(&o, entityParents+1)
	return h, !d.done && len(d.faults) == before
}

// memberships reads the array of parents.
func (d *decoder) memberships() []Parent {
	if d.peek() != jsontext.KindBeginArray {
		d.wrong(`an array of parents: [{"type": …, "id": …}], or [] for none`)
		return nil
	}
	text := d.ahead()
	if same, ok := d.parents.get(text); ok {
		d.skip()
		return same
	}
	before := len(d.faults)
	d.token()
	d.path = append(d.path, step{})
	last := len(d.path) - 1
	var parents []Parent
	for d.more() {
		if d.path[last].index == MaxElements {
			d.fault(d.start(), "more than %d parents: put groups into groups", MaxElements)
			for d.more() {
				d.skip()
			}
			break
		}
		at, count := d.start(), len(d.faults)
		var p Parent
		p.UID = d.uid(&p.Window)
		if len(d.faults) == count && d.distinct(parents, p, at) {
			parents = append(parents, p)
		}
		d.path[last].index++
	}
	d.path = d.path[:last]
	d.token()
	if d.done || len(d.faults) != before || len(parents) == 0 {
		return nil
	}
	return d.parents.keep(text, slices.Clip(parents))
}

// distinct refuses a parent that is there already, unless both have windows
// and these differ.
func (d *decoder) distinct(parents []Parent, p Parent, at int) bool {
	for _, q := range parents {
		switch {
		case q.UID != p.UID:
		case q.Window == p.Window:
			d.fault(at, "parent %s is given twice: keep one", showUID(p.UID))
			return false
		case q.Window.IsZero() || p.Window.IsZero():
			d.fault(at, "parent %s is given with a window and without: the window would mean nothing. Keep one", showUID(p.UID))
			return false
		}
	}
	return true
}

const (
	uidType = iota
	uidID
	uidEntity
	uidValid
)

var uidMembers = []string{"type", "id", "__entity", "valid"}

const uidForm = `{"type": …, "id": …}`

// uid reads an entity's name, plain or within __entity. Where window isn't
// nil, the name is a parent's and may have a window.
func (d *decoder) uid(window *Window) types.EntityUID {
	known := uidMembers
	if window == nil {
		known = uidMembers[:uidValid]
	}
	var uid types.EntityUID
	o, ok := d.open(uidForm, known)
	if !ok {
		return uid
	}
	for i := d.member(&o); i >= 0; i = d.member(&o) {
		switch i {
		case uidType:
			uid.Type = d.entityType()
		case uidID:
			uid.ID = d.id(window != nil)
		case uidEntity:
			inner := d.reference()
			if !o.has(uidType) && !o.has(uidID) {
				uid = inner
			}
		case uidValid:
			*window = d.window()
		}
	}
	switch {
	case !o.has(uidEntity):
		d.require(&o, uidID+1)
	case o.has(uidType) || o.has(uidID):
		d.fault(o.at, "__entity beside type or id: keep one form")
	}
	return uid
}

// reference reads what __entity holds: exactly a type and an id.
func (d *decoder) reference() types.EntityUID {
	var uid types.EntityUID
	o, ok := d.open(uidForm, uidMembers[:uidEntity])
	if !ok {
		return uid
	}
	for i := d.member(&o); i >= 0; i = d.member(&o) {
		switch i {
		case uidType:
			uid.Type = d.entityType()
		case uidID:
			uid.ID = d.id(false)
		}
	}
	d.require(&o, uidID+1)
	return uid
}

func (d *decoder) entityType() types.EntityType {
	if d.peek() != jsontext.KindString {
		d.wrong(`the entity's type as text, such as "User"`)
		return ""
	}
	text, at, ok := d.text()
	if !ok || !d.checkName(text, at, "the entity type") {
		return ""
	}
	if t, ok := d.types[string(text)]; ok {
		return t
	}
	t, err := types.NewEntityType(string(text))
	if err != nil {
		d.fault(at, "%s is no entity type: want a Cedar name such as User or Acme::User, of letters, digits and _, without Cedar's own words", show(text))
		return ""
	}
	d.types[string(t)] = t
	return t
}

// id reads an id; often says that others are likely to name it too.
func (d *decoder) id(often bool) types.String {
	if d.peek() != jsontext.KindString {
		d.wrong(`the entity's id as text, such as "ann"`)
		return ""
	}
	text, at, ok := d.text()
	if !ok || !d.checkName(text, at, "the id") {
		return ""
	}
	if !often {
		return types.String(text)
	}
	if id, ok := d.ids.get(text); ok {
		return id
	}
	return d.ids.keep(text, types.String(text))
}

var windowMembers = []string{"from", "until"}

// window reads {"from": …, "until": …}, of which one may be missing.
func (d *decoder) window() Window {
	var w Window
	before := len(d.faults)
	o, ok := d.open(`{"from": …, "until": …}`, windowMembers)
	if !ok {
		return w
	}
	for i := d.member(&o); i >= 0; i = d.member(&o) {
		if i == 0 {
			w.From = d.instant()
		} else {
			w.Until = d.instant()
		}
	}
	switch {
	case len(d.faults) != before:
	case o.seen == 0:
		d.fault(o.at, "a window without bounds says nothing: give from, until or both, or leave valid out")
	case o.has(0) && o.has(1) && !w.From.Before(w.Until):
		d.fault(o.at, "from is not before until: such a window is never valid")
	}
	return w
}

// instant reads an RFC 3339 time. The zero time is refused because a zero
// bound is an open one: an until long past would never end.
func (d *decoder) instant() time.Time {
	const want = `a time as RFC 3339 writes it, such as "2027-01-31T00:00:00Z"`
	if d.peek() != jsontext.KindString {
		d.wrong(want)
		return time.Time{}
	}
	text, at, ok := d.text()
	if !ok {
		return time.Time{}
	}
	t, ok := parseTime(string(text))
	if !ok || t.IsZero() {
		d.fault(at, "%s is no time: want %s", show(text), want)
		return time.Time{}
	}
	return t.UTC()
}

// parseTime reads a time as RFC 3339, section 5.6 defines it. The standard
// library's parser also takes one digit for the hour, a comma before the
// fraction and zones beyond a day.
func parseTime(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || text[len("2006-01-02T1")] == ':' || strings.Contains(text, ",") {
		return t, false
	}
	if strings.HasSuffix(text, "Z") {
		return t, true
	}
	zone := text[len(text)-len("07:00"):]
	return t, zone[:2] < "24" && zone[3:] < "60"
}

// showUID writes an entity as Cedar does, cut where it is long.
func showUID(uid types.EntityUID) string { return clip(string(uid.Type)) + "::" + show(uid.ID) }
