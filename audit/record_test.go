package audit_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
)

func fullRecord() audit.Record {
	return audit.Record{
		Time: time.Date(2031, 4, 1, 14, 0, 0, 250_000_000, time.FixedZone("", 2*3600)), Kind: audit.KindDecision, ID: "d-1",
		Caller: "host-1", RequestID: "r-1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Issuer: "https://login.example", Subject: "ann", Principal: `User::"ann"`, Actors: []string{`Agent::"a"`, `Agent::"b"`},
		Server: "payments", Tool: "create_payment", Action: "payments/create_payment", Resources: []string{`Supplier::"acme"`},
		Outcome: writ.ReviewRequired, Code: writ.CodeApprovalRequired, Control: writ.ControlApproval, Policies: []string{"large-amounts"}, Errors: []string{"limits"},
		Explanation:    "Two people must agree.\n",
		ContractDigest: "sha256:c", CallDigest: "sha256:d", ProposalDigest: "sha256:e", ReviewDigest: "sha256:f", PolicyDigest: "sha256:0",
		Revision: "rev-9",
	}
}

func TestLines(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAppend(t, l, audit.Record{Time: time.Unix(0, 0), Kind: audit.KindStart, Revision: "rev-9"}, false)
	mustAppend(t, l, fullRecord(), true)
	mustAppend(t, l, audit.Record{Time: time.Unix(1, 5), Kind: audit.KindDecision, ID: "d-2", Code: writ.CodeNoPermit}, false)
	mustAppend(t, l, audit.Record{Time: time.Unix(2, 0), Kind: audit.KindStop}, false)
	mustClose(t, l)
	readLog(t, dir)

	data, err := os.ReadFile(logFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"sequence":0,"time":"1970-01-01T00:00:00Z","kind":"start","revision":"rev-9"`,
		`{"sequence":1,"time":"2031-04-01T12:00:00.25Z","kind":"decision","id":"d-1","caller":"host-1","request_id":"r-1","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736",` +
			`"issuer":"https://login.example","subject":"ann","principal":"User::\"ann\"","actors":["Agent::\"a\"","Agent::\"b\""],"server":"payments","tool":"create_payment",` +
			`"action":"payments/create_payment","resources":["Supplier::\"acme\""],"outcome":"REVIEW_REQUIRED","code":"APPROVAL_REQUIRED",` +
			`"control":"APPROVAL","policies":["large-amounts"],"errors":["limits"],"explanation":"Two people must agree.\n","contract_digest":"sha256:c",` +
			`"call_digest":"sha256:d","proposal_digest":"sha256:e","review_digest":"sha256:f","policy_digest":"sha256:0","revision":"rev-9"`,
		`{"sequence":2,"time":"1970-01-01T00:00:01.000000005Z","kind":"decision","id":"d-2","outcome":"DENY","code":"NO_PERMIT"`,
		`{"sequence":3,"time":"1970-01-01T00:00:02Z","kind":"stop"`,
	}
	for i, text := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if head, _, _ := strings.Cut(text, `,"chain":"`); i >= len(want) || head != want[i] {
			t.Errorf("line %d\n got %s\nwant %s", i+1, head, want[min(i, len(want)-1)])
		}
	}
}

// TestUnprintable: nothing in a record moves a terminal's cursor or turns its
// text around.
func TestUnprintable(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	const hostile = "a\u009b2Jb\u202ec\u2028d\U000e0041e\x1b[0m é ☂"
	mustAppend(t, l, audit.Record{Time: time.Unix(0, 0), Kind: audit.KindDecision, ID: "d-1", Code: writ.CodeNoPermit, RequestID: hostile}, true)
	mustClose(t, l)
	if lines := readLog(t, dir); lines[0].RequestID != hostile {
		t.Errorf("read back %q", lines[0].RequestID)
	}
	data, err := os.ReadFile(logFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range strings.TrimSuffix(string(data), "\n") {
		if !unicode.IsPrint(r) {
			t.Errorf("%U is in the file", r)
		}
	}
	if !strings.Contains(string(data), "é ☂") {
		t.Error("what is printable is escaped")
	}
}

// A field that is not written is a field that nobody can audit.
func TestEveryFieldIsWritten(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	base := reflect.ValueOf(fullRecord())
	for i := range base.NumField() {
		field := base.Type().Field(i)
		if base.Field(i).IsZero() {
			t.Errorf("the sample leaves %s zero", field.Name)
		}
		r := fullRecord()
		v := reflect.ValueOf(&r).Elem().Field(i)
		switch x := v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(x.Add(1)))
		case []string:
			v.Set(reflect.ValueOf(append(x, "more")))
		case writ.Outcome:
			v.Set(reflect.ValueOf(writ.Deny))
		case audit.Kind:
			v.Set(reflect.ValueOf(audit.KindStop))
		default:
			if v.Kind() != reflect.String {
				t.Fatalf("a field of type %s: say how to change it, and write it", field.Type)
			}
			v.SetString(v.String() + "x")
		}
		mustAppend(t, l, r, false)
	}
	mustClose(t, l)
	data, err := os.ReadFile(logFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for i, text := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		_, body, _ := strings.Cut(text, `,`)
		body, _, _ = strings.Cut(body, `,"chain"`)
		name := base.Type().Field(i).Name
		if other, dup := seen[body]; dup {
			t.Errorf("changing %s or %s gives the same line", name, other)
		}
		seen[body] = name
	}
}

func TestRecordsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	for name, edit := range map[string]func(*audit.Record){
		"no kind":       func(r *audit.Record) { r.Kind = "" },
		"unknown kind":  func(r *audit.Record) { r.Kind = "Decision" },
		"no time":       func(r *audit.Record) { r.Time = time.Time{} },
		"no id":         func(r *audit.Record) { r.ID = "" },
		"no code":       func(r *audit.Record) { r.Code = "" },
		"far too large": func(r *audit.Record) { r.Explanation = strings.Repeat("x", audit.MaxRecord) },
	} {
		r := fullRecord()
		edit(&r)
		if err := l.Append(t.Context(), r, true); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	// They are the caller's mistakes; the log is as good as before.
	if err := l.Err(); err != nil {
		t.Error(err)
	}
	large := fullRecord()
	for range 256 {
		large.Resources = append(large.Resources, `Path::"/`+strings.Repeat("x", 4095)+`"`)
	}
	mustAppend(t, l, large, true)
	mustClose(t, l)
	if n := len(readLog(t, dir)); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	mustClose(t, mustOpen(t, dir))
}

// Whatever text comes in, the file stays JSON, one record a line.
func TestHostileText(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	r := decision("d\xff\xfe-1")
	r.Caller = "a\nb\u2028c\"d\\e\x00f"
	r.Tool = `x","chain":"` + strings.Repeat("0", 64) + `"}`
	mustAppend(t, l, r, true)
	mustClose(t, l)
	lines := readLog(t, dir)
	if len(lines) != 1 || lines[0].ID != "d\uFFFD-1" || lines[0].Caller != r.Caller || lines[0].Tool != r.Tool {
		t.Errorf("got %+v", lines)
	}
	mustClose(t, mustOpen(t, dir))
}

// Every ASCII character, alone and among others, reads back as it was.
func TestASCII(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	var want []string
	for c := range rune(0x80) {
		for _, text := range []string{string(c), "a" + string(c) + "b"} {
			r := decision("d")
			r.RequestID = text
			mustAppend(t, l, r, false)
			want = append(want, text)
		}
	}
	mustClose(t, l)
	for i, line := range readLog(t, dir) {
		if line.RequestID != want[i] {
			t.Errorf("%q is read back as %q", want[i], line.RequestID)
		}
	}
}
