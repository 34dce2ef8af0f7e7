package bundle_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/revocation"
)

// TestServerFile writes every field of a server's file once.
func TestServerFile(t *testing.T) {
	b, _ := scenarios(t, `
-- servers/bank.yaml --
id: bank
endpoint: https://bank.example/mcp
audience: https://bank.example
version: 3.10
owner: treasury@acme.example
provenance: reviewed 2026-11-30
token: required
redeemed_by: host
classifications: [internal, confidential]
purposes: [pay]
resources:
- {entity: Account, id: "{branch}-{account}", in: {Branch: "{branch}"}, fold: ascii, may_be_new: true}
- {path: [source, "paths[]"], within: [/srv, /home], base: /srv, case: insensitive}
defaults: {scope: "bank:read", opaque: [note], no_evidence: a test}
tools:
  pay:
    effect: write
    reversible: true
    scope: ""
    intent: required
    arguments: {payee: {entity: Account, may_be_new: true}, pages: {long: true}, memo: {opaque: true}}
    when_absent: {urgent: false, fee: 0.10, pages: 12}
    evidence:
      amount: {from: [user, document], fresh: 1h30m, independent: 2}
    review_shows: [amount, payee]
    loggable: [amount, urgent]
    secret: [account, note]
    decide_at: server
    on_change: strict
    undeclared: allow
    postconditions:
      observer: bank
      tool: balance
      within: 1m30s
      checks:
      - {at: /amount, equals: /arguments/amount, tolerance: 0.01}
      - {at: /state, in: [done, 1.50, true]}
      - {at: /error, present: false}
  balance: {effect: read}
  ledger:
    effect: write
    method_argument: verb
    methods: {list: {effect: read, scope: "bank:list"}, close: {reversible: false}}
  copy: {effect: pure}
-- servers/bank.tools.json --
{"tools": [
  {"name": "pay", "inputSchema": {"type": "object", "required": ["branch", "account", "amount"], "properties": {
    "branch": {"type": "string"}, "account": {"type": "string"}, "amount": {"type": "number"}, "payee": {"type": "string"}, "pages": {"type": "number"},
    "memo": {"type": "array"}, "note": {"type": "string"}, "urgent": {"type": "boolean"}, "fee": {"type": "number"}}}},
  {"name": "balance", "inputSchema": {"type": "object"}},
  {"name": "ledger", "inputSchema": {"type": "object", "required": ["verb"], "properties": {"verb": {"enum": ["list", "open", "close"]}}}},
  {"name": "copy", "inputSchema": {"type": "object", "required": ["source", "paths"], "properties": {
    "source": {"type": "string"}, "paths": {"type": "array", "items": {"type": "string"}}}}}
]}
-- servers/desk.yaml --
id: desk
package: "npm:@acme/desk@1.0"
package_hash: "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
command: [npx, -y, "@acme/desk@1.0"]
token: none
tools:
  sort: {effect: pure}
-- servers/desk.tools.json --
[{"name": "sort", "inputSchema": {"type": "object"}}]
-- schema.cedarschema --
entity Branch;
entity Account in [Branch];
`)
	s := b.Snapshot
	server := s.Servers["bank"]
	want := contract.Server{
		ID: "bank", Endpoint: "https://bank.example/mcp", Audience: "https://bank.example", Version: "3.10",
		Owner: "treasury@acme.example", Provenance: "reviewed 2026-11-30", RedeemedBy: "host", TokenRequired: true,
		Classifications: []string{"confidential", "internal"}, Purposes: []string{"pay"},
	}
	if !reflect.DeepEqual(*server, want) {
		t.Errorf("server\n got %+v\nwant %+v", *server, want)
	}
	if d := s.Servers["desk"]; d.Package != "npm:@acme/desk@1.0" || d.PackageHash != "sha256:"+strings.Repeat("0a", 32) || d.TokenRequired || d.Endpoint != "" || d.RedeemedBy != "desk" {
		t.Errorf("desk: %+v", d)
	}
	pay := s.Contract("bank", "pay")
	if pay.Effect != writ.Write || !pay.Reversible || pay.Scope != "" || !pay.IntentRequired || pay.DecideAt != "server" || pay.OnChange != "strict" || !pay.UndeclaredAllowed {
		t.Errorf("pay: %+v", pay)
	}
	if r := pay.Resource; r == nil || r.Entity != "Account" || r.ID != "{branch}-{account}" || r.In["Branch"] != "{branch}" || r.Fold != "ascii" || !r.MayBeNew {
		t.Errorf("resource of pay: %+v", pay.Resource)
	}
	if got := pay.Evidence["/amount"]; !slices.Equal(got.From, []writ.SourceKind{writ.SourceDocument, writ.SourceUser}) || got.Fresh != 90*time.Minute || got.Independent != 2 {
		t.Errorf("evidence: %+v", got)
	}
	if !slices.Equal(pay.ReviewShows, []string{"/amount", "/payee"}) || !slices.Contains(pay.Opaque, "note") || !slices.Contains(pay.Opaque, "memo") {
		t.Errorf("shown %v, opaque %v", pay.ReviewShows, pay.Opaque)
	}
	if !slices.Equal(pay.Loggable, []string{"/amount", "/urgent"}) || !slices.Equal(pay.Secret, []string{"account", "note"}) || !pay.SecretTargets() {
		t.Errorf("loggable %v, secret %v", pay.Loggable, pay.Secret)
	}
	for _, f := range pay.Arguments.Fields {
		switch f.Name {
		case "urgent":
			if f.Default != any(false) || f.Optional {
				t.Errorf("urgent: %+v", f)
			}
		case "fee":
			if f.Default != any(json.Number("0.1")) {
				t.Errorf("fee: %+v", f)
			}
		case "payee":
			if f.Type.Kind != contract.Entity || f.Type.Entity != "Account" || !f.Type.MayBeNew {
				t.Errorf("payee: %+v", f.Type)
			}
		case "pages":
			if f.Type.Kind != contract.Long || f.Default != any(json.Number("12")) {
				t.Errorf("pages: %+v", f)
			}
		}
	}
	absent := false
	post := contract.Postconditions{Observer: "bank", Tool: "balance", Within: 90 * time.Second, Checks: []contract.Check{
		{At: "/amount", Equals: "/arguments/amount", Tolerance: "0.01"},
		{At: "/state", In: []any{"done", json.Number("1.5"), true}},
		{At: "/error", Present: &absent},
	}}
	if !reflect.DeepEqual(*pay.Postconditions, post) {
		t.Errorf("postconditions\n got %+v\nwant %+v", *pay.Postconditions, post)
	}
	ledger := s.Contract("bank", "ledger")
	if ledger.MethodArgument != "verb" || ledger.Scope != "bank:read" || ledger.NoEvidence != "a test" {
		t.Errorf("ledger: %+v", ledger)
	}
	for verb, rule := range map[string]contract.MethodRule{
		"list": {Effect: writ.Read, Scope: "bank:list"}, "close": {Effect: writ.Write, Scope: "bank:read"}, "open": {Effect: writ.Write, Scope: "bank:read"},
	} {
		if got := ledger.Methods[verb]; got.Effect != rule.Effect || got.Scope != rule.Scope || got.Reversible && verb == "close" {
			t.Errorf("ledger %s: %+v", verb, got)
		}
	}
	if r := s.Contract("bank", "copy").Resource; r == nil || !slices.Equal(r.Path, []string{"source", "paths[]"}) ||
		!slices.Equal(r.Within, []string{"/srv", "/home"}) || r.Base != "/srv" || r.Case != "insensitive" {
		t.Errorf("resource of copy: %+v", r)
	}
}

