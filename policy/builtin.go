package policy

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"

	"github.com/writ-pdp/writ/contract"
)

// Entity types that Writ declares. A bundle may use them and not redeclare
// them.
const (
	typePath  = contract.PathType
	typeHost  = contract.HostType
	typeURL   = contract.URLType
	typeEmail = contract.EmailType

	typeTool   types.EntityType = "Tool"
	typeServer types.EntityType = "Server"
	typePolicy types.EntityType = "Policy"
	typeAction types.EntityType = "Action"
)

// isTargetType reports whether entities of type t are made from an
// argument's text and never stored: Path, Host, Url, Email.
func isTargetType(t types.EntityType) bool {
	return t == typePath || t == typeHost || t == typeURL || t == typeEmail
}

// builtIn returns the entity types that Writ declares and a bundle may not.
func builtIn() schemaast.Entities {
	text := required(schemaast.String())
	return schemaast.Entities{
		"Tool": {
			ParentTypes: []schemaast.EntityTypeRef{"Server"},
			Shape: schemaast.RecordType{
				"server": required(schemaast.EntityType(typeServer)),
				"name":   text, "effect": text, "scope": text, "version": text,
				"reversible": required(schemaast.Bool()),
			},
		},
		"Server": {Shape: schemaast.RecordType{
			"endpoint": text, "owner": text, "redeemed_by": required(schemaast.EntityType(typeCaller)),
		}},
		"Path": {
			ParentTypes: []schemaast.EntityTypeRef{"Path"},
			Shape: schemaast.RecordType{
				"text": text, "name": text,
				"segments": required(schemaast.Set(schemaast.String())),
			},
		},
		"Host": {
			ParentTypes: []schemaast.EntityTypeRef{"Host"},
			Shape:       schemaast.RecordType{"text": text, "ip": required(schemaast.Bool())},
		},
		"Url": {
			ParentTypes: []schemaast.EntityTypeRef{"Host"},
			Shape: schemaast.RecordType{
				"text": text, "scheme": text, "path": text,
				"port": required(schemaast.Long()),
				"host": required(schemaast.EntityType(typeHost)),
			},
		},
		"Email": {
			ParentTypes: []schemaast.EntityTypeRef{"Host"},
			Shape: schemaast.RecordType{
				"text": text, "local": text,
				"host": required(schemaast.EntityType(typeHost)),
			},
		},
		"Caller":  {ParentTypes: []schemaast.EntityTypeRef{"Role"}},
		"Role":    {},
		"Service": {},
		"Policy":  {},
		"Source":  {},
	}
}

// redeclarable returns the entity types that a bundle has unless it declares
// its own of the same name.
func redeclarable() schemaast.Entities {
	tenant := schemaast.RecordType{"tenant": {Type: schemaast.String(), Optional: true}}
	group := []schemaast.EntityTypeRef{"Group"}
	return schemaast.Entities{
		"User":  {ParentTypes: group, Shape: tenant},
		"Group": {ParentTypes: group},
		"Agent": {ParentTypes: group, Shape: tenant},
	}
}

// required returns an attribute that is always there.
func required(t schemaast.IsType) schemaast.Attribute { return schemaast.Attribute{Type: t} }

// reservedNames are, in lower case, the names that a bundle's schema may
// not declare: Writ's entity types, and Cedar's own types and variables. Case
// makes no difference, so that URL can't be taken for Url.
var reservedNames = map[string]bool{
	"tool": true, "server": true, "path": true, "host": true, "url": true, "email": true,
	"caller": true, "role": true, "service": true, "policy": true, "source": true, "action": true,
	"bool": true, "boolean": true, "long": true, "string": true, "set": true, "record": true,
	"entity": true, "extension": true, "decimal": true, "datetime": true, "duration": true, "ipaddr": true,
	"principal": true, "resource": true, "context": true,
}

// isReserved reports whether a bundle's schema may not declare name.
func isReserved(name string) bool {
	return reservedNames[strings.ToLower(name)] || strings.HasPrefix(name, "__cedar")
}

// cedarTypes are the type names of the schema language that need no
// declaration.
var cedarTypes = map[string]bool{
	"String": true, "Long": true, "Bool": true, "Boolean": true,
	"decimal": true, "datetime": true, "duration": true, "ipaddr": true,
}
