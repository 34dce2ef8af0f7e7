package contract

import (
	"github.com/writ-pdp/writ/canon"
)

// step is one step into arguments: to a member, or to each element.
type step struct {
	member string
	each   bool
}

// argument is one place in a tool's arguments that a review can name.
type argument struct {
	name  string // as reviews write it: filter.query, items[].path
	steps []step
	typ   *Type
	// parent is what the argument is a member or an element of; nil at the top.
	parent *argument
	// optional says that it is a member that its record does not require.
	optional bool
	// unsettled is why policies could not see it exactly; empty: settled.
	unsettled string
}

// element reports whether a is the element of an array.
func (a *argument) element() bool { return a.steps[len(a.steps)-1].each }

// array returns the array that a is in or is an element of, or nil. There is
// at most one, because sets hold no sets.
func (a *argument) array() *argument {
	for b := a; b != nil; b = b.parent {
		if b.element() {
			return b.parent
		}
	}
	return nil
}

// lost reports whether something that a is part of is unsettled, so that what
// is said about a is moot.
func (a *argument) lost() bool {
	for b := a.parent; b != nil; b = b.parent {
		if b.unsettled != "" {
			return true
		}
	}
	return false
}

// pointer returns a's JSON Pointer into the arguments. It is meaningless for
// places inside arrays.
func (a *argument) pointer() string {
	var p []byte
	for _, s := range a.steps {
		p = canon.AppendPointer(p, s.member)
	}
	return string(p)
}

// field returns the record field that a is, or nil for elements.
func (a *argument) field(root *Type) *Field {
	record := root
	if a.parent != nil {
		record = a.parent.typ
	}
	if a.element() || record == nil {
		return nil
	}
	return record.Field(a.steps[len(a.steps)-1].member)
}

// catalog holds every argument of a tool that a review can name.
type catalog struct {
	byName map[string]*argument
	order  []*argument
	twice  map[string]bool // names that can be read in two ways
}

func newCatalog() *catalog {
	return &catalog{byName: map[string]*argument{}, twice: map[string]bool{}}
}

func (c *catalog) add(a *argument) {
	if _, ok := c.byName[a.name]; ok {
		c.twice[a.name] = true
	}
	c.byName[a.name] = a
	c.order = append(c.order, a)
}

func (c *catalog) names() []string {
	names := make([]string, len(c.order))
	for i, a := range c.order {
		names[i] = a.name
	}
	return names
}
