package policy

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
)

// Projection is what policies see of one call's arguments.
type Projection struct {
	// Record is context.arguments. It is empty when Target is set: such a
	// call has no arguments that a policy could judge.
	Record types.Record
	// Made holds the built-in entities (Path, Host, Url, Email) that
	// arguments name, each with its attributes and ancestors.
	Made []types.Entity
	// Entities are the other entities that arguments name, which the
	// snapshot should hold.
	Entities []EntityArgument
	// Target is the first argument that cannot be written in one normal form
	// or escapes its bound: TARGET_OUT_OF_BOUNDS.
	Target *contract.Failure
}

// EntityArgument is an argument that names an entity of the bundle.
type EntityArgument struct {
	Pointer  string // JSON Pointer into the arguments (RFC 6901)
	UID      types.EntityUID
	MayBeNew bool // the entity need not exist yet
	// BoundTo names the attribute that must be or hold the principal; empty: none.
	BoundTo types.String
}

// Project returns what policies see of args, which are a tree that canon.Parse
// made and the contract's JSON Schema accepted. t is the contract's root
// record. The failure is INVALID_ARGUMENTS: a value that Cedar cannot
// represent exactly. It takes precedence over Projection.Target.
//
// Values are built from t alone, so nothing in args can stand for a Cedar
// entity or extension value where t doesn't say so. Members that t doesn't
// have are not seen: contract.Validate has refused them, unless the contract
// lets undeclared arguments through.
func Project(t *contract.Type, args map[string]any) (Projection, *contract.Failure) {
	var p projector
	record, failure := p.record(t, args, false)
	if failure != nil {
		return Projection{}, failure
	}
	if failure := p.crowded(p.elements); failure != nil {
		return Projection{}, failure
	}
	if p.out.Target == nil {
		p.out.Record = record
	}
	return p.out, nil
}

// Parts returns the built-in entities that e's attributes name, so that a
// policy may read resource.host.ip: the Host of a Url or of an Email.
// Ancestors are not among them, because e has its whole closure as parents.
func Parts(e types.Entity) []types.Entity {
	if e.UID.Type != typeURL && e.UID.Type != typeEmail {
		return nil
	}
	v, _ := e.Attributes.Get("host")
	uid, ok := v.(types.EntityUID)
	if !ok {
		return nil
	}
	t := contract.Type{Kind: contract.Entity, Entity: typeHost, Role: &contract.Resource{}}
	host, failure := t.NewEntity(string(uid.ID))
	if failure != nil {
		return nil
	}
	return []types.Entity{host}
}

// projector builds one Projection.
type projector struct {
	out      Projection
	path     []step   // to the value at hand
	elements []hashed // of the sets so far
}

// step is one step from a value to a part of it.
type step struct {
	name  string // of a member
	index int    // of an element, when name doesn't count
	array bool
}

// pointer returns the JSON Pointer of the value at hand.
func (p *projector) pointer() string {
	var b []byte
	for _, s := range p.path {
		if s.array {
			b = strconv.AppendInt(append(b, '/'), int64(s.index), 10)
		} else {
			b = canon.AppendPointer(b, s.name)
		}
	}
	return string(b)
}

// under projects v, one step below the value at hand.
func (p *projector) under(s step, t *contract.Type, v any, inSet bool) (types.Value, *contract.Failure) {
	p.path = append(p.path, s)
	value, failure := p.value(t, v, inSet)
	p.path = p.path[:len(p.path)-1]
	return value, failure
}

func (p *projector) record(t *contract.Type, m map[string]any, inSet bool) (types.Record, *contract.Failure) {
	out := make(types.RecordMap, len(t.Fields))
	for i := range t.Fields {
		f := &t.Fields[i]
		v, present := m[f.Name]
		if !present {
			if hidden(f.Type) || f.Optional && f.Default == nil {
				continue
			}
			if v = f.Default; v == nil {
				p.path = append(p.path, step{name: f.Name})
				failure := p.invalid("is missing")
				p.path = p.path[:len(p.path)-1]
				return types.Record{}, failure
			}
		}
		value, failure := p.under(step{name: f.Name}, f.Type, v, inSet)
		if failure != nil {
			return types.Record{}, failure
		}
		if value != nil {
			out[types.String(f.Name)] = value
		}
	}
	return types.NewRecord(out), nil
}

func (p *projector) set(t *contract.Type, list []any) (types.Value, *contract.Failure) {
	if message, ok := tooMany(t.Elem, len(list)); ok {
		return nil, p.invalid(message)
	}
	out := make([]types.Value, 0, len(list))
	first := len(p.elements)
	for i, v := range list {
		value, failure := p.under(step{index: i, array: true}, t.Elem, v, true)
		if failure != nil {
			return nil, failure
		}
		out = append(out, value)
		p.note(value)
	}
	if failure := p.crowded(p.elements[first:]); failure != nil {
		return nil, failure
	}
	return types.NewSet(out...), nil
}

// entity makes the entity that text names. One that can't be is remembered
// as Target, and the rest is still projected: INVALID_ARGUMENTS comes first.
func (p *projector) entity(t *contract.Type, text string) (types.Value, *contract.Failure) {
	e, failure := t.NewEntity(text)
	if failure != nil {
		located := *failure
		located.Pointer = p.pointer()
		if failure.Code != writ.CodeTargetOutOfBounds {
			return nil, &located
		}
		if p.out.Target == nil {
			p.out.Target = &located
		}
		return types.NewEntityUID(t.Entity, ""), nil
	}
	if isTargetType(t.Entity) {
		p.out.Made = append(append(p.out.Made, e), Parts(e)...)
	} else {
		p.out.Entities = append(p.out.Entities, EntityArgument{Pointer: p.pointer(), UID: e.UID, MayBeNew: t.MayBeNew, BoundTo: types.String(t.BoundTo)})
	}
	return e.UID, nil
}

// number returns the JSON number v times 10^places, if that is a whole
// number in the range of an int64. It reads the number's text, never a float.
func number(v any, places int) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	text := string(n)
	mantissa, exponent, hasExponent := strings.Cut(strings.ReplaceAll(text, "E", "e"), "e")
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, hasPoint := strings.Cut(mantissa, ".")
	if !isDigits(whole) || hasPoint && !isDigits(fraction) {
		return 0, false
	}
	shift := places - len(fraction)
	if hasExponent {
		e, ok := parseExponent(exponent)
		if !ok {
			return 0, false
		}
		shift += e
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, true
	}
	trimmed := strings.TrimRight(digits, "0")
	shift += len(digits) - len(trimmed)
	if shift < 0 || len(trimmed)+shift > 19 {
		return 0, false
	}
	out, err := strconv.ParseInt(sign+trimmed+strings.Repeat("0", shift), 10, 64)
	return out, err == nil
}

// parseExponent reads the exponent of a JSON number, within bounds in which
// sums with it can't overflow.
func parseExponent(s string) (int, bool) {
	digits := strings.TrimPrefix(s, "+")
	if digits == s {
		digits = strings.TrimPrefix(s, "-")
	}
	if !isDigits(digits) || len(digits) > 9 {
		return 0, false
	}
	e, err := strconv.Atoi(s)
	return e, err == nil
}

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
