package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

// accountsPayable is a payment server with limits, evidence and postconditions.
func accountsPayable() contract.Declaration {
	read := contract.Review{Effect: "read", Scope: ptr("payments:read")}
	return contract.Declaration{
		ID: "payments", Endpoint: "https://mcp.payments.acme.example", Audience: "https://mcp.payments.acme.example",
		Owner: "treasury@acme.example", Classifications: []string{"internal", "confidential"}, Purposes: []string{"pay-invoice"},
		RedeemedBy: "payments",
		Resources:  []contract.Resource{{Entity: "Supplier", ID: "{supplier}"}},
		Tools: map[string]contract.Review{
			"simulate_payment": read,
			"get_payment":      read,
			"create_payment": {
				Effect: "write", Reversible: ptr(false), Scope: ptr("payments:create"), Opaque: []string{"reason"},
				Arguments:  map[string]contract.Argument{"invoice": {Entity: "Invoice"}},
				WhenAbsent: map[string]any{"urgent": false},
				Evidence: map[string]contract.EvidenceLine{
					"supplier":   {From: []writ.SourceKind{writ.SourceSystemOfRecord}, Fresh: 24 * time.Hour},
					"amount_gbp": {From: []writ.SourceKind{writ.SourceDocument, writ.SourceUser, writ.SourceSystemOfRecord}, Independent: 2},
					"invoice":    {From: []writ.SourceKind{writ.SourceSystemOfRecord}},
				},
				ReviewShows: []string{"invoice", "supplier", "amount_gbp", "reason"},
				Postconditions: &contract.Postconditions{Observer: "payments", Tool: "get_payment", Within: 30 * time.Second, Checks: []contract.Check{
					{At: "/supplier", Equals: "/arguments/supplier"}, {At: "/amount_gbp", Equals: "/arguments/amount_gbp"},
					{At: "/state", In: []any{"accepted", "settled"}},
				}},
			},
		},
	}
}

func accountsPayableTools(t testing.TB) []*definition.Tool {
	return toolList(
		define(t, "create_payment", paymentSchema, `,"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}`),
		define(t, "get_payment", `{"type":"object","properties":{"payment_id":{"type":"string"}},"required":["payment_id"],"additionalProperties":false}`,
			`,"annotations":{"readOnlyHint":true}`),
		define(t, "simulate_payment", `{"type":"object","properties":{"supplier":{"type":"string"},"amount_gbp":{"type":"number","exclusiveMinimum":0}},
			"required":["supplier","amount_gbp"],"additionalProperties":false}`),
	)
}

func TestAccountsPayable(t *testing.T) {
	made, faults, warnings := contract.New(accountsPayable(), accountsPayableTools(t))
	if faults != nil || len(warnings) > 0 {
		t.Fatalf("faults %v, warnings %v", faults, warnings)
	}
	create, get, simulate := made[0], made[1], made[2]
	if got, want := render(create.Arguments), "{amount_gbp: decimal, currency: String(GBP|EUR), invoice: <Invoice>, reason: opaque, supplier: String, urgent=false: Bool}"; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	if create.Effect != writ.Write || create.Reversible || create.Scope != "payments:create" {
		t.Errorf("create_payment: %+v", create)
	}
	if !slices.Equal(create.ReviewShows, []string{"/invoice", "/supplier", "/amount_gbp", "/reason"}) || len(create.Postconditions.Checks) != 3 {
		t.Errorf("shows %q, postconditions %+v", create.ReviewShows, create.Postconditions)
	}
	if e := create.Evidence["/amount_gbp"]; len(create.Evidence) != 3 || e.Independent != 2 || len(e.From) != 3 || create.Evidence["/supplier"].Fresh != 24*time.Hour {
		t.Errorf("evidence %+v", create.Evidence)
	}
	if got := create.EvidencePointers(); !slices.Equal(got, []string{"/amount_gbp", "/invoice", "/supplier"}) || get.EvidencePointers() != nil {
		t.Errorf("evidence pointers %q and %q", got, get.EvidencePointers())
	}
	a := args(t, smallPayment)
	if f := create.Validate(a); f != nil {
		t.Error(f)
	}
	if targets, f := create.Targets(a); f != nil || renderTargets(targets) != `Supplier::"ACME-01" @/supplier` {
		t.Errorf("targets %s, %v", renderTargets(targets), f)
	}
	if id, _ := create.Action(a); id != "payments/create_payment" {
		t.Errorf("action %q", id)
	}
	for _, bad := range []string{
		`{"invoice":"INV-17","supplier":"ACME-01","amount_gbp":0,"currency":"GBP","reason":"r"}`,
		`{"invoice":"INV-17","supplier":"ACME-01","amount_gbp":1,"currency":"USD","reason":"r"}`,
		`{"invoice":"INV-17","supplier":"ACME-01","amount_gbp":1,"currency":"GBP"}`,
		`{"invoice":"INV-17","supplier":"ACME-01","amount_gbp":1,"currency":"GBP","reason":"r","Urgent":true}`,
	} {
		if create.Validate(args(t, bad)) == nil {
			t.Errorf("%s passes", bad)
		}
	}
	if typ, optional := get.TargetType(); typ != "" || !optional {
		t.Errorf("get_payment is about %q", typ)
	}
	if typ, optional := simulate.TargetType(); typ != "Supplier" || optional {
		t.Errorf("simulate_payment is about %q, optional %v", typ, optional)
	}
}

