// Package benchmarks measures Writ from outside: what a decision costs, where
// the time goes, and how it grows. Nothing here asserts a time.
package benchmarks

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/snapshot"
)

var now = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// payment is a small payment by an agent for a clerk, with evidence, under
// the bundle of paymentFiles.
func payment(world *snapshot.Snapshot) (*writ.Caller, *writ.Proposal) {
	ct := world.Contract("payments", "create_payment")
	const issuer = "https://login.example"
	return world.Callers["ap-host"], &writ.Proposal{
		RequestID: "req-17",
		Intent:    &writ.Intent{ID: "intent-1", Purpose: "pay-invoice", DeclaredAt: now, ExpiresAt: now.Add(time.Hour)},
		Principal: writ.Principal{Issuer: issuer, Subject: "raj", Tenant: "acme"},
		Actors:    []writ.Actor{{Subject: "ap-assistant", Claims: map[string]string{"client_id": "ap-assistant"}}},
		Token: &writ.Token{
			Verified: true,
			Issuer:   issuer, Subject: "raj", Audience: []string{ct.Server.Audience}, Scopes: []string{"payments:create"},
			ID: "t-1", IssuedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Hour),
		},
		Server: writ.ServerRef{ID: "payments", Endpoint: ct.Server.Endpoint}, Tool: "create_payment", DefinitionDigest: ct.Tool.Digest,
		ArgumentsJSON: []byte(`{"supplier":"ACME-01","amount_gbp":125.00,"currency":"GBP","reason":"Invoice 17"}`),
		Evidence: []writ.Evidence{
			{Argument: "/supplier", ValueJSON: []byte(`"ACME-01"`), Kind: writ.SourceSystemOfRecord, Reference: "erp:suppliers/ACME-01", ObservedAt: now},
			{Argument: "/amount_gbp", ValueJSON: []byte(`125`), Kind: writ.SourceDocument, Reference: "invoices:/in/17.pdf", ObservedAt: now},
		},
	}
}

var paymentFiles = map[string]string{
	"servers/payments.yaml": `
id: payments
endpoint: https://mcp.payments.example
purposes: [pay-invoice]
resources:
- {entity: Supplier, id: "{supplier}"}
tools:
  create_payment:
    effect: write
    reversible: false
    scope: "payments:create"
    opaque: [reason]
    evidence:
      supplier: {from: [system_of_record], fresh: 24h}
      amount_gbp: {from: [document, system_of_record]}
`,
	"servers/payments.tools.json": `{"tools":[{"name":"create_payment","description":"Pay.","inputSchema":{"type":"object","properties":{
"supplier":{"type":"string"},"amount_gbp":{"type":"number","exclusiveMinimum":0},"currency":{"type":"string","enum":["GBP","EUR"]},
"reason":{"type":"string","maxLength":140}},"required":["supplier","amount_gbp","currency","reason"],"additionalProperties":false}}]}`,
	"schema.cedarschema": `entity Supplier = { status: String, limit_gbp: decimal };`,
	"entities/all.json": `[
{"uid":{"type":"Group","id":"clerks"},"attrs":{},"parents":[]},
{"uid":{"type":"User","id":"raj"},"attrs":{"tenant":"acme"},"parents":[{"type":"Group","id":"clerks"}]},
{"uid":{"type":"Agent","id":"ap-assistant"},"attrs":{},"parents":[]},
{"uid":{"type":"Supplier","id":"ACME-01"},"attrs":{"status":"active","limit_gbp":{"__extn":{"fn":"decimal","arg":"20000.00"}}},"parents":[]}]`,
	"issuers.yaml": `
issuers:
- {issuer: "https://login.example", principal: 'User::"{sub}"', actor: 'Agent::"{client_id}"', tenant: acme}
`,
	"callers.yaml": `
callers:
- {name: ap-host, role: host, local: true, vouches_for: [document, system_of_record]}
- {name: payments, role: server, mtls: "spiffe://acme.example/payments"}
`,
	"revocations.yaml": `
revocations:
- {kind: principal, issuer: "https://login.example", id: mallory, reason: left}
`,
	"policies/pay.cedar": `
@id("clerks-pay")
permit (principal in Group::"clerks", action == Action::"payments/create_payment", resource);
@id("assistant-follows")
permit (principal == Agent::"ap-assistant", action in Action::"payments", resource);
@id("active") @code("RECIPIENT_DENIED")
forbid (principal, action == Action::"payments/create_payment", resource) unless { resource.status == "active" };
@id("ceiling") @code("AMOUNT_DENIED")
forbid (principal, action == Action::"payments/create_payment", resource)
when { context.arguments.amount_gbp.greaterThan(decimal("10000.00")) || context.arguments.amount_gbp.greaterThan(resource.limit_gbp) };
@id("purpose") @code("PURPOSE_DENIED")
forbid (principal, action == Action::"payments/create_payment", resource) unless { context has purpose && context.purpose == "pay-invoice" };
@id("second-person") @review("1")
forbid (principal, action == Action::"payments/create_payment", resource) when { context.arguments.amount_gbp.greaterThan(decimal("500.00")) };
@id("anyone-in-clerks-approves")
permit (principal in Group::"clerks", action == Action::"approve:payments/create_payment", resource);
`,
}

func build(tb testing.TB, files map[string]string) *snapshot.Snapshot {
	tb.Helper()
	var list []bundle.File
	for name, data := range files {
		list = append(list, bundle.File{Name: name, Data: []byte(data)})
	}
	b, faults := bundle.Build(list, nil)
	if b == nil {
		tb.Fatal(faults)
	}
	return b.Snapshot
}

