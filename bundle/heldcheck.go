package bundle

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/entities"
)

// checkEntities holds each entity against its type in the schema. Files that
// are what they were under the same schema have no faults.
func (b *builder) checkEntities() {
	c := heldChecker{builder: b}
	sameSchema := b.before != nil && b.before.schema == b.schema
	for _, f := range b.layout.entities {
		if sameSchema && b.same(f, f.Name) {
			continue
		}
		c.data = nil
		held := b.files[f.Name].held
		for i := range held {
			h := &held[i]
			if err := b.schema.CheckEntity(entityOf(h)); err != nil {
				if c.found++; c.found > entities.MaxFaults {
					b.fault(h.File, h.Line, h.Column, fmt.Sprintf("more than %d entities like these: mend them first, the rest is not listed", entities.MaxFaults))
					return
				}
				if c.data == nil {
					c.data = b.text(f)
				}
				c.explain(h, err)
			}
		}
	}
}

// heldChecker says where in its file an entity differs from its type. Decoding
// remembers no places but the entity's own: there may be a million. So the
// text is read once more where a fault is found.
type heldChecker struct {
	*builder
	types map[string]attributes // nil until there is a fault
	found int
	data  []byte // of file; nil until there is a fault in it
}

// explain reports an entity that CheckEntity refuses: each attribute that its
// type doesn't have and each that it lacks, and else what err says.
func (c *heldChecker) explain(h *entities.Held, err error) {
	if c.types == nil {
		c.types = c.ownTypes()
	}
	message := strings.TrimPrefix(err.Error(), h.UID.String()+": ")
	names := c.names(h)
	if names && (strings.HasPrefix(message, "unexpected attribute ") || strings.HasPrefix(message, "missing required attribute ")) {
		return // of names alone, and err knows only one of them
	}
	pointer, member := placeOf(h, message)
	name, value := c.locate(h, pointer)
	if member {
		value = name
	}
	c.faultAt(h, value, message)
}

// names reports the attributes that the entity's type doesn't have, and the
// ones that it lacks, and whether there are any. An attribute that is there
// under a wrong name isn't also reported as missing.
func (c *heldChecker) names(h *entities.Held) bool {
	declared, known := c.types[string(h.UID.Type)]
	if !known {
		return false
	}
	var lacks []string
	for _, name := range keys(declared) {
		if _, there := h.Attributes.Get(types.String(name)); !there {
			lacks = append(lacks, name)
		}
	}
	found := false
	meant := map[string]bool{}
	for _, name := range attributeNames(h) {
		if _, ok := declared[name]; ok {
			continue
		}
		found = true
		message := fmt.Sprintf("unexpected attribute %q", name)
		if near := nearest(name, lacks); near != "" {
			meant[near] = true
			message += fmt.Sprintf(": did you mean %q?", near)
		} else if len(declared) == 0 {
			message += fmt.Sprintf(": a %s has no attributes", h.UID.Type)
		} else {
			message += fmt.Sprintf(": a %s has %s", h.UID.Type, strings.Join(keys(declared), ", "))
		}
		at, _ := c.locate(h, string(canon.AppendPointer([]byte("/attrs"), name)))
		c.faultAt(h, at, message)
	}
	for _, name := range lacks {
		if declared[name] && !meant[name] {
			found = true
			_, at := c.locate(h, "")
			c.faultAt(h, at, fmt.Sprintf("missing required attribute %q", name))
		}
	}
	return found
}

func attributeNames(h *entities.Held) []string {
	var out []string
	for name := range h.Attributes.Keys() {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return out
}

// placeOf returns the JSON Pointer into an entity of what CheckEntity's
// message is about, and whether it is about its name.
func placeOf(h *entities.Held, message string) (pointer string, name bool) {
	if _, parent, ok := strings.Cut(message, " can't be in "); ok {
		for i, p := range h.Parents {
			if strings.HasPrefix(parent, p.UID.String()+": ") {
				return "/parents/" + strconv.Itoa(i), false
			}
		}
	}
	if strings.HasSuffix(message, " does not allow tags") || strings.HasPrefix(message, "expected ") { // a tag's value
		return "/tags", true
	}
	at := []byte("/attrs")
	rest := message
	for {
		after, ok := strings.CutPrefix(rest, "attribute ")
		unexpected := false
		if !ok {
			after, unexpected = strings.CutPrefix(rest, "unexpected attribute ")
		}
		quoted, err := strconv.QuotedPrefix(after)
		if !ok && !unexpected || err != nil {
			break
		}
		step, _ := strconv.Unquote(quoted)
		at = canon.AppendPointer(at, step)
		if unexpected {
			return string(at), true
		}
		rest = strings.TrimPrefix(after[len(quoted):], ": ")
	}
	if rest == message {
		// The check of enumerated types writes the attribute's name as it is.
		for _, attribute := range attributeNames(h) {
			if strings.HasPrefix(message, attribute+": ") {
				return string(canon.AppendPointer(at, attribute)), false
			}
		}
		return "", false
	}
	return string(at), false
}

// locate returns the offsets in an entity's file of what pointer leads to in
// the entity.
func (c *heldChecker) locate(h *entities.Held, pointer string) (name, value int) {
	start := offsetOf(c.data, h.Line, h.Column)
	name, value = canon.Locate(c.data[start:], pointer)
	return start + name, start + value
}

func (c *heldChecker) faultAt(h *entities.Held, offset int, message string) {
	line, column := lineOf(c.data, offset)
	c.fault(h.File, line, column, h.UID.String()+": "+message)
}

// offsetOf is the inverse of lineOf.
func offsetOf(data []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			return len(data)
		}
		at += n + 1
	}
	for ; column > 1 && at < len(data); column-- {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return at
}
