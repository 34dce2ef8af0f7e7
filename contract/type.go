package contract

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// Kind says how policies see a value.
type Kind uint8

// Kinds. The zero Kind is none of them.
const (
	String Kind = iota + 1
	Long
	Decimal
	Bool
	Entity
	Record
	Set
	Opaque // not seen by policies
)

var kindNames = [...]string{
	String: "string", Long: "Long", Decimal: "decimal", Bool: "boolean", Entity: "entity", Record: "record", Set: "set",
	Opaque: "opaque value",
}

// String returns the kind's name in messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown kind"
}

// MaxSet is how many elements an array may have that policies see as a set.
const MaxSet = 1024

// Type says how policies see one argument. It is the one table from which both
// the Cedar schema and the values are made.
type Type struct {
	Kind Kind
	// Entity is the Cedar type, for Kind Entity.
	Entity types.EntityType
	// MayBeNew says that the entity need not be held by the bundle.
	MayBeNew bool
	// BoundTo names the entity's attribute that must be or hold the principal;
	// empty: none.
	BoundTo string
	// Elem is the type of a Set's elements.
	Elem *Type
	// Fields are a Record's members, sorted by name.
	Fields []Field
	// Enum lists the strings that are allowed, as policies see them: folded
	// where Fold is set. Nil: any.
	Enum []string
	// Fold says that policies see the text with its ASCII letters in lower
	// case, because the argument takes part in a resource that folds.
	Fold bool
	// Role says how a Path, Host, Url or Email is read; nil for other types.
	Role *Resource

	// allowed lists the strings that are allowed, as the schema spells them.
	allowed []string
}

// Field is one member of a record.
type Field struct {
	Name string
	Type *Type
	// Optional says that the member may be absent.
	Optional bool
	// Default is what an absent member means (when_absent), as [canon.Parse]
	// returns values; then Optional is false. Nil: none.
	Default any
}

// Field returns the member called name, or nil.
func (t *Type) Field(name string) *Field {
	i, found := slices.BinarySearchFunc(t.Fields, name, func(f Field, name string) int {
		return strings.Compare(f.Name, name)
	})
	if !found {
		return nil
	}
	return &t.Fields[i]
}

// foldASCII returns s with its ASCII letters in lower case, and everything
// else as it is. It allocates only where that changes something.
func foldASCII(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
