package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// Annotations that a policy may have. Any other is an error, so that a
// misspelt @review can't go unnoticed.
const (
	noteID      = "id"      // required, unique in the bundle
	noteCode    = "code"    // of a forbid: the code of the denial
	noteReview  = "review"  // of a forbid: how many people can lift it
	noteExplain = "explain" // for people
	noteAbsent  = "absent"  // of a forbid: "allowed"
)

var noteNames = []string{noteID, noteCode, noteReview, noteExplain, noteAbsent}

// maxID is the greatest length of an @id.
const maxID = 128

// annotations reads the annotations of one policy.
type annotations struct {
	entry  *entry
	policy *ast.Policy
	text   []byte // of the policy
	faults writ.Faults
}

// read checks the annotations and fills in what they say. It returns whether
// the policy has @absent("allowed").
func (a *annotations) read(ref *writ.PolicyRef) (absent bool) {
	notes := a.entry.annotations
	for name := range notes {
		if !slices.Contains(noteNames, name) {
			a.fault(name, "@%s means nothing here%s", name, atNearest(name))
		}
	}
	if id, ok := notes[noteID]; !ok {
		a.fault("", `every policy needs an @id, such as @id("clerks-pay")`)
	} else if strings.HasPrefix(id, ownStart) && a.entry.source.File != rightsFile {
		a.fault(noteID, "id %q: ids that start with %s are those of Writ's own policies: choose another", id, ownStart)
	} else if !validID(id) {
		a.fault(noteID, "id %q: an id is 1 to %d characters of A-Z, a-z, 0-9 and _ . : / -", id, maxID)
	}
	ref.ID = notes[noteID]
	ref.Explain = notes[noteExplain]
	code, hasCode := notes[noteCode]
	review, hasReview := notes[noteReview]
	allowed, hasAbsent := notes[noteAbsent]
	if a.policy.Effect == ast.EffectPermit {
		for _, name := range []string{noteCode, noteReview, noteAbsent} {
			if _, ok := notes[name]; ok {
				a.fault(name, "@%s belongs to a forbid: this is a permit", name)
			}
		}
		return false
	}
	rights := aboutRights(a.policy.Action)
	switch {
	case rights && hasReview:
		a.fault(noteReview, "nobody can lift this forbid: a caller that may not call a method is refused at the door, without a review; leave @review out")
	case rights && !hasCode: // whoever is refused at the door is told no code
	case hasCode && hasReview:
		a.fault(noteReview, "a forbid has either @code or @review, not both: who may lift a denial with a code?")
	case !hasCode && !hasReview:
		a.fault("", `a forbid needs @code("NAME_OF_THE_DENIAL"), or @review("1") if people can lift it`)
	case hasCode:
		ref.Code = writ.Code(code)
		if err := writ.CheckBundleCode(ref.Code); err != nil {
			a.fault(noteCode, "%s", err)
		}
	case len(review) == 1 && '1' <= review[0] && review[0] <= '9':
		ref.Review = int(review[0] - '0')
	default:
		a.fault(noteReview, `@review says how many people can lift the forbid: @review("1") to @review("9")`)
	}
	if hasAbsent && rights {
		a.fault(noteAbsent, "@absent is about arguments of calls: this forbid is about callers of the PDP, so leave it out")
	} else if hasAbsent && allowed != "allowed" {
		a.fault(noteAbsent, `@absent has one value: @absent("allowed")`)
	}
	return hasAbsent
}

// fault reports a fault at the annotation, or at the policy if it has none of
// that name.
func (a *annotations) fault(name, format string, args ...any) {
	places := locate(a.policy, a.entry.source, a.text, a.entry.offset)
	a.faults = append(a.faults, places.fault(places.annotations[name], fmt.Sprintf(format, args...)))
}

// atNearest suggests the annotation that was meant.
func atNearest(name string) string {
	if near := nearest(name, noteNames); near != "" {
		return "; did you mean @" + near + "?"
	}
	return ": the annotations are @id, @code, @review, @explain and @absent"
}

func validID(id string) bool {
	if len(id) < 1 || len(id) > maxID {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_' || c == '.' || c == ':' || c == '/' || c == '-':
		default:
			return false
		}
	}
	return true
}