func TestRevocationsAndZone(t *testing.T) {
	b, _ := scenarios(t, `
-- bundle.yaml --
name: Notes
time_zone: Europe/London
-- revocations.yaml --
revocations:
- {kind: principal, issuer: local, id: dana, reason: left, author: ann, from: 2026-11-30T10:00:00Z, until: 2026-12-30T10:00:00Z}
- {kind: tool, id: notes/read_note}
- {kind: tool, id: notes/read_note, lift: true}
- {kind: token, issuer: local, id: j, issued_before: 2026-11-30T10:00:00Z}
`)
	s := b.Snapshot
	if b.Name != "Notes" || s.Zone.String() != "Europe/London" {
		t.Errorf("%q in %v", b.Name, s.Zone)
	}
	if got := s.Revocations.Sequence(); got != 4 {
		t.Errorf("sequence %d", got)
	}
	from := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		kind           revocation.Kind
		issuer, id     string
		issued, now    time.Time
		want           bool
		reason, author string
	}{
		{revocation.Principal, "local", "dana", time.Time{}, from, true, "left", "ann"},
		{revocation.Principal, "local", "dana", time.Time{}, from.Add(-1), false, "", ""},
		{revocation.Principal, "local", "dana", time.Time{}, from.AddDate(0, 0, 30), false, "", ""},
		{revocation.Principal, "other", "dana", time.Time{}, from, false, "", ""},
		{revocation.Tool, "", "notes/read_note", time.Time{}, from, false, "", ""},
		{revocation.Token, "local", "j", from.Add(-1), from, true, "", ""},
		{revocation.Token, "local", "j", from, from, false, "", ""},
	} {
		e, got := s.Revocations.Revoked(tt.kind, tt.issuer, tt.id, tt.issued, tt.now)
		if got != tt.want || got && (e.Reason != tt.reason || e.Author != tt.author) {
			t.Errorf("%s %s at %v: %v %+v", tt.kind, tt.id, tt.now, got, e)
		}
	}
}

