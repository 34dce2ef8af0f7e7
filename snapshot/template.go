package snapshot

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go/types"
)

// MaxEntityID is the greatest size in bytes of an id that a template makes.
const MaxEntityID = 1024

// Template makes a Cedar entity from a subject and its claims:
//
//	User::"{sub}"                 the subject
//	User::"okta|{sub}"            the subject with a prefix
//	Agent::"{client_id}"          the claim client_id
//	User::"{tid}/{oid}"           two claims
//
// {sub} is the subject; every other name is a claim. What is substituted is
// opaque: it is never parsed, so it can forge neither quotes nor types. Two
// subjects never give one entity: where a template has several placeholders
// there is text between them, and a claim may not hold the text that ends it.
//
// The zero Template makes no entity.
type Template struct {
	text    string
	typ     types.EntityType
	prefix  string // before the first placeholder
	holders []placeholder
}

// placeholder is one {name} and the text from its end to the next one.
type placeholder struct{ name, after string }

// ParseTemplate reads a template.
func ParseTemplate(text string) (Template, error) {
	fail := func(format string, args ...any) (Template, error) {
		return Template{}, fmt.Errorf("template %q: %s", text, fmt.Sprintf(format, args...))
	}
	typ, id, ok := strings.Cut(text, `"`)
	if !ok || !strings.HasSuffix(typ, "::") || !strings.HasSuffix(id, `"`) {
		return fail(`write an entity whose id holds a placeholder, such as User::"{sub}"`)
	}
	typ, id = strings.TrimSuffix(typ, "::"), strings.TrimSuffix(id, `"`)
	for part := range strings.SplitSeq(typ, "::") {
		if !isIdentifier(part) {
			return fail("%q is not an entity type: write identifiers joined by ::", typ)
		}
	}
	if !utf8.ValidString(id) {
		return fail("it is not valid UTF-8")
	}
	if strings.ContainsAny(id, `"\`) || strings.ContainsFunc(id, unicode.IsControl) {
		return fail("quotes, backslashes and control characters may not stand in the id")
	}
	prefix, rest, ok := strings.Cut(id, "{")
	if !ok {
		return fail("the id has no placeholder, so every subject would be one entity: write {sub} or {a_claim}")
	}
	t := Template{text: text, typ: types.EntityType(typ), prefix: prefix}
	if strings.Contains(prefix, "}") {
		return fail("a } has no {")
	}
	for more := true; more; {
		var name, after string
		name, rest, ok = strings.Cut(rest, "}")
		if !ok {
			return fail("a { has no }")
		}
		if name == "" || strings.ContainsAny(name, "{ ") {
			return fail("a placeholder is a claim's name in braces, such as {sub}")
		}
		for _, h := range t.holders {
			if h.name == name {
				return fail("{%s} stands twice", name)
			}
		}
		after, rest, more = strings.Cut(rest, "{")
		if strings.Contains(after, "}") {
			return fail("a } has no {")
		}
		if more && after == "" {
			return fail("two placeholders need text between them, or two subjects could be one entity")
		}
		t.holders = append(t.holders, placeholder{name, after})
	}
	return t, nil
}

// String returns the template as it was written.
func (t Template) String() string { return t.text }

// Type returns the type of the entities that t makes.
func (t Template) Type() types.EntityType { return t.typ }

// Prefix returns the text that every id of t starts with; often empty.
func (t Template) Prefix() string { return t.prefix }

// Names returns the names of its placeholders, in order.
func (t Template) Names() []string {
	names := make([]string, len(t.holders))
	for i, h := range t.holders {
		names[i] = h.name
	}
	return names
}

// Overlaps reports whether t and u could make one entity from different
// subjects: they share a type, and neither prefix rules the other out.
func (t Template) Overlaps(u Template) bool {
	return t.typ == u.typ && (strings.HasPrefix(t.prefix, u.prefix) || strings.HasPrefix(u.prefix, t.prefix))
}

// Entity makes the entity of a subject. It is an error when a claim that t
// names is missing or empty, when a value is not valid UTF-8 or holds the
// text that would end it, or when the id is longer than [MaxEntityID].
func (t Template) Entity(subject string, claims map[string]string) (types.EntityUID, error) {
	if len(t.holders) == 0 {
		return types.EntityUID{}, errors.New("the issuer has no template for this entity")
	}
	if t.prefix == "" && len(t.holders) == 1 && t.holders[0].after == "" { // the usual form, without a copy
		value, err := t.holders[0].value(subject, claims)
		if err != nil {
			return types.EntityUID{}, err
		}
		return types.NewEntityUID(t.typ, types.String(value)), nil
	}
	var id strings.Builder
	id.WriteString(t.prefix)
	for i, h := range t.holders {
		value, err := h.value(subject, claims)
		if err != nil {
			return types.EntityUID{}, err
		}
		last := i == len(t.holders)-1
		if !last && strings.Index(value+h.after, h.after) != len(value) {
			return types.EntityUID{}, fmt.Errorf("claim %q holds %q, which ends it in the template", h.name, h.after)
		}
		id.WriteString(value)
		id.WriteString(h.after)
	}
	if id.Len() > MaxEntityID {
		return types.EntityUID{}, fmt.Errorf("the entity's id would be longer than %d bytes", MaxEntityID)
	}
	return types.NewEntityUID(t.typ, types.String(id.String())), nil
}

// Match finds the subject and claims from which t makes uid: the inverse of
// Entity. The subject is empty where t doesn't name {sub}.
func (t Template) Match(uid types.EntityUID) (subject string, claims map[string]string, ok bool) {
	rest, ok := strings.CutPrefix(string(uid.ID), t.prefix)
	if !ok || len(t.holders) == 0 || uid.Type != t.typ {
		return "", nil, false
	}
	for i, h := range t.holders {
		var value string
		if i == len(t.holders)-1 {
			value, ok = strings.CutSuffix(rest, h.after)
		} else {
			value, rest, ok = strings.Cut(rest, h.after)
		}
		if !ok || value == "" {
			return "", nil, false
		}
		if h.name == "sub" {
			subject = value
			continue
		}
		if claims == nil {
			claims = make(map[string]string)
		}
		claims[h.name] = value
	}
	if made, err := t.Entity(subject, claims); err != nil || made != uid {
		return "", nil, false
	}
	return subject, claims, true
}

// value returns what stands for the placeholder.
func (h placeholder) value(subject string, claims map[string]string) (string, error) {
	value := subject
	if h.name != "sub" {
		value = claims[h.name]
	}
	switch {
	case value == "":
		return "", fmt.Errorf("claim %q is missing or empty", h.name)
	case len(value) > MaxEntityID:
		return "", fmt.Errorf("claim %q is longer than %d bytes", h.name, MaxEntityID)
	case !utf8.ValidString(value):
		return "", fmt.Errorf("claim %q is not valid UTF-8", h.name)
	}
	return value, nil
}

// isIdentifier reports whether s is a Cedar identifier.
func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
