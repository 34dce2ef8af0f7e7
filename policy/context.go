package policy

import (
	"math/bits"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"

	"github.com/writ-pdp/writ"
)

// ContextInput is what the context of one evaluation is made from.
type ContextInput struct {
	Now  time.Time
	Zone *time.Location // of context.local; nil: UTC
	// Intent and Token are optional; without them context.intent,
	// context.purpose and context.token are absent.
	Intent *writ.Intent
	Token  *writ.Token
	// Principal and Actors are the entities of the call's principal and
	// actors, whoever is being judged.
	Principal types.EntityUID
	Actors    []types.EntityUID
	Tool      types.EntityUID
	Arguments types.Record  // Projection.Record
	Element   *types.Record // the array element that the target comes from
	Evidence  []EvidenceSeen
	// Unsupported returns the pointers of arguments that lack evidence. It is
	// called only where policies ask for them; nil: there are none.
	Unsupported func() []string
	// Classifications are those of the evidence, Unknown the pointers of entity
	// arguments that the snapshot doesn't hold.
	Classifications, Unknown []string
	// Review is the review policy that an approval is to lift; zero otherwise.
	Review types.EntityUID
}

// EvidenceSeen is one piece of evidence as policies see it.
type EvidenceSeen struct {
	Argument, Kind, Classification string
	Trusted                        bool // the caller may vouch for this kind of source
}

// contextField is one attribute of the context: its type for the schema, and
// its value for an evaluation. Both come from this one table.
type contextField struct {
	name     types.String
	optional bool
	// schema returns the attribute's type, or nil where there is no such
	// attribute.
	schema func(c *contextTypes) schemaast.IsType
	// value returns the attribute's value, or nil when it is absent.
	value func(s *Schema, in *ContextInput) types.Value
}

// contextTypes is what the types of a context's attributes depend on.
type contextTypes struct {
	principal, actor   types.EntityType
	arguments, element schemaast.IsType
	approval           bool
}

var contextFields = [...]contextField{
	{
		name:   "now",
		schema: always(schemaast.Datetime()),
		value:  func(_ *Schema, in *ContextInput) types.Value { return types.NewDatetime(in.Now) },
	},
	{
		name:   "local",
		schema: always(schemaast.RecordType{"weekday": required(schemaast.String()), "hour": required(schemaast.Long())}),
		value: func(_ *Schema, in *ContextInput) types.Value {
			zone := in.Zone
			if zone == nil {
				zone = time.UTC
			}
			local := in.Now.In(zone)
			return types.NewRecord(types.RecordMap{
				"weekday": types.String(strings.ToLower(local.Weekday().String())),
				"hour":    types.Long(local.Hour()),
			})
		},
	},
	{
		name: "intent", optional: true,
		schema: always(schemaast.RecordType{
			"id": required(schemaast.String()), "purpose": required(schemaast.String()),
			"declared_at": required(schemaast.Datetime()), "expires_at": required(schemaast.Datetime()),
		}),
		value: func(_ *Schema, in *ContextInput) types.Value {
			if in.Intent == nil {
				return nil
			}
			return types.NewRecord(types.RecordMap{
				"id":          types.String(in.Intent.ID),
				"purpose":     types.String(in.Intent.Purpose),
				"declared_at": types.NewDatetime(in.Intent.DeclaredAt),
				"expires_at":  types.NewDatetime(in.Intent.ExpiresAt),
			})
		},
	},
	{
		name: "purpose", optional: true,
		schema: always(schemaast.String()),
		value: func(_ *Schema, in *ContextInput) types.Value {
			if in.Intent == nil || in.Intent.Purpose == "" {
				return nil
			}
			return types.String(in.Intent.Purpose)
		},
	},
	{
		name: "token", optional: true,
		schema: always(schemaast.RecordType{
			"issuer": required(schemaast.String()), "scopes": required(schemaast.Set(schemaast.String())),
			"issued_at": required(schemaast.Datetime()), "expires_at": required(schemaast.Datetime()),
		}),
		value: func(_ *Schema, in *ContextInput) types.Value {
			if in.Token == nil {
				return nil
			}
			return types.NewRecord(types.RecordMap{
				"issuer":     types.String(in.Token.Issuer),
				"scopes":     stringSet(in.Token.Scopes),
				"issued_at":  types.NewDatetime(in.Token.IssuedAt),
				"expires_at": types.NewDatetime(in.Token.ExpiresAt),
			})
		},
	},
	{
		name:   "principal",
		schema: func(c *contextTypes) schemaast.IsType { return oneType(c.principal) },
		value: func(s *Schema, in *ContextInput) types.Value {
			if s.principal == "" || in.Principal.Type != s.principal {
				return nil
			}
			return in.Principal
		},
	},
	{
		name: "actors",
		schema: func(c *contextTypes) schemaast.IsType {
			if t := oneType(c.actor); t != nil {
				return schemaast.Set(t)
			}
			return nil
		},
		value: func(s *Schema, in *ContextInput) types.Value {
			if s.actor == "" {
				return nil
			}
			actors := make([]types.Value, len(in.Actors))
			for i, a := range in.Actors {
				if a.Type != s.actor {
					return nil
				}
				actors[i] = a
			}
			return types.NewSet(actors...)
		},
	},
	{
		name:   "tool",
		schema: always(schemaast.EntityType(typeTool)),
		value:  func(_ *Schema, in *ContextInput) types.Value { return in.Tool },
	},
	{
		name:   "arguments",
		schema: func(c *contextTypes) schemaast.IsType { return c.arguments },
		value:  func(_ *Schema, in *ContextInput) types.Value { return in.Arguments },
	},
	{
		name: "element", optional: true,
		schema: func(c *contextTypes) schemaast.IsType { return c.element },
		value: func(_ *Schema, in *ContextInput) types.Value {
			if in.Element == nil {
				return nil
			}
			return *in.Element
		},
	},
	{
		name: "evidence",
		schema: always(schemaast.Set(schemaast.RecordType{
			"argument": required(schemaast.String()), "kind": required(schemaast.String()),
			"classification": required(schemaast.String()), "trusted": required(schemaast.Bool()),
		})),
		value: func(_ *Schema, in *ContextInput) types.Value {
			if len(in.Evidence) == 0 {
				return types.Set{}
			}
			seen := make([]types.Value, len(in.Evidence))
			for i, e := range in.Evidence {
				seen[i] = types.NewRecord(types.RecordMap{
					"argument": types.String(e.Argument), "kind": types.String(e.Kind),
					"classification": types.String(e.Classification), "trusted": types.Boolean(e.Trusted),
				})
			}
			return types.NewSet(seen...)
		},
	},
	{
		name:   "unsupported",
		schema: always(schemaast.Set(schemaast.String())),
		value: func(_ *Schema, in *ContextInput) types.Value {
			if in.Unsupported == nil {
				return types.Set{}
			}
			return stringSet(in.Unsupported())
		},
	},
	{
		name:   "classifications",
		schema: always(schemaast.Set(schemaast.String())),
		value:  func(_ *Schema, in *ContextInput) types.Value { return stringSet(in.Classifications) },
	},
	{
		name:   "unknown",
		schema: always(schemaast.Set(schemaast.String())),
		value:  func(_ *Schema, in *ContextInput) types.Value { return stringSet(in.Unknown) },
	},
	{
		name: "review",
		schema: func(c *contextTypes) schemaast.IsType {
			if !c.approval {
				return nil
			}
			return schemaast.EntityType(typePolicy)
		},
		value: func(_ *Schema, in *ContextInput) types.Value {
			if in.Review.IsZero() {
				return nil
			}
			return in.Review
		},
	},
}