func TestBuildLimits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files func(map[string][]byte)
		want  string
	}{
		{"large YAML", func(f map[string][]byte) { f["issuers.yaml"] = make([]byte, 1<<20+1) }, "issuers.yaml: the file has 1048577 bytes"},
		{"deep YAML", func(f map[string][]byte) {
			f["issuers.yaml"] = []byte("issuers: " + strings.Repeat("[", 64) + strings.Repeat("]", 64))
		}, "issuers.yaml:1:73: this is nested more than 64 deep"},
		{"a name that climbs", func(f map[string][]byte) { f["policies/../x.cedar"] = nil }, `the file name "policies/../x.cedar"`},
		{"an absolute name", func(f map[string][]byte) { f["/etc/passwd"] = nil }, `the file name "/etc/passwd"`},
		{"a control character", func(f map[string][]byte) { f["policies/a\n.cedar"] = nil }, `the file name "policies/a\n.cedar"`},
		{"a backslash", func(f map[string][]byte) { f[`policies\a.cedar`] = nil }, `the file name "policies\\a.cedar"`},
		{"many faults", func(f map[string][]byte) {
			f["issuers.yaml"] = []byte(strings.Repeat("? [a]\n", 1000))
		}, "issuers.yaml: there are more faults"},
	} {
		files := base(t)
		tt.files(files)
		b, faults := bundle.Build(list(files), nil)
		if b != nil || !slices.ContainsFunc(faults, func(f writ.Fault) bool { return strings.Contains(f.Error(), tt.want) }) {
			t.Errorf("%s: %v", tt.name, faults)
		}
		if len(faults) > 150 {
			t.Errorf("%s: %d faults", tt.name, len(faults))
		}
	}
	twice := append(list(base(t)), bundle.File{Name: "policies/read.cedar"})
	if b, faults := bundle.Build(twice, nil); b != nil {
		t.Errorf("a file that is there twice: %v", faults)
	}
	if b, faults := bundle.Build(nil, nil); b != nil || len(faults) == 0 {
		t.Errorf("no files: %v %v", b, faults)
	}
}
