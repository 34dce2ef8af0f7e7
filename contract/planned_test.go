package contract_test

import (
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
)

// TestPlansAreKept: whatever a contract may ask to be verified, a ledger keeps:
// otherwise calls would be allowed that nobody could redeem.
func TestPlansAreKept(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`
	tool := strings.Repeat("t", 128)
	declare := func(post *contract.Postconditions) (contract.Declaration, []contract.FieldError, *contract.Contract) {
		d := remote(tool, contract.Review{Effect: "write", NoEvidence: "a test", Postconditions: post})
		d.ID = strings.Repeat("s", 128)
		made, faults, _ := contract.New(d, toolList(define(t, tool, schema)))
		if len(made) == 0 {
			return d, faults, nil
		}
		return d, faults, made[0]
	}
	for name, fill := range map[string]func(n int) []contract.Check{
		"one long text": func(n int) []contract.Check { return []contract.Check{{At: "/x", In: []any{strings.Repeat("x", n)}}} },
		"texts that grow in JSON": func(n int) []contract.Check {
			return []contract.Check{{At: "/x", In: []any{strings.Repeat("\x00", n)}}}
		},
		"many texts": func(n int) []contract.Check {
			c := contract.Check{At: "/x"}
			for range n {
				c.In = append(c.In, true)
			}
			return []contract.Check{c}
		},
		"long pointers": func(n int) []contract.Check {
			return []contract.Check{{At: "/" + strings.Repeat("x", n), Equals: "/arguments/a", Tolerance: "0.1"}}
		},
		"many checks": func(n int) []contract.Check {
			out := make([]contract.Check, n)
			for i := range out {
				out[i] = contract.Check{At: "/x", Equals: "/arguments/a"}
			}
			return out
		},
	} {
		t.Run(name, func(t *testing.T) {
			post := func(n int) *contract.Postconditions {
				return &contract.Postconditions{Observer: strings.Repeat("o", 128), Tool: tool, Within: grant.MaxRetention, Checks: fill(n)}
			}
			// The most that is accepted.
			accepted, refused := 1, 1<<17
			for refused-accepted > 1 {
				half := (accepted + refused) / 2
				if _, faults, _ := declare(post(half)); len(faults) == 0 {
					accepted = half
				} else {
					refused = half
				}
			}
			_, faults, c := declare(post(accepted))
			if c == nil {
				t.Fatal(faults)
			}
			redeemed := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
			claim := ledgertest.NewClaim(1)
			claim.Plan = effect.MakePlan(c, map[string]any{"a": strings.Repeat("a", 126)}, redeemed)
			claim.Plan.IdempotencyKey = strings.Repeat("k", 43)
			if err := claim.Check(); err != nil {
				t.Errorf("with %d: %v", accepted, err)
			}
			if accepted < 400 {
				t.Errorf("only %d are accepted", accepted)
			}
		})
	}
}
