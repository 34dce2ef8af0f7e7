package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/target"
)

// MaxTargets is how many targets one call may have.
const MaxTargets = 256

// Target is one thing that a call is about.
type Target struct {
	// Entity is the Cedar resource. A Path, Host, Url or Email has its
	// attributes, and all its ancestors as parents; an entity of the bundle has
	// the parents that the resource's "in" makes, and no attributes.
	Entity types.Entity
	// BuiltIn says that it is a Path, Host, Url or Email.
	BuiltIn bool
	// MayBeNew says that the bundle need not hold it.
	MayBeNew bool
	// Pointer is where in the arguments it comes from: the text, the array's
	// element, or the first argument of its template (RFC 6901).
	Pointer string
	// Element is the array's element that the target comes from, where that is
	// an object.
	Element map[string]any
}

// Targets returns what a call is about, in the order of the resource's names
// and of their arrays. An empty slice without a failure means the Tool itself.
//
// INVALID_ARGUMENTS: an array of targets that is empty, names one twice, or
// makes more than [MaxTargets]. TARGET_OUT_OF_BOUNDS: a text that has no
// normal form, a path outside the resource's bounds, an argument that cannot be
// part of an id. The first outranks the second, as ARGUMENTS comes before
// TARGET. Arguments that [Contract.Validate] refuses fail here as well where
// they matter for targets.
//
// made are entities that were made of the same arguments already: a Path among
// them is not made again.
func (c *Contract) Targets(args map[string]any, made ...types.Entity) ([]Target, *Failure) {
	p := c.target
	switch {
	case p == nil:
		return nil, nil
	case p.places != nil:
		return p.builtIns(args, made)
	}
	return p.entities(args)
}

// builtIns returns the Paths, Hosts, Urls or Emails that a call is about.
func (p *targetPlan) builtIns(args map[string]any, made []types.Entity) ([]Target, *Failure) {
	var targets []Target
	var outside *Failure
	for i := range p.places {
		at := &p.places[i]
		rows, found, failure := at.rows(args)
		if failure != nil {
			return nil, failure
		}
		if !found {
			continue
		}
		if len(targets)+len(rows) > MaxTargets {
			return nil, tooMany(at.pointer)
		}
		first := len(targets)
		for j, row := range rows {
			pointer := at.at(j)
			text, failure := at.text(row, pointer)
			if failure != nil {
				return nil, failure
			}
			e, failure := p.builtIn(text, made)
			if failure != nil {
				if outside == nil {
					failure.Pointer, outside = pointer, failure
				}
				continue
			}
			element, _ := row.(map[string]any)
			if !at.each {
				element = nil
			}
			targets = append(targets, Target{Entity: e, BuiltIn: true, Pointer: pointer, Element: element})
		}
		if twice := repeated(targets[first:]); twice != "" {
			return nil, invalid(twice, "it names a target that the array names before")
		}
	}
	if outside != nil {
		return nil, outside
	}
	return targets, nil
}

// builtIn returns the entity that text names, within the bounds.
func (p *targetPlan) builtIn(text string, made []types.Entity) (types.Entity, *Failure) {
	if p.entity != PathType {
		return newBuiltIn(p.entity, text, p.options)
	}
	path, err := target.NewPath(text, p.options)
	if err != nil {
		return types.Entity{}, outOfBounds("", err.Error())
	}
	if p.roots != nil && !slices.ContainsFunc(p.roots, path.Within) {
		return types.Entity{}, outOfBounds("", "the path is outside the directories that the contract allows")
	}
	for i := range made { // equal texts have equal attributes and ancestors
		if uid := made[i].UID; uid.Type == PathType && string(uid.ID) == path.Text {
			return made[i], nil
		}
	}
	return pathEntity(path), nil
}

// entities returns the entities of the bundle that a call is about.
func (p *targetPlan) entities(args map[string]any) ([]Target, *Failure) {
	if p.array == nil {
		t, found, failure := p.entityOf(args, nil, "")
		if failure != nil || !found {
			return nil, failure
		}
		return []Target{t}, nil
	}
	rows, found, failure := p.array.elements(args)
	if failure != nil || !found {
		return nil, failure
	}
	if len(rows) > MaxTargets {
		return nil, tooMany(p.array.pointer)
	}
	targets := make([]Target, 0, len(rows))
	var outside *Failure
	for i, row := range rows {
		t, found, failure := p.entityOf(args, row, p.array.pointer+"/"+strconv.Itoa(i))
		switch {
		case failure == nil && !found:
			return nil, nil // an argument beside the array is absent
		case failure == nil:
			targets = append(targets, t)
		case failure.Code != writ.CodeTargetOutOfBounds:
			return nil, failure
		case outside == nil:
			outside = failure
		}
	}
	if twice := repeated(targets); twice != "" {
		return nil, invalid(twice, "it names a target that the array names before")
	}
	if outside != nil {
		return nil, outside
	}
	return targets, nil
}

