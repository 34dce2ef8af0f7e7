package entities_test

import (
	"fmt"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/entities"
)

func Example() {
	held, faults := entities.Decode("entities/people.json", []byte(`[
	  {"uid": {"type": "Group", "id": "directors"}, "attrs": {}, "parents": []},
	  {"uid": {"type": "User", "id": "ann"}, "attrs": {}, "parents": [
	    {"type": "Group", "id": "directors", "valid": {"until": "2027-01-01T00:00:00Z"}}]}
	]`))
	if faults != nil {
		fmt.Println(faults)
		return
	}
	store, faults := entities.New(held)
	if faults.Errors() != nil {
		fmt.Println(faults)
		return
	}
	ann := types.NewEntityUID("User", "ann")
	directors := types.NewEntityUID("Group", "directors")
	for _, year := range []int{2026, 2027} {
		e, _ := store.Get(ann, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
		fmt.Println(year, e.Parents.Contains(directors))
	}
	// Output:
	// 2026 true
	// 2027 false
}

func ExampleDecode_faults() {
	_, faults := entities.Decode("entities/people.json", []byte(`[
  {"uid": {"type": "User", "id": "ann"}, "attrs": {"limit": 12.5}, "parent": []}
]`))
	fmt.Println(faults)
	// Output:
	// entities/people.json:2:3: [0]: member "parents" is missing: add it
	// entities/people.json:2:61: [0].attrs.limit: 12.5 is no Long: write an integer without point and exponent, or {"__extn": {"fn": "decimal", "arg": "12.50"}}
	// entities/people.json:2:68: [0]: unknown member "parent": did you mean "parents"?
}