func TestFilesystem(t *testing.T) {
	path := `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`
	tools := toolList(
		define(t, "read_text_file", path),
		define(t, "read_multiple_files", `{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["paths"]}`),
		define(t, "list_allowed_directories", `{"type":"object","properties":{}}`),
		define(t, "write_file", `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`),
		define(t, "edit_file", `{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object",
			"properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"]}},"dryRun":{"type":"boolean"}},"required":["path","edits"]}`),
		define(t, "move_file", `{"type":"object","properties":{"source":{"type":"string"},"destination":{"type":"string"}},"required":["source","destination"]}`),
	)
	read, write := contract.Review{Effect: "read"}, contract.Review{Effect: "write", Reversible: ptr(true)}
	d := contract.Declaration{
		ID: "files", Package: "npm:@modelcontextprotocol/server-filesystem@2026.8.31", PackageHash: "sha512-REPLACED-BY-PIN",
		Token: "none", Owner: "desktop@acme.example", RedeemedBy: "guard",
		Resources: []contract.Resource{{Path: []string{"path"}}, {Path: []string{"paths[]"}}, {Path: []string{"source", "destination"}}},
		Defaults:  contract.Review{Opaque: []string{"content", "edits"}},
		Tools: map[string]contract.Review{
			"read_text_file": read, "read_multiple_files": read, "list_allowed_directories": read,
			"write_file": write, "edit_file": write, "move_file": write,
		},
	}
	c := makeAll(t, d, tools...)
	if c["read_text_file"].Server.TokenRequired || c["read_text_file"].Server.Audience != "" {
		t.Errorf("server %+v", c["read_text_file"].Server)
	}
	if got, want := render(c["edit_file"].Arguments), "{dryRun?: Bool, edits: opaque, path: <Path>}"; got != want {
		t.Errorf("edit_file %s, want %s", got, want)
	}
	for _, tc := range []struct{ tool, args, want string }{
		{"read_text_file", `{"path":"/srv/work/a.txt"}`, `Path::"/srv/work/a.txt" @/path`},
		{"read_text_file", `{"path":"/srv/work/../../etc/passwd"}`, `TARGET_OUT_OF_BOUNDS`},
		{"read_text_file", `{"path":"a.txt"}`, `TARGET_OUT_OF_BOUNDS`},
		{"read_multiple_files", `{"paths":["/srv/work/a","/srv/work/tls.key"]}`, `Path::"/srv/work/a" @/paths/0; Path::"/srv/work/tls.key" @/paths/1`},
		{"list_allowed_directories", `{}`, ``},
		{"move_file", `{"source":"/srv/work/a","destination":"/srv/work/out/a"}`, `Path::"/srv/work/a" @/source; Path::"/srv/work/out/a" @/destination`},
	} {
		a := args(t, tc.args)
		if f := c[tc.tool].Validate(a); f != nil {
			t.Errorf("%s %s: %v", tc.tool, tc.args, f)
		}
		targets, f := c[tc.tool].Targets(a)
		got := renderTargets(targets)
		if f != nil {
			got = string(f.Code)
		}
		if got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.tool, tc.args, got, tc.want)
		}
	}
}

