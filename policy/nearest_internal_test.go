package policy

import "testing"

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name, want string
		names      []string
	}{
		{"delete", "DELETE", []string{"GET", "DELETE", "deleted"}},
		{"Straße", "STRAßE", []string{"STRAßE"}},
		{"amout", "amount", []string{"account", "amount", "amount_gbp"}},
		{"amount", "amount_gbp", []string{"account", "amount_gbp"}},
		{"amount", "amounts", []string{"amounts", "amount_gbp"}},
		{"amount", "account", []string{"account", "amount_gbp", "amount_eur"}},
		{"acount", "account", []string{"account", "amount", "acounting"}},
		{"id", "", []string{"identifier"}}, // too short to be a start
		{"state", "status", []string{"status", "stats_of_all_suppliers"}},
		{"", "", []string{"abc", "def"}},
		{"x", "", []string{"p"}},
		{"xy", "xz", []string{"p", "xz"}},
		{"abc", "", []string{"abc", "xyz"}}, // itself
		{"abcdefgh", "", []string{"stuvwxyz"}},
	} {
		if got := nearest(c.name, c.names); got != c.want {
			t.Errorf("nearest(%q, %q) = %q, want %q", c.name, c.names, got, c.want)
		}
	}
}
