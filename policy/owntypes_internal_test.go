package policy

import (
	"testing"

	"github.com/cedar-policy/cedar-go/types"
)

func TestReservedEntity(t *testing.T) {
	for name := range builtIn() {
		if !reservedEntity(types.EntityType(name)) {
			t.Errorf("%s is Writ's own", name)
		}
	}
	if !reservedEntity("Action") || reservedEntity("User") || reservedEntity("Group") || reservedEntity("Agent") || reservedEntity("") {
		t.Error("actions alone are Writ's own beside what it declares")
	}
}