// gitHub is 53 real tools, one reviewed file.
func gitHub() contract.Declaration {
	tools := map[string]contract.Review{}
	add := func(r contract.Review, names ...string) {
		for _, n := range names {
			tools[n] = r
		}
	}
	scoped := func(r contract.Review, scope string) contract.Review {
		r.Scope = &scope
		return r
	}
	read := contract.Review{Effect: "read"}
	undoable := contract.Review{Effect: "write", Reversible: ptr(true)}
	final := contract.Review{Effect: "write", Reversible: ptr(false)}
	add(read, "actions_list", "get_commit", "get_file_contents", "get_issue_comments", "get_pull_request_files", "issue_read", "list_commits",
		"list_issues", "list_label", "list_pull_requests", "pull_request_read", "search_code", "search_issues", "search_pull_requests",
		"search_repositories", "search_users")
	add(scoped(read, "read:user"), "get_me")
	add(scoped(read, "read:project"), "get_project_item", "list_project_fields", "list_project_items", "list_projects", "projects_get", "projects_list")
	add(undoable, "add_comment_to_pending_review", "add_issue_comment", "assign_copilot_to_issue", "create_branch", "create_issue",
		"create_or_update_file", "create_pull_request", "issue_write", "push_files", "request_copilot_review", "sub_issue_write", "update_issue",
		"update_pull_request", "update_pull_request_branch")
	add(final, "merge_pull_request", "delete_file")
	add(scoped(undoable, "project"), "add_project_item", "update_project_item")
	add(scoped(final, "project"), "delete_project_item")
	add(scoped(undoable, "public_repo"), "star_repository", "unstar_repository")
	add(scoped(undoable, "notifications"), "dismiss_notification", "manage_notification_subscription",
		"manage_repository_notification_subscription", "mark_all_notifications_read")
	with := func(r contract.Review, change func(*contract.Review)) contract.Review { change(&r); return r }
	last := contract.Method{Reversible: ptr(false)}
	add(with(undoable, func(r *contract.Review) { r.Methods = map[string]contract.Method{"delete": last} }), "label_write")
	add(with(undoable, func(r *contract.Review) { r.Methods = map[string]contract.Method{"delete_pending": last} }), "pull_request_review_write")
	add(with(scoped(undoable, "project"), func(r *contract.Review) { r.Methods = map[string]contract.Method{"delete_project_item": last} }), "projects_write")
	organisation := &contract.Resource{Entity: "Org", ID: "{organization}", Fold: "ascii", MayBeNew: true}
	add(with(final, func(r *contract.Review) {
		r.Resource, r.WhenAbsent = organisation, map[string]any{"private": false}
	}), "create_repository")
	add(with(final, func(r *contract.Review) { r.Resource = organisation }), "fork_repository")
	return contract.Declaration{
		ID: "github", Endpoint: "https://api.githubcopilot.com/mcp/", Audience: "https://api.githubcopilot.com/mcp/",
		Owner: "platform-security@acme.example", Provenance: "vendor GitHub, Inc.; reviewed 2026-11-30",
		Classifications: []string{"public", "internal"}, Purposes: []string{"engineering"}, RedeemedBy: "github-guard",
		Resources: []contract.Resource{
			{Entity: "Repository", ID: "{owner}/{repo}", In: map[string]string{"Org": "{owner}"}, Fold: "ascii", MayBeNew: true},
			{Entity: "Org", ID: "{owner}", Fold: "ascii", MayBeNew: true},
		},
		Defaults: contract.Review{
			Scope: ptr("repo"), NoEvidence: "the repository keeps history",
			Opaque: []string{"body", "content", "message", "title", "description", "custom_instructions", "commit_title", "commit_message", "updated_field", "files"},
		},
		Tools: tools,
	}
}