// BenchmarkDecide is one decision over a small payment: all controls pass.
func BenchmarkDecide(b *testing.B) {
	world := build(b, paymentFiles)
	caller, p := payment(world)
	if d := decide.Decide(world, caller, p, now, nil); d.Code != writ.CodeAllow {
		b.Fatalf("%s: %s", d.Code, d.Explanation)
	}
	b.ReportAllocs()
	for b.Loop() {
		decide.Decide(world, caller, p, now, nil)
	}
}

// stages adds up the time that each control takes.
type stages struct {
	last  time.Time
	spent map[writ.Control]time.Duration
}

func (s *stages) Control(c writ.Control, _ writ.Code) {
	t := time.Now()
	s.spent[c] += t.Sub(s.last)
	s.last = t
}

// BenchmarkStages says where the time of BenchmarkDecide goes: nanoseconds a
// decision for each control. Looking at the clock costs some of it.
func BenchmarkStages(b *testing.B) {
	world := build(b, paymentFiles)
	caller, p := payment(world)
	s := &stages{spent: map[writ.Control]time.Duration{}}
	for b.Loop() {
		s.last = time.Now()
		decide.Decide(world, caller, p, now, s)
	}
	for _, c := range writ.Controls {
		if d, ok := s.spent[c]; ok {
			b.ReportMetric(float64(d.Nanoseconds())/float64(b.N), strings.ToLower(string(c))+"-ns/op")
		}
	}
}

// crowd is the payment bundle with tools more tools on other servers and n
// policies about them, spread evenly: the payment's own are among them.
func crowd(tools, n int) map[string]string {
	files := map[string]string{}
	for name, data := range paymentFiles {
		files[name] = data
	}
	const perServer = 100
	for s := 0; s*perServer < tools; s++ {
		var yaml, list strings.Builder
		fmt.Fprintf(&yaml, "id: s%d\nendpoint: https://s%d.example\ndefaults: {scope: all}\ntools:\n", s, s)
		list.WriteString(`{"tools":[`)
		for t := range perServer {
			fmt.Fprintf(&yaml, "  t%d: {effect: read}\n", t)
			if t > 0 {
				list.WriteByte(',')
			}
			fmt.Fprintf(&list, `{"name":"t%d","inputSchema":{"type":"object","properties":{"amount":{"type":"number"},"name":{"type":"string"}},"required":["amount","name"]}}`, t)
		}
		list.WriteString(`]}`)
		files[fmt.Sprintf("servers/s%d.yaml", s)] = yaml.String()
		files[fmt.Sprintf("servers/s%d.tools.json", s)] = list.String()
	}
	var b strings.Builder
	for i := range n {
		tool := i % tools
		fmt.Fprintf(&b, "@id(\"p%d\") @code(\"CODE_%d\")\nforbid (principal, action == Action::\"s%d/t%d\", resource) when { context.arguments.amount.greaterThan(decimal(\"%d.0\")) };\n",
			i, i, tool/perServer, tool%perServer, i)
		if i%1000 == 999 || i == n-1 {
			files[fmt.Sprintf("policies/crowd%d.cedar", i/1000)] = b.String()
			b.Reset()
		}
	}
	return files
}

// BenchmarkPolicies is the same payment among 10 to 10,000 policies over
// 2,000 tools.
func BenchmarkPolicies(b *testing.B) {
	for _, n := range []int{10, 100, 1_000, 10_000} {
		world := build(b, crowd(2_000, n))
		caller, p := payment(world)
		if d := decide.Decide(world, caller, p, now, nil); d.Code != writ.CodeAllow {
			b.Fatalf("%s: %s", d.Code, d.Explanation)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide.Decide(world, caller, p, now, nil)
			}
		})
	}
}

// BenchmarkLoad builds the bundle of 10,000 policies over 2,000 tools.
func BenchmarkLoad(b *testing.B) {
	files := crowd(2_000, 10_000)
	for b.Loop() {
		build(b, files)
	}
}

// BenchmarkEntities is the same payment in a bundle of 10 to 1,000,000
// suppliers, each in one of a hundred groups. It also says what loading them
// costs: seconds, and bytes of heap an entity.
func BenchmarkEntities(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000, 1_000_000} {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		files := suppliers(n)
		begun := time.Now()
		world := build(b, files)
		took := time.Since(begun)
		files = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		caller, p := payment(world)
		if d := decide.Decide(world, caller, p, now, nil); d.Code != writ.CodeAllow {
			b.Fatalf("%s: %s", d.Code, d.Explanation)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide.Decide(world, caller, p, now, nil)
			}
			b.ReportMetric(took.Seconds(), "load-s")
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(n), "B/entity")
		})
	}
}

// suppliers is the payment bundle with n more suppliers.
func suppliers(n int) map[string]string {
	files := maps.Clone(paymentFiles)
	files["schema.cedarschema"] = `entity Supplier in [Group] = { status: String, limit_gbp: decimal };`
	var b strings.Builder
	b.WriteByte('[')
	for i := range 100 {
		fmt.Fprintf(&b, `{"uid":{"type":"Group","id":"suppliers-%d"},"attrs":{},"parents":[]},`, i)
	}
	part := 0
	for i := range n {
		fmt.Fprintf(&b, `{"uid":{"type":"Supplier","id":"S-%d"},"attrs":{"status":"active","limit_gbp":{"__extn":{"fn":"decimal","arg":"%d.0"}}},"parents":[{"type":"Group","id":"suppliers-%d"}]}`, i, i%1000, i%100)
		if i == n-1 || i%200_000 == 199_999 {
			b.WriteByte(']')
			files[fmt.Sprintf("entities/suppliers-%d.json", part)] = b.String()
			part++
			b.Reset()
			b.WriteByte('[')
		} else {
			b.WriteByte(',')
		}
	}
	return files
}