// entityOf returns the target of one row: the arguments, and an element of the
// array at pointer, if there is one. It is not found when an optional argument
// of the templates is absent.
func (p *targetPlan) entityOf(args map[string]any, row any, pointer string) (t Target, found bool, failure *Failure) {
	id, found, failure := p.render(p.id, args, row, pointer)
	if failure != nil || !found {
		return t, found, failure
	}
	t.Entity.UID = types.NewEntityUID(p.entity, types.String(id))
	t.MayBeNew = p.mayBeNew
	var few [4]types.EntityUID
	parents := few[:0]
	for i := range p.parents {
		id, found, failure := p.render(p.parents[i].id, args, row, pointer)
		if failure != nil || !found {
			return t, found, failure
		}
		parents = append(parents, types.NewEntityUID(p.parents[i].entity, types.String(id)))
	}
	if len(parents) > 0 {
		t.Entity.Parents = types.NewEntityUIDSet(parents...)
	}
	if t.Pointer = pointer; row == nil {
		t.Pointer = p.id.first().pointer
	}
	t.Element, _ = row.(map[string]any)
	return t, true, nil
}

func (t template) first() *place {
	for _, part := range t {
		if part.place != nil {
			return part.place
		}
	}
	return &place{}
}

// render makes an id of a template.
func (p *targetPlan) render(t template, args map[string]any, row any, pointer string) (id string, found bool, failure *Failure) {
	var few [128]byte
	text := few[:0]
	for _, part := range t {
		if part.place == nil {
			text = append(text, part.literal...)
			continue
		}
		var v any
		at := part.place.pointer
		if part.place.each {
			v, found = row, true
			at = pointer + part.place.afterPointer
		} else if v, found, failure = follow(args, part.place.before, at); failure != nil || !found {
			return "", false, failure
		}
		value, failure := part.place.text(v, at)
		if failure != nil {
			return "", false, failure
		}
		if why := badPart(value, p.separators, p.mayBeNew); why != "" {
			return "", false, outOfBounds(at, why)
		}
		if p.foldsIDs {
			value = foldASCII(value)
		}
		text = append(text, value...)
	}
	return string(text), true, nil
}

// follow goes from member to member. A member that is absent and has no meaning
// then is not found; something that is no object on the way is a failure.
func follow(object map[string]any, hops []hop, pointer string) (v any, found bool, failure *Failure) {
	v = object
	for _, h := range hops {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false, invalid(pointer, "a target is made of it, and it is not inside an object")
		}
		if v, ok = m[h.member]; !ok {
			if v = h.fallback; v == nil {
				return nil, false, nil
			}
		}
	}
	return v, true, nil
}

// rows returns the values that hold p's texts: the value itself, or each
// element of the array.
func (p *place) rows(args map[string]any) (rows []any, found bool, failure *Failure) {
	if p.each {
		return p.elements(args)
	}
	v, found, failure := follow(args, p.before, p.pointer)
	if failure != nil || !found {
		return nil, found, failure
	}
	return []any{v}, true, nil
}

// elements returns the elements of the array that before leads to.
func (p *place) elements(args map[string]any) (rows []any, found bool, failure *Failure) {
	v, found, failure := follow(args, p.before, p.pointer)
	if failure != nil || !found {
		return nil, found, failure
	}
	rows, ok := v.([]any)
	switch {
	case !ok:
		return nil, false, invalid(p.pointer, "the targets are made of it, and it is no array")
	case len(rows) == 0:
		return nil, false, invalid(p.pointer, "it is empty, and a call needs at least one target")
	}
	return rows, true, nil
}

// at returns the pointer of the i-th row.
func (p *place) at(i int) string {
	if !p.each {
		return p.pointer
	}
	return p.pointer + "/" + strconv.Itoa(i) + p.afterPointer
}

// text returns the text of a row: the value that after leads to, an integer as
// digits.
func (p *place) text(row any, pointer string) (string, *Failure) {
	if len(p.after) > 0 {
		object, ok := row.(map[string]any)
		if !ok {
			return "", invalid(pointer, "a target is made of it, and it is not inside an object")
		}
		v, found, failure := follow(object, p.after, pointer)
		if failure != nil {
			return "", failure
		}
		if !found {
			return "", invalid(pointer, "a target is made of it, and it is absent")
		}
		row = v
	}
	switch v := row.(type) {
	case string:
		if p.kind == String {
			return v, nil
		}
	case json.Number:
		if p.kind == Long && isInteger(v) {
			return string(v), nil
		}
	}
	return "", invalid(pointer, fmt.Sprintf("a target is made of it, and it is no %s", p.kind))
}

// repeated returns the pointer of the first target that is there before, or
// nothing. Only arrays come here with more than one.
func repeated(targets []Target) string {
	if len(targets) <= 16 {
		for i := range targets {
			if slices.ContainsFunc(targets[:i], func(t Target) bool { return t.Entity.UID == targets[i].Entity.UID }) {
				return targets[i].Pointer
			}
		}
		return ""
	}
	seen := make(map[types.EntityUID]bool, len(targets))
	for i := range targets {
		if seen[targets[i].Entity.UID] {
			return targets[i].Pointer
		}
		seen[targets[i].Entity.UID] = true
	}
	return ""
}

func tooMany(pointer string) *Failure {
	return invalid(pointer, "the call has more than "+strconv.Itoa(MaxTargets)+" targets")
}
