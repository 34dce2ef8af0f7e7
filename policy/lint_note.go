package policy

import "slices"

// topic is what a note is about.
type topic uint8

// Topics. Those up to lastMistake are what Cedar's validator refuses too; the
// others it accepts. A note on one of the latter is a fault only if it was made
// in every environment in which the expression is looked at.
const (
	topicMissing    topic = iota + 1 // an attribute that isn't there
	topicOptional                    // one that may be absent, without a guard
	topicOperand                     // an operand of the wrong type
	topicComparison                  // values of different types
	topicLiteral                     // a decimal, date, … that can't be read
	topicCall                        // wrong arguments of a function
	topicType                        // an unknown entity type or action
	topicTag
	topicSet // an empty or mixed set, branches of different types
	lastMistake

	topicUndeclared // `has` on what nothing declares
	topicEnum       // a text outside an enum
	topicCase       // a text in the wrong case
	topicNever      // entities that never match
)

// note is one thing that is wrong with an expression, in some of the
// environments in which the policy applies.
type note struct {
	topic   topic
	e       *expr
	message string
	// envs counts the environments that the note was made in; first is the
	// first of them.
	envs    int
	first   environment
	classes map[*class]bool
	owners  map[string]bool // entity types or other owners of an attribute
	words   map[string]bool // what would have been right
	order   []string        // of words, where it isn't alphabetical
	// strong says that the message says more than those of other environments.
	strong bool
}

func newNote(t topic, e *expr, message string) *note {
	return &note{topic: t, e: e, message: message, classes: map[*class]bool{}, owners: map[string]bool{}, words: map[string]bool{}}
}

type noteKey struct {
	topic topic
	e     *expr
	// message tells several things about one expression apart.
	message string
}

// note notes something about e in the environment at hand.
func (c *checker) note(t topic, e *expr, message string) *note {
	if c.silent {
		return newNote(t, e, message)
	}
	key := noteKey{t, e, message}
	n := c.byKey[key]
	if n == nil {
		n = newNote(t, e, message)
		n.first = c.env
		c.byKey[key] = n
		c.notes = append(c.notes, n)
	}
	n.envs++
	n.classes[c.env.class] = true
	return n
}

// guards are the attributes and tags that are known to be there: texts of
// what has them, with their names.
type guards []string

func (g guards) has(key string) bool { return slices.Contains(g, key) }

func (g guards) with(keys ...string) guards {
	out := slices.Clip(g)
	for _, key := range keys {
		if !out.has(key) {
			out = append(out, key)
		}
	}
	return out
}

func (g guards) both(other guards) guards {
	var out guards
	for _, key := range g {
		if other.has(key) {
			out = append(out, key)
		}
	}
	return out
}

func guardKey(owner *expr, name string) string { return owner.text() + "\x00" + name }
