package contract_test

import (
	"testing"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

func payment(t testing.TB) *contract.Contract {
	return make1(t, paymentSchema, contract.Review{
		Effect: "write", Opaque: []string{"reason"}, WhenAbsent: map[string]any{"urgent": false},
		Arguments: map[string]contract.Argument{"invoice": {Entity: "Invoice"}},
	}, contract.Resource{Entity: "Supplier", ID: "{supplier}"})
}

const smallPayment = `{"invoice":"INV-17","supplier":"ACME-01","amount_gbp":125,"currency":"GBP","reason":"Invoice 17"}`

func BenchmarkPayment(b *testing.B) {
	c, a := payment(b), args(b, smallPayment)
	b.Run("Validate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if f := c.Validate(a); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("Targets", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, f := c.Targets(a); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("Action", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if id, _ := c.Action(a); id == "" {
				b.Fatal("no action")
			}
		}
	})
}

func BenchmarkPath(b *testing.B) {
	c := make1(b, `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`,
		contract.Review{Effect: "read"}, contract.Resource{Path: []string{"path"}, Within: []string{"/srv/work"}})
	a := args(b, `{"path":"/srv/work/reports/2026/november/figures.csv"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, f := c.Targets(a); f != nil {
			b.Fatal(f)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	d := remote("t", contract.Review{Effect: "write", Opaque: []string{"reason"}})
	tool := define(b, "t", paymentSchema)
	for b.Loop() {
		if _, faults, _ := contract.New(d, []*definition.Tool{tool}); faults != nil {
			b.Fatal(faults)
		}
	}
}
