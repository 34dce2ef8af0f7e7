package policy

import (
	"fmt"

	cedarschema "github.com/cedar-policy/cedar-go/x/exp/schema"

	"github.com/writ-pdp/writ"
)

// Limits on a bundle's schema. Which types can be `in` which others, cedar-go
// works out for each policy in time that is cubic in the number of types and
// grows with that of the links between them.
const (
	maxEntityTypes = 256
	maxParentLinks = 1024 // all `in` of all declarations
)

// checkSchemaLimits is checkLimits for a schema. How large a declaration
// grows once common types are written out is parseOwnTypes' to check, which
// it must before it resolves them.
func checkSchemaLimits(src Source) *writ.Fault {
	tokens, _ := scan(src.Text, schemaLanguage)
	depth, names := 0, 0
	for _, t := range tokens {
		switch t.text(src.Text) {
		case "(", "[", "{", "<":
			depth++
		case ")", "]", "}", ">":
			depth--
		case "::":
			names++
		case ",", ";", ":":
			names = 0
		}
		if depth > maxNesting || names > maxNesting {
			f := faultAt(src, int(t.start), fmt.Sprintf("more than %d brackets inside each other, or a name of as many parts", maxNesting))
			return &f
		}
	}
	var s cedarschema.Schema
	if err := s.UnmarshalCedar(src.Text); err != nil {
		return nil // the parser's to report
	}
	declared, links := len(s.AST().Entities)+len(s.AST().Enums), 0
	for _, e := range s.AST().Entities {
		links += len(e.ParentTypes)
	}
	switch {
	case declared > maxEntityTypes:
		return &writ.Fault{File: src.File, Message: fmt.Sprintf("the schema declares %d entity types, and %d are allowed", declared, maxEntityTypes)}
	case links > maxParentLinks:
		return &writ.Fault{File: src.File, Message: fmt.Sprintf("the schema's entity types are `in` %d others together, and %d are allowed", links, maxParentLinks)}
	}
	return nil
}
