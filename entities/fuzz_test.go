package entities_test

import (
	"bytes"
	"testing"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/entities"
)

// FuzzDecode looks for panics, for places outside the file, for faults beside
// entities, and for files that cedar-go's own decoder reads differently: what
// Decode accepts, it accepts too, as the same entities (it is laxer, and it
// ignores windows).
func FuzzDecode(f *testing.F) {
	for _, c := range decodeCases(f) {
		f.Add(c.json)
	}
	f.Add([]byte("[{\"uid\": {\"type\": \"T\", \"id\": \"\xff\\ud83d\"}}]"))
	f.Add([]byte("[{\"uid\":\n{\"type\"\r: \"T\"\v}}]"))
	f.Add(entity(`{"a":{"a":[{"a":{"a":{"__extn":{"fn":"ip","arg":"::"}}}}]}}`, `[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		held, faults := entities.Decode("f.json", data)
		if len(faults) > 0 {
			if held != nil {
				t.Fatal("entities beside faults")
			}
			lines := bytes.Count(data, []byte("\n")) + 1
			for _, fault := range faults {
				if fault.Line < 1 || fault.Line > lines || fault.Column < 1 || fault.Column > len(data)+1 ||
					fault.File != "f.json" || fault.Message == "" || fault.Severity != writ.Error {
					t.Fatalf("misplaced: %#v", fault)
				}
			}
			if len(faults) > entities.MaxFaults+1 {
				t.Fatalf("%d faults", len(faults))
			}
			return
		}
		var theirs []types.Entity
		if err := json.Unmarshal(data, &theirs); err != nil {
			t.Fatalf("accepted, but cedar-go says: %v", err)
		}
		if len(theirs) != len(held) {
			t.Fatalf("%d entities, cedar-go has %d", len(held), len(theirs))
		}
		for i, h := range held {
			var parents []types.EntityUID
			for _, p := range h.Parents {
				parents = append(parents, p.UID)
			}
			ours := types.Entity{UID: h.UID, Parents: types.NewEntityUIDSet(parents...), Attributes: h.Attributes, Tags: h.Tags}
			if !ours.Equal(theirs[i]) {
				t.Fatalf("read as %v, by cedar-go as %v", ours, theirs[i])
			}
		}
		store, faults := entities.New(held)
		if (store == nil) != (faults.Errors() != nil) {
			t.Fatalf("store %v beside %v", store, faults)
		}
	})
}
