package contract_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/contract"
)

func TestWindowHolds(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 30, 10, 0, second, 0, time.UTC) }
	for _, c := range []struct {
		name   string
		window *contract.Window
		now    time.Time
		want   bool
	}{
		{"none", nil, at(0), true},
		{"before", &contract.Window{From: at(1)}, at(1).Add(-1), false},
		{"from its first instant", &contract.Window{From: at(1)}, at(1), true},
		{"until its last instant", &contract.Window{Until: at(1)}, at(1).Add(-1), true},
		{"after", &contract.Window{Until: at(1)}, at(1), false},
		{"between", &contract.Window{From: at(1), Until: at(3)}, at(2), true},
		{"after both", &contract.Window{From: at(1), Until: at(3)}, at(3), false},
	} {
		if got := c.window.Holds(c.now); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestWindowFaults(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct {
		name   string
		window contract.Window
		want   string // a part of the message; empty: sound
	}{
		{"from", contract.Window{From: early}, ""},
		{"until", contract.Window{Until: early}, ""},
		{"both", contract.Window{From: early, Until: late}, ""},
		{"no bound", contract.Window{}, "a window without bounds says nothing"},
		{"backwards", contract.Window{From: late, Until: early}, "from is not before until"},
		{"empty", contract.Window{From: early, Until: early}, "from is not before until"},
	} {
		for field, declare := range map[string]func(*contract.Declaration){
			"valid":           func(d *contract.Declaration) { d.Valid = &c.window },
			"defaults.valid":  func(d *contract.Declaration) { d.Defaults.Valid = &c.window },
			"tools.pay.valid": pay(func(r *contract.Review) { r.Valid = &c.window }),
		} {
			d, tools := base(t)
			declare(&d)
			_, faults, _ := contract.New(d, tools)
			found := slices.ContainsFunc(faults, func(f contract.FieldError) bool {
				return f.Field == field && strings.Contains(f.Message, c.want)
			})
			if (c.want == "") != (len(faults) == 0) || c.want != "" && !found {
				t.Errorf("%s at %s: %v", c.name, field, faults)
			}
		}
	}
}