func TestGitHub(t *testing.T) {
	latest := map[string]*definition.Tool{}
	for _, tool := range realDefinitions(t) {
		latest[tool.Name] = tool
	}
	var tools []*definition.Tool
	for _, tool := range latest {
		tools = append(tools, tool)
	}
	made, faults, warnings := contract.New(gitHub(), tools)
	if faults != nil {
		t.Fatal(faults)
	}
	for _, w := range warnings {
		t.Log("warning:", w)
	}
	if len(made) != 53 {
		t.Fatalf("%d contracts, want 53", len(made))
	}
	c := map[string]*contract.Contract{}
	for _, m := range made {
		c[m.Tool.Name] = m
	}
	for _, tc := range []struct{ tool, args, action, want string }{
		{"get_file_contents", `{"owner":"ACME","repo":"Payroll","path":"README.md"}`, "github/get_file_contents", `Repository::"acme/payroll" in Org::"acme" new @/owner`},
		{"get_file_contents", `{"owner":"acme/site","repo":"x","path":"/"}`, "github/get_file_contents", `TARGET_OUT_OF_BOUNDS`},
		{"projects_list", `{"method":"list_projects","owner":"acme"}`, "github/projects_list", `Org::"acme" new @/owner`},
		{"search_code", `{"query":"repo:acme/site password"}`, "github/search_code", ``},
		{"search_issues", `{"owner":"acme","repo":"site","query":"is broken"}`, "github/search_issues", `Repository::"acme/site" in Org::"acme" new @/owner`},
		{"search_issues", `{"query":"broken"}`, "github/search_issues", ``},
		{"label_write", `{"method":"update","owner":"acme","repo":"docs","name":"bug","color":"ff0000"}`, "github/label_write#update", `Repository::"acme/docs" in Org::"acme" new @/owner`},
		{"label_write", `{"method":"delete","owner":"acme","repo":"docs","name":"bug"}`, "github/label_write#delete", `Repository::"acme/docs" in Org::"acme" new @/owner`},
		{"create_repository", `{"name":"leak","organization":"acme"}`, "github/create_repository", `Org::"acme" new @/organization`},
		{"create_repository", `{"name":"tool","private":true}`, "github/create_repository", ``},
		{"fork_repository", `{"owner":"acme","repo":"site","organization":"Acme"}`, "github/fork_repository", `Org::"acme" new @/organization`},
		{"mark_all_notifications_read", `{}`, "github/mark_all_notifications_read", ``},
		{"merge_pull_request", `{"owner":"acme","repo":"site","pullNumber":7}`, "github/merge_pull_request", `Repository::"acme/site" in Org::"acme" new @/owner`},
	} {
		con, a := c[tc.tool], args(t, tc.args)
		if f := con.Validate(a); f != nil {
			t.Errorf("%s %s: %v", tc.tool, tc.args, f)
		}
		if id, _ := con.Action(a); id != tc.action {
			t.Errorf("%s %s: action %q, want %q", tc.tool, tc.args, id, tc.action)
		}
		targets, f := con.Targets(a)
		got := renderTargets(targets)
		if f != nil {
			got = string(f.Code)
		}
		if got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.tool, tc.args, got, tc.want)
		}
	}
	if got := c["create_repository"].Arguments.Field("private"); got.Optional || got.Default != false {
		t.Errorf("private: %+v", got)
	}
	if r := c["label_write"].Methods; len(r) != 3 || r["delete"].Reversible || !r["create"].Reversible || r["delete"].Effect != writ.Write {
		t.Errorf("label_write: %+v", r)
	}
	if !c["get_file_contents"].Arguments.Field("owner").Type.Fold || c["get_file_contents"].Arguments.Field("path").Type.Fold {
		t.Error("owner folds and path does not")
	}
	seen := map[canon.Digest]string{}
	for name, m := range c {
		if other := seen[m.Digest]; other != "" {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[m.Digest] = name
	}
}
