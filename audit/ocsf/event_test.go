package ocsf_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/ocsf"
	"github.com/writ-pdp/writ/audit/segment"
)

var at = time.Date(2031, 4, 1, 12, 0, 0, 250_700_000, time.UTC)

// full is a decision's record that has everything.
func full() audit.Record {
	return audit.Record{
		Time: at, Kind: audit.KindDecision, ID: "d1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Caller: "host-1", RequestID: "r1",
		Issuer: "https://login.example", Subject: "ann", Tenant: "acme", Principal: `User::"ann"`, Actors: []string{`Agent::"a"`, `Agent::"b\"c"`},
		Server: "payments", Tool: "create_payment", Action: "payments/create_payment", Effect: writ.Write,
		Resources: []string{`Finance::Supplier::"acme"`}, ResourcesLeftOut: 3,
		Arguments: []audit.Argument{{Pointer: "/amount", JSON: "900.50"}, {Pointer: "/currency", JSON: `"GBP"`}},
		Evidence:  []audit.EvidenceRef{{Argument: "/supplier", Kind: "system_of_record", Reference: "erp:1", Secret: true}},
		Outcome:   writ.Allow, Code: writ.CodeAllow, Policies: []string{"small", "team"}, Errors: []string{"limits"}, Explanation: "Every control passed.",
		ContractDigest: "sha256:c", CallDigest: "sha256:d", ProposalDigest: "sha256:e", ReviewDigest: "sha256:f", PolicyDigest: "sha256:0", TokenDigest: "sha256:1",
		Revision: "rev-9", HeardAt: time.Unix(17, 5), Took: audit.Stages{Wait: 1999 * time.Microsecond, Decide: 17 * time.Microsecond},
	}
}

// with is full, changed.
func with(change func(*audit.Record)) audit.Record {
	r := full()
	change(&r)
	return r
}

