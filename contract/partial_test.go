package contract_test

import (
	"slices"
	"testing"

	"github.com/writ-pdp/writ/contract"
)

// TestPartial: of what could not be read whole there is no contract, and only
// what is wrong whatever the rest says is reported.
func TestPartial(t *testing.T) {
	tool := define(t, "t", `{"type":"object","required":["n","kind"],"properties":{
		"n":{"type":"number"},"free":{"type":"object"},"kind":{"enum":["a","b"]},"title":{"type":"string"}}}`)
	for _, tc := range []struct {
		name   string
		review contract.Review
		change func(*contract.Declaration)
		want   []string // fields of errors
	}{
		{"nothing else is wrong", contract.Review{Effect: "read", Opaque: []string{"free"}, Partial: true}, nil, []string{"tools.t"}},
		{"words and names that are wrong in any case",
			contract.Review{Effect: "reed", OnChange: "stric", Opaque: []string{"fre"}, ReviewShows: []string{"ttle"}, Partial: true,
				Resource: &contract.Resource{Entity: "A", ID: "{titl}", Fold: "x"}}, nil,
			[]string{"tools.t", "tools.t.effect", "tools.t.on_change", "tools.t.opaque[0]", "tools.t.resource.fold", "tools.t.review_shows[0]"}},
		{"a target that is not there", contract.Review{Effect: "read", Resource: &contract.Resource{Entity: "A", ID: "{titl}"}, Partial: true}, nil,
			[]string{"tools.t", "tools.t.resource.id"}},
		{"free is not called opaque, as far as one can see", contract.Review{Effect: "read", Partial: true}, nil, []string{"tools.t"}},
		{"n is not called long, as far as one can see", contract.Review{Effect: "read", Resource: &contract.Resource{Entity: "A", ID: "{n}"}, Partial: true}, nil, []string{"tools.t"}},
		{"the method's argument may be unread", contract.Review{Effect: "read", Methods: map[string]contract.Method{"a": {Effect: "pure"}}, Partial: true}, nil, []string{"tools.t"}},
		{"a resource line that may be the tool's", contract.Review{Effect: "read", Opaque: []string{"free"}},
			func(d *contract.Declaration) {
				d.Resources = []contract.Resource{{Entity: "A", ID: "{gone}", Partial: true}, {Entity: "B", ID: "{n}"}}
			},
			[]string{"resources[0]"}},
		{"a resource line of no kind", contract.Review{Effect: "read", Opaque: []string{"free"}},
			func(d *contract.Declaration) { d.Resources = []contract.Resource{{Fold: "x", Partial: true}} },
			[]string{"resources[0]", "resources[0]"}},
		{"defaults", contract.Review{Effect: "read", ReviewShows: []string{"ttle"}},
			func(d *contract.Declaration) { d.Defaults = contract.Review{DecideAt: "host", Partial: true} },
			[]string{"defaults", "defaults.decide_at", "tools.t.review_shows[0]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := remote("t", tc.review)
			if tc.change != nil {
				tc.change(&d)
			}
			made, faults, warnings := contract.New(d, toolList(tool))
			if made != nil || len(warnings) > 0 {
				t.Errorf("%d contracts, warnings %v", len(made), warnings)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.Field)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q\n%v", got, tc.want, faults)
			}
		})
	}
}
