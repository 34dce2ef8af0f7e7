package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/target"
)

// A contract can keep the paths of a call within directories: calls that leave
// them are TARGET_OUT_OF_BOUNDS, before policies are asked. A policy about
// a path outside all of them never applies.

// bounds are directories outside which no path is. Nil: there are none.
type bounds []bound

type bound struct {
	root string
	fold bool // names are case-insensitive
}

// boundsOf returns the bounds of an argument's paths.
func boundsOf(t *contract.Type) *bounds {
	if t == nil || t.Role == nil || t.Entity != typePath {
		return nil
	}
	var out bounds
	return out.add(t.Role)
}

// add returns the bounds together with a resource's own.
func (b bounds) add(r *contract.Resource) *bounds {
	if len(r.Within) == 0 {
		return nil
	}
	for _, root := range r.Within {
		if one := (bound{root, r.Case == "insensitive"}); !slices.Contains(b, one) {
			b = append(b, one)
		}
	}
	return &b
}

// targetBounds returns the bounds of the paths that calls of the class are
// about.
func (of *class) targetBounds() *bounds {
	if of.bounded {
		return of.bounds
	}
	all := &bounds{}
	for _, c := range of.contracts {
		if c.Resource == nil {
			all = nil
		} else if all != nil {
			all = all.add(c.Resource)
		}
	}
	of.bounds, of.bounded = all, true
	return all
}

// admits reports whether some path inside the bounds can be the path text, or
// with below, be it or lie below it.
func (b *bounds) admits(text string, below bool) bool {
	if b == nil {
		return true
	}
	return slices.ContainsFunc(*b, func(one bound) bool {
		o := target.PathOptions{Fold: one.fold}
		path, err := target.NewPath(text, o)
		root, rootErr := target.NewPath(one.root, o)
		if err != nil || rootErr != nil {
			return true // not the bounds' concern
		}
		return path.Within(root) || below && root.Within(path)
	})
}

// beyond says that a path literal is outside the bounds of type t, or nothing.
func (c *checker) beyond(literal *expr, t typ, below bool) string {
	v, _ := literal.node.(ast.NodeValue)
	uid, _ := v.Value.(types.EntityUID)
	return beyondBounds(uid, t.bounds, below)
}

func beyondBounds(uid types.EntityUID, b *bounds, below bool) string {
	if uid.Type != typePath || b.admits(string(uid.ID), below) || notNormal(uid) != "" {
		return ""
	}
	var roots []string
	for _, one := range *b {
		roots = append(roots, one.root)
	}
	if len(roots) > maxNamed {
		roots = append(roots[:maxNamed:maxNamed], "…")
	}
	return fmt.Sprintf("this can never be true: the contracts in this policy's scope keep paths within %s (`within`), and %s is elsewhere",
		strings.Join(roots, ", "), uid)
}

// inBounds notes directories that nothing of type t is ever in.
func (c *checker) inBounds(e, right *expr, t typ) {
	var outside []*expr
	message := ""
	for _, literal := range elements(right) {
		if one := c.beyond(literal, t, true); one != "" {
			outside, message = append(outside, literal), one
		}
	}
	if len(outside) > 0 && len(outside) == len(elements(right)) {
		c.note(topicNever, e, message).strong = true
		return
	}
	for _, literal := range outside {
		c.note(topicNever, literal, c.beyond(literal, t, true))
	}
}

// scopeBounds checks that the path which the resource scope names can hold,
// or be, a call's target.
func (c *checker) scopeBounds() writ.Faults {
	parts := partsOf(c.in.policy.Resource)
	if len(c.located.resource.entities) == 0 || parts.uid.Type != typePath {
		return nil
	}
	message := ""
	for env := range c.environments() {
		if env.resource != typePath {
			continue
		}
		one := beyondBounds(parts.uid, env.class.targetBounds(), parts.in)
		if one == "" {
			return nil
		}
		if message == "" {
			message = one
		}
	}
	if message == "" {
		return nil
	}
	return writ.Faults{c.located.fault(c.located.resource.entities[0], message)}
}