// lines writes records to a log and returns its lines.
func lines(t testing.TB, records ...audit.Record) (out [][]byte) {
	t.Helper()
	dir := t.TempDir()
	log, err := audit.Open(audit.Config{Dir: dir, Origin: "test.example/log"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := log.Append(t.Context(), records[i], i == len(records)-1); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := segment.OpenReader(filepath.Join(dir, segment.Dir), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range records {
		_, leaf, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, append([]byte(nil), leaf...))
	}
	return out
}

// cases are records, and what must be in their events: paths and JSON; null:
// nothing.
func cases() []struct {
	name   string
	record audit.Record
	want   map[string]string
} {
	return []struct {
		name   string
		record audit.Record
		want   map[string]string
	}{
		{"allowed write", full(), map[string]string{
			"time": "1932811200250", "class_uid": "6003", "type_uid": "600399", "type_name": `"API Activity: Other"`,
			"activity_id": "99", "activity_name": `"Write"`, "severity_id": "1", "status_id": "1", "status": `"Success"`, "status_code": `"ALLOW"`,
			"status_detail": `"Every control passed."`, "message": `"ALLOW: payments/create_payment for User::\"ann\" by host-1"`,
			"action_id": "1", "disposition_id": "1", "disposition": `"Allowed"`, "policy": "null",
			"actor":           `{"user":{"uid":"User::\"ann\"","name":"ann","org":{"uid":"acme"}},"idp":{"uid":"https://login.example","issuer":"https://login.example"},"app_name":"host-1","authorizations":[{"decision":"ALLOW","policy":{"uid":"small","is_applied":true}},{"decision":"ALLOW","policy":{"uid":"team","is_applied":true}}]}`,
			"api":             `{"operation":"create_payment","service":{"name":"payments"},"request":{"uid":"r1","data":{"/amount":900.50,"/currency":"GBP"}},"response":{"message":"Every control passed."}}`,
			"src_endpoint":    `{"name":"host-1"}`,
			"resources":       `[{"uid":"Finance::Supplier::\"acme\"","name":"acme","type":"Finance::Supplier","role_id":1,"role":"Target"},{"uid":"Agent::\"a\"","name":"a","type":"Agent","role_id":2,"role":"Actor"},{"uid":"Agent::\"b\\\"c\"","type":"Agent","role_id":2,"role":"Actor"}]`,
			"trace":           `{"uid":"4bf92f3577b34da6a3ce929d0e0e4736"}`,
			"metadata":        `{"version":"1.8.0","profiles":["security_control","trace"],"uid":"d1","original_event_uid":"0","sequence":0,"correlation_uid":"4bf92f3577b34da6a3ce929d0e0e4736","event_code":"decision","original_time":"2031-04-01T12:00:00.250700Z","log_name":"audit","log_provider":"Writ","log_version":"1","product":{"name":"Writ","vendor_name":"Writ"}}`,
			"unmapped.action": `"payments/create_payment"`, "unmapped.resources_left_out": "3", "unmapped.errors": `["limits"]`, "unmapped.micros": `{"wait":1999,"decide":17}`,
			"unmapped.revision": `"rev-9"`, "unmapped.heard_at": `"1970-01-01T00:00:17.000000005Z"`, "unmapped.contract_digest": `"sha256:c"`, "unmapped.policy_digest": `"sha256:0"`,
			"unmapped.outcome": "null", "unmapped.arguments": "null", "unmapped.caller": "null",
		}},
		{"read", with(func(r *audit.Record) { r.Effect = writ.Read; r.Policies = []string{"one"} }),
			map[string]string{"activity_id": "2", "activity_name": `"Read"`, "type_uid": "600302", "type_name": `"API Activity: Read"`, "policy": `{"uid":"one","is_applied":true}`}},
		{"computation", with(func(r *audit.Record) { r.Effect = writ.Pure }), map[string]string{"activity_id": "99", "activity_name": `"Compute"`}},
		{"nobody permits", with(func(r *audit.Record) {
			r.Outcome, r.Code, r.Control, r.Policies, r.Explanation = writ.Deny, writ.CodeNoPermit, writ.ControlPolicy, nil, "No policy permits it."
		}), map[string]string{
			"severity_id": "2", "status_id": "2", "status": `"Failure"`, "status_code": `"NO_PERMIT"`, "action_id": "2", "action": `"Denied"`, "disposition_id": "26",
			"message": `"DENY NO_PERMIT: payments/create_payment for User::\"ann\" by host-1"`, "actor.authorizations": `[{"decision":"DENY"}]`,
			"api.response": `{"error":"NO_PERMIT","error_message":"No policy permits it."}`, "unmapped.control": `"POLICY"`,
		}},
		{"another definition", with(func(r *audit.Record) {
			r.Outcome, r.Code, r.Control = writ.Deny, writ.CodeDefinitionChanged, writ.ControlRegistration
		}), map[string]string{"severity_id": "3", "disposition_id": "26"}},
		{"no decision possible", with(func(r *audit.Record) {
			r.Outcome, r.Code, r.Control = writ.Deny, writ.CodeSnapshotStale, writ.ControlFreshness
		}), map[string]string{"severity_id": "3", "disposition_id": "2", "disposition": `"Blocked"`}},
		{"review", with(func(r *audit.Record) {
			r.Outcome, r.Code, r.Control = writ.ReviewRequired, writ.CodeApprovalRequired, writ.ControlApproval
		}), map[string]string{"severity_id": "2", "status_id": "99", "status": `"Review required"`, "action_id": "99", "disposition_id": "99", "api.response.error": `"APPROVAL_REQUIRED"`}},
		{"nothing could be read", audit.Record{
			Time: at, Kind: audit.KindDecision, ID: "d2", Caller: "host-1", Code: writ.CodeMalformedProposal, Control: writ.ControlProposal,
			Arguments: []audit.Argument{{Pointer: "/a", JSON: "1"}}, Tenant: "acme",
		}, map[string]string{
			"activity_id": "0", "activity_name": `"Unknown"`, "type_uid": "600300", "api": `{"operation":"Unknown","response":{"error":"MALFORMED_PROPOSAL"}}`,
			"actor": `{"app_name":"host-1","authorizations":[{"decision":"DENY"}]}`, "disposition_id": "25", "trace": "null", "metadata.profiles": `["security_control"]`,
			"unmapped": `{"arguments":{"/a":"1"},"control":"PROPOSAL","tenant":"acme"}`, "message": `"DENY MALFORMED_PROPOSAL: ?/? by host-1"`,
		}},
		{"claimed", with(func(r *audit.Record) {
			r.Principal, r.Outcome, r.Code, r.Control = "", writ.Deny, writ.CodeTokenInvalid, writ.ControlToken
		}), map[string]string{"actor.user": `{"name":"ann","org":{"uid":"acme"}}`, "message": `"DENY TOKEN_INVALID: payments/create_payment for ann (claimed) by host-1"`}},
		{"secret resource", with(func(r *audit.Record) { r.SecretResources, r.Actors = true, nil }), map[string]string{"resources.type": "null"}},
		{"explanation", with(func(r *audit.Record) {
			r.Kind, r.Outcome, r.Code, r.Control = audit.KindExplanation, writ.Deny, writ.CodeNoPermit, writ.ControlPolicy
		}), map[string]string{
			"activity_id": "99", "activity_name": `"Explain"`, "severity_id": "1", "status_id": "1", "status_code": "null", "action_id": "null",
			"api": `{"operation":"Explain","service":{"name":"Writ"},"request":{"uid":"r1"}}`, "metadata.profiles": `["trace"]`, "metadata.event_code": `"explanation"`,
			"message":          `"Explained: DENY NO_PERMIT: payments/create_payment for User::\"ann\" by host-1"`,
			"unmapped.outcome": `"DENY"`, "unmapped.server": `"payments"`, "unmapped.policies": `["small","team"]`,
		}},
		{"revocation", audit.Record{Time: at, Kind: audit.KindRevocation, Caller: "operator", Revision: "rev-9", Revoked: &audit.Revoked{
			Sequence: 1 << 60, Kind: "token", Issuer: "https://login.example", ID: "jti-1", Reason: "a\u202eb", Author: "ann", Until: at,
		}}, map[string]string{
			"activity_name": `"Revoke"`, "api.operation": `"Revoke"`, "message": `"Revoked token jti-1: a` + "\u202e" + `b"`, "actor": `{"app_name":"operator"}`, "metadata.uid": `"revocation-0"`,
			"resources":        `[{"uid":"jti-1","type":"token","namespace":"https://login.example","role_id":1,"role":"Target"}]`,
			"unmapped.revoked": `{"sequence":1152921504606846976,"kind":"token","issuer":"https://login.example","id":"jti-1","until":"2031-04-01T12:00:00.250700Z","reason":"a` + "\u202e" + `b","author":"ann"}`,
		}},
		{"lift", audit.Record{Time: at, Kind: audit.KindRevocation, Revoked: &audit.Revoked{Kind: "tool", ID: "a/b", Lift: true}},
			map[string]string{"activity_name": `"Lift"`, "message": `"Lifted the revocation of tool a/b"`, "actor": `{"app_name":"Writ"}`, "src_endpoint": `{"name":"Writ"}`}},
		{"reload", audit.Record{Time: at, Kind: audit.KindReload, Revision: "rev-9"},
			map[string]string{"activity_name": `"Reload"`, "status_id": "1", "message": `"Put a bundle in force: rev-9"`, "unmapped": `{"revision":"rev-9"}`}},
		{"refused reload", audit.Record{Time: at, Kind: audit.KindReload, Revision: "rev-9", Faults: []string{"a:1: x", "b:2: y"}},
			map[string]string{"severity_id": "3", "status_id": "2", "status_detail": `"a:1: x\nb:2: y"`, "message": `"Refused a bundle with 2 faults; rev-9 stays in force"`}},
		{"start", audit.Record{Time: at, Kind: audit.KindStart, Revision: "rev-9"}, map[string]string{"activity_name": `"Start"`, "message": `"Started to answer with rev-9"`, "metadata.uid": `"start-0"`}},
		{"stop", audit.Record{Time: at, Kind: audit.KindStop}, map[string]string{"activity_name": `"Stop"`, "message": `"Stopped in good order"`, "unmapped": "null"}},
		{"redacted", with(func(r *audit.Record) { r.Redacted = true }), map[string]string{"unmapped.redacted": "true", "unmapped.resources_left_out": "4", "api.request": `{"uid":"r1"}`}},
	}
}

// TestEvent: each record's event has what the mapping of docs/audit.md says,
// is as the class was published, and says all that the record says.
func TestEvent(t *testing.T) {
	p := readPublished(t)
	if p.Version != ocsf.Version {
		t.Fatalf("testdata is of OCSF %s, and events are of %s", p.Version, ocsf.Version)
	}
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) {
			line := lines(t, tc.record)[0]
			event, err := ocsf.Event(line)
			if err != nil {
				t.Fatalf("%v\n%s", err, line)
			}
			for _, fault := range p.validate(event) {
				t.Error(fault)
			}
			var tree, record any
			must(t, json.Unmarshal(event, &tree))
			must(t, json.Unmarshal(line, &record))
			for path, want := range tc.want {
				got := tree
				for name := range strings.SplitSeq(path, ".") {
					object, _ := got.(map[string]any)
					got = object[name]
				}
				var wanted any
				must(t, json.Unmarshal([]byte(want), &wanted))
				if have := text(t, got); have != text(t, wanted) {
					t.Errorf("%s is\n%s, want\n%s", path, have, want)
				}
			}
			told := map[string]bool{}
			leaves(tree, func(s string) { told[s] = true })
			leaves(record, func(s string) {
				var value any // an argument's JSON is a value in the event
				if json.Unmarshal([]byte(s), &value) == nil && told[fmt.Sprint(value)] {
					return
				}
				if !told[s] && !strings.Contains(string(event), s) {
					t.Errorf("the event does not say %q", s)
				}
			})
			if t.Failed() {
				t.Logf("%s\n%s", line, event)
			}
		})
	}
}

