package entities

import (
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json/jsontext"
)

// attributes reads the record of attrs or tags.
func (d *decoder) attributes(what string) types.Record {
	if d.peek() != jsontext.KindBeginObject {
		d.wrong(what + " as an object, {} for none")
		return types.Record{}
	}
	text := d.ahead()
	if same, ok := d.records.get(text); ok {
		d.skip()
		return same
	}
	at, before := d.start(), len(d.faults)
	v := d.object(false)
	record, ok := v.(types.Record)
	if v != nil && !ok {
		d.fault(at, "%s is a record of named values: put the reference under a name", what)
	}
	if d.done || len(d.faults) != before || record.Len() == 0 {
		return types.Record{}
	}
	return d.records.keep(text, record)
}

// value reads one value; inSet says that a set surrounds it. After a fault it
// returns nil.
func (d *decoder) value(inSet bool) types.Value {
	switch d.peek() {
	case jsontext.KindString:
		if text, _, ok := d.text(); ok {
			return types.String(text)
		}
		return nil
	case jsontext.KindTrue:
		d.token()
		return types.True
	case jsontext.KindFalse:
		d.token()
		return types.False
	case jsontext.KindNumber:
		return d.long()
	case jsontext.KindBeginArray:
		return d.set(inSet)
	case jsontext.KindBeginObject:
		return d.object(inSet)
	case jsontext.KindNull:
		d.fault(d.start(), "Cedar has no null: leave the member out")
		d.skip()
	default:
		d.token() // a closing delimiter: a syntax error
	}
	return nil
}

// long reads a number. Cedar has only 64-bit integers, and one spelling each.
func (d *decoder) long() types.Value {
	raw, at := d.raw()
	if d.done {
		return nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err == nil && string(raw) != "-0":
		return types.Long(n)
	case strings.ContainsAny(string(raw), ".eE"):
		d.fault(at, `%s is no Long: write an integer without point and exponent, or {"__extn": {"fn": "decimal", "arg": "12.50"}}`, clip(string(raw)))
	case string(raw) == "-0":
		d.fault(at, "-0 is no Long: write 0")
	default:
		d.fault(at, "%s is out of range: a Long lies between %d and %d", clip(string(raw)), int64(-1<<63), int64(1<<63-1))
	}
	return nil
}

// set reads an array.
func (d *decoder) set(inSet bool) types.Value {
	if inSet {
		d.fault(d.start(), "a set inside a set, or inside a record of one: give each its own entity or attribute")
		d.skip()
		return nil
	}
	if d.tooDeep() {
		return nil
	}
	before := len(d.faults)
	d.token()
	d.path = append(d.path, step{})
	last := len(d.path) - 1
	var elements []types.Value
	for d.more() {
		if d.path[last].index == MaxElements {
			d.fault(d.start(), "more than %d elements in a set: make them entities with this one as parent", MaxElements)
			for d.more() {
				d.skip()
			}
			break
		}
		if v := d.value(true); v != nil {
			elements = append(elements, v)
		}
		d.path[last].index++
	}
	d.path = d.path[:last]
	d.token()
	if d.done || len(d.faults) != before {
		return nil
	}
	return types.NewSet(elements...)
}

// object reads an object: a record or, by its one reserved member, a
// reference to an entity or an extension value.
func (d *decoder) object(inSet bool) types.Value {
	if d.tooDeep() {
		return nil
	}
	at, before := d.start(), len(d.faults)
	d.token()
	d.path = append(d.path, step{})
	last := len(d.path) - 1
	members := types.RecordMap{}
	var special types.Value
	var reserved string
	names := 0
	for d.peek() == jsontext.KindString {
		d.path = d.path[:last] // a fault of the name belongs to the object
		text, nameAt, ok := d.text()
		ok = ok && d.checkName(text, nameAt, "the attribute's name")
		name := string(text)
		names++
		if ok {
			ok = d.freshName(members, name, nameAt)
		}
		d.path = append(d.path, step{name: name})
		switch {
		case !ok:
			d.skip()
		case name == "__entity":
			special, reserved = d.reference(), name
		case name == "__extn":
			special, reserved = d.extension(), name
		default:
			members[types.String(name)] = d.value(inSet)
		}
	}
	d.path = d.path[:last]
	d.token()
	if reserved != "" && names > 1 {
		d.fault(at, "%s stands beside other members: it must be the only one", reserved)
	}
	if d.done || len(d.faults) != before {
		return nil
	}
	if reserved != "" {
		return special
	}
	return types.NewRecord(members)
}

// freshName refuses a name that the record has already, and names that
// Cedar's JSON form reserves: a mistyped __entity must not become a record.
func (d *decoder) freshName(members types.RecordMap, name string, at int) bool {
	if _, ok := members[types.String(name)]; ok {
		d.fault(at, "attribute %s is given twice: keep one", show(name))
		return false
	}
	if strings.HasPrefix(name, "__") && name != "__entity" && name != "__extn" {
		d.fault(at, "the name %s is reserved: Cedar knows __entity and __extn, other names don't begin with __", show(name))
		return false
	}
	return true
}

const (
	extnFn = iota
	extnArg
)

var extnMembers = []string{"fn", "arg"}

// extension reads what __extn holds: a constructor's name and its text.
func (d *decoder) extension() types.Value {
	o, ok := d.open(`{"fn": …, "arg": …}`, extnMembers)
	if !ok {
		return nil
	}
	before := len(d.faults)
	var fn, arg string
	var fnAt, argAt int
	for i := d.member(&o); i >= 0; i = d.member(&o) {
		if d.peek() != jsontext.KindString {
			d.wrong("text")
			continue
		}
		text, at, _ := d.text()
		if i == extnFn {
			fn, fnAt = string(text), at
		} else {
			arg, argAt = string(text), at
		}
	}
	if !d.require(&o, extnArg+1) || d.done || len(d.faults) != before {
		return nil
	}
	var v types.Value
	var err error
	var example string
	switch fn {
	case "decimal":
		v, err = types.ParseDecimal(arg)
		// Cedar's grammar has no plus sign; the parser lets it pass.
		ok, example = !strings.HasPrefix(arg, "+"), `"12.50", with 1 to 4 digits after the point`
	case "datetime":
		v, err = types.ParseDatetime(arg)
		example = `"2027-01-31", "2027-01-31T08:00:00Z" or "2027-01-31T08:00:00.000+0100"`
	case "duration":
		v, err = types.ParseDuration(arg)
		example = `"1d2h3m4s5ms"`
	case "ip":
		v, err = types.ParseIPAddr(arg)
		example = `"192.0.2.1", "192.0.2.0/24" or "2001:db8::/32"`
	default:
		d.fault(fnAt, "%s makes no value: want decimal, datetime, duration or ip", show(fn))
		return nil
	}
	if err != nil || !ok {
		d.fault(argAt, "%s is no %s: write for instance %s", show(arg), fn, example)
		return nil
	}
	return v
}
