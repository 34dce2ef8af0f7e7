package contract

import (
	"slices"
	"strings"
)

// IsSecret reports whether what pointer leads to in the arguments (RFC 6901)
// is, holds, or is part of a secret argument. What is at an argument that
// nobody declared, or at none, may be: it is.
func (c *Contract) IsSecret(pointer string) bool {
	if pointer == "" {
		return len(c.secrets) > 0
	}
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok || c.Arguments == nil {
		return true
	}
	tokens := strings.Split(rest, "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	if c.Arguments.Field(tokens[0]) == nil {
		return true
	}
	return slices.ContainsFunc(c.secrets, func(steps []step) bool {
		for i := range min(len(steps), len(tokens)) {
			if !steps[i].each && steps[i].member != tokens[i] {
				return false
			}
		}
		return true
	})
}

// SecretTargets reports whether a secret argument is part of what calls are
// about.
func (c *Contract) SecretTargets() bool { return c.secretTargets }

// telling checks what records may tell of the arguments, and what they may not.
// l is the resource line of the tool; nil: none, or faulty.
func (t *toolBuilder) telling(l *line) {
	var secrets []*argument
	for _, name := range sortedKeys(t.review.secret) {
		e := t.review.secret[name]
		a := t.find(name, e.field, e.own)
		if a == nil || a.lost() {
			continue
		}
		if method := t.review.methodArgument; method != "" && a.steps[0].member == method {
			t.errorf(e.field, "%q chooses the method, and records name the action: it cannot be secret", name)
		}
		secrets = append(secrets, a)
		t.contract.Secret = append(t.contract.Secret, name)
		t.contract.secrets = append(t.contract.secrets, a.steps)
	}
	for _, name := range sortedKeys(t.review.loggable) {
		e := t.review.loggable[name]
		a := t.find(name, e.field, e.own)
		if a == nil || a.lost() {
			continue
		}
		if a.array() != nil {
			t.errorf(e.field, "%q is in an array: name the array", name)
			continue
		}
		if i := slices.IndexFunc(secrets, a.overlaps); i >= 0 {
			// The tool's own word, that it is secret, replaces the default's.
			if secret := t.review.secret[secrets[i].name]; e.own || !secret.own {
				t.errorf(e.field, "%q is, holds, or is part of %q, which is secret: keep one of them", name, secrets[i].name)
			}
			continue
		}
		t.contract.Loggable = append(t.contract.Loggable, a.pointer())
	}
	slices.Sort(t.contract.Loggable)
	if l == nil {
		return
	}
	for name := range l.mentions() {
		if a := t.catalog.byName[name]; a != nil && slices.ContainsFunc(secrets, a.overlaps) {
			t.contract.secretTargets = true
		}
	}
}

// overlaps reports whether one of a and b is the other, or is part of it.
func (a *argument) overlaps(b *argument) bool {
	n := min(len(a.steps), len(b.steps))
	return slices.Equal(a.steps[:n], b.steps[:n])
}