// Context returns the context of one evaluation. Its attributes are those
// that the schema gives in.Tool's actions, provided that Arguments and Element
// come from the same contract. context.principal and context.actors are left
// out where an entity's type isn't the schema's, so that a forbid which reads
// them fails and denies.
func (s *Schema) Context(in ContextInput) types.Record { return s.context(allFields, &in) }

// context makes the fields of a set.
func (s *Schema) context(fields fieldSet, in *ContextInput) types.Record {
	if fields == 0 {
		return types.Record{}
	}
	out := make(types.RecordMap, bits.OnesCount32(uint32(fields)))
	for i := range contextFields {
		if fields&(1<<i) == 0 {
			continue
		}
		if v := contextFields[i].value(s, in); v != nil {
			out[contextFields[i].name] = v
		}
	}
	return types.NewRecord(out)
}

// contextType returns the type of an action's context.
func (b *schemaBuilder) contextType(arguments, element schemaast.IsType, approval bool) schemaast.RecordType {
	c := contextTypes{
		principal: b.s.principal, actor: b.s.actor,
		arguments: arguments, element: element, approval: approval,
	}
	out := make(schemaast.RecordType, len(contextFields))
	for _, f := range contextFields {
		if t := f.schema(&c); t != nil {
			out[f.name] = schemaast.Attribute{Type: t, Optional: f.optional}
		}
	}
	return out
}

func always(t schemaast.IsType) func(*contextTypes) schemaast.IsType {
	return func(*contextTypes) schemaast.IsType { return t }
}

// oneType returns a reference to t, or nil if t is empty.
func oneType(t types.EntityType) schemaast.IsType {
	if t == "" {
		return nil
	}
	return schemaast.EntityType(t)
}

func stringSet(list []string) types.Set {
	if len(list) == 0 {
		return types.Set{}
	}
	out := make([]types.Value, len(list))
	for i, s := range list {
		out[i] = types.String(s)
	}
	return types.NewSet(out...)
}
