package policy_test

import (
	"syscall"
	"testing"
)

func cpu() int64 {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}

func BenchmarkCPU(b *testing.B) {
	s := mustSchema(b, benchTypes(b))
	q := benchQuery(b, s)
	for _, n := range []int{10, 10000} {
		src := benchPolicies(n)
		set := mustCompileHeld(b, s, src...)
		b.Run("judge", func(b *testing.B) {
			c := cpu()
			for b.Loop() {
				set.Judge(q)
			}
			b.ReportMetric(float64(cpu()-c)/float64(b.N), "cpu-ns/op")
			b.ReportAllocs()
		})
		b.Run("compile", func(b *testing.B) {
			c := cpu()
			for b.Loop() {
				mustCompileHeld(b, s, src...)
			}
			b.ReportMetric(float64(cpu()-c)/float64(b.N), "cpu-ns/op")
		})
	}
	in := benchTypes(b)
	b.Run("schema", func(b *testing.B) {
		c := cpu()
		for b.Loop() {
			mustSchema(b, in)
		}
		b.ReportMetric(float64(cpu()-c)/float64(b.N), "cpu-ns/op")
	})
	{
		s := testSchema(b)
		set := mustCompileHeld(b, s, file("pay.cedar", payPolicies+`
@id("own") @code("SEGREGATION_OF_DUTIES") forbid (principal is User, action == Action::"payments/create_payment", resource) when { resource.onboarded_by == principal };
@id("currency") @code("CURRENCY_DENIED") forbid (principal, action == Action::"payments/create_payment", resource) unless { context.arguments.currency == resource.currency };
@id("ceiling") @code("AMOUNT_DENIED") forbid (principal, action == Action::"payments/create_payment", resource)
when { context.arguments.amount_gbp.greaterThan(decimal("10000.00")) || context.arguments.amount_gbp.greaterThan(resource.limit_gbp) };
@id("above-5000") @review("2") forbid (principal, action == Action::"payments/create_payment", resource) when { context.arguments.amount_gbp.greaterThan(decimal("5000.00")) };
@id("agents") permit (principal is Agent, action in [Action::"read", Action::"write"], resource);`))
		q := payQuery(b, s, "raj", "125", "active")
		b.Run("small", func(b *testing.B) {
			c := cpu()
			for b.Loop() {
				set.Judge(q)
			}
			b.ReportMetric(float64(cpu()-c)/float64(b.N), "cpu-ns/op")
		})
	}
}