// leaves gives each scalar of a tree, as text.
func leaves(v any, f func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, m := range v {
			leaves(m, f)
		}
	case []any:
		for _, m := range v {
			leaves(m, f)
		}
	default:
		f(fmt.Sprint(v))
	}
}

func text(t *testing.T, v any) string {
	data, err := json.Marshal(v) // keys are sorted
	must(t, err)
	return string(data)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEventControls: a DENY of every control has a severity and a disposition.
func TestEventControls(t *testing.T) {
	p := readPublished(t)
	for _, c := range writ.Codes() {
		r := full()
		r.Outcome, r.Code, r.Control = c.Outcome, c.Code, c.Control
		event, err := ocsf.Event(lines(t, r)[0])
		if err != nil {
			t.Fatalf("%s: %v", c.Code, err)
		}
		if faults := p.validate(event); faults != nil {
			t.Errorf("%s: %q", c.Code, faults)
		}
	}
}

// TestEventPrintable: an event can be read at a terminal, whatever is in it.
func TestEventPrintable(t *testing.T) {
	r := full()
	r.Explanation = "a\x1b[31m\u009b\u202e\U000e0001<&é☂"
	event, err := ocsf.Event(lines(t, r)[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := `a\u001b[31m\u009b\u202e\udb40\udc01<&é☂`; !strings.Contains(string(event), want) {
		t.Errorf("%s does not have %s", event, want)
	}
}

// TestEventRefuses: what is no whole record that is known is an error.
func TestEventRefuses(t *testing.T) {
	const sound = `{"v":1,"index":7,"time":"2031-04-01T12:00:00Z","kind":"decision","id":"d","outcome":"DENY","code":"NO_PERMIT","control":"POLICY","effect":"read"}`
	if _, err := ocsf.Event([]byte(sound)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ from, to, want string }{
		{sound, ``, "no record"}, {sound, `null`, "no record"}, {sound, `[]`, "no record"}, {sound, `{}`, "version 0"}, {sound, sound[:40], "no record"}, {sound, sound + sound, "no record"},
		{`"v":1`, `"v":2`, "version 2"}, {`"v":1,`, ``, "version 0"},
		{`"index":7,`, ``, "no index"}, {`"index":7`, `"index":-1`, "no record"}, {`"index":7`, `"index":9223372036854775808`, "no index"}, {`"index":7`, `"index":7,"index":7`, "no record"},
		{`"time":"2031-04-01T12:00:00Z",`, ``, "no time"}, {`2031-04-01`, `yesterday`, "no record"}, {`"2031-04-01T12:00:00Z"`, `null`, "no time"},
		{`"decision"`, `"surprise"`, `unknown kind of record "surprise"`}, {`"kind":"decision",`, ``, "unknown kind"},
		{`"decision"`, `"revocation"`, "a revocation of nothing"},
		{`"id":"d",`, ``, "without id"}, {`"code":"NO_PERMIT",`, ``, "without id or code"},
		{`"DENY"`, `"MAYBE"`, `unknown outcome "MAYBE"`}, {`"outcome":"DENY",`, ``, `unknown outcome ""`},
		{`"POLICY"`, `"MOOD"`, `unknown control "MOOD"`}, {`"control":"POLICY",`, ``, `unknown control ""`},
		{`"read"`, `"magic"`, `unknown effect "magic"`},
		{`"id":"d"`, `"id":"d","surprise":1`, "no record"}, {`"id":"d"`, `"id":"d","traceId":"1"`, `a member "traceId"`},
	} {
		broken := strings.Replace(sound, tc.from, tc.to, 1)
		event, err := ocsf.Event([]byte(broken))
		if err == nil || !strings.Contains(err.Error(), tc.want) || event != nil {
			t.Errorf("%s:\n%s, %v; want %q", broken, event, err, tc.want)
		}
	}
	explained := strings.Replace(sound, `"decision"`, `"explanation"`, 1)
	for _, tc := range [][2]string{{`"DENY"`, `"MAYBE"`}, {`"read"`, `"magic"`}} {
		if event, err := ocsf.Event([]byte(strings.Replace(explained, tc[0], tc[1], 1))); err == nil {
			t.Errorf("%s is explained: %s", tc[1], event)
		}
	}
}
