package audit_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	auditv1 "github.com/writ-pdp/writ/gen/writ/audit/v1"
)

// front is what the log writes before a record's members.
const front = `{"v":1,"index":7`

// maxBody is what a leaf of 65,535 bytes (C2SP tlog-tiles: two bytes of length)
// leaves for them, with 64 bytes for the front.
const maxBody = 65_535 - 64

var testKey = [32]byte{1, 2, 3, 31: 255}

// underKey is what stands for text under testKey.
func underKey(text string) string {
	h := hmac.New(sha256.New, testKey[:])
	h.Write([]byte(text))
	return "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
}

// fullRecord has every field but Redacted.
func fullRecord() audit.Record {
	return audit.Record{
		Time: time.Date(2031, 4, 1, 14, 0, 0, 250_000_000, time.FixedZone("", 2*3600)), Kind: audit.KindDecision, ID: "d-1",
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Caller: "host-1", RequestID: "r-1",
		Issuer: "https://login.example", Subject: "ann", Tenant: "acme", Principal: `User::"ann"`, Actors: []string{`Agent::"a"`, `Agent::"b"`},
		Server: "payments", Tool: "create_payment", Action: "payments/create_payment", Effect: writ.Write,
		Resources: []string{`Supplier::"acme"`, `Supplier::"other"`}, SecretResources: true, ResourcesLeftOut: 3,
		Arguments: []audit.Argument{{Pointer: "/currency", JSON: `"GBP"`}, {Pointer: "/amount", JSON: "900"}},
		Evidence: []audit.EvidenceRef{
			{Argument: "/supplier", Kind: "system_of_record", Reference: "erp:1", Secret: true}, {Argument: "/amount", Kind: "user", Reference: "chat:2"},
		},
		Outcome: writ.ReviewRequired, Code: writ.CodeApprovalRequired, Control: writ.ControlApproval,
		Policies: []string{"large-amounts"}, Errors: []string{"limits"}, Explanation: "Two people must agree.\n",
		ContractDigest: "sha256:c", CallDigest: "sha256:d", ProposalDigest: "sha256:e", ReviewDigest: "sha256:f", PolicyDigest: "sha256:0", TokenDigest: "sha256:1",
		Revision: "rev-9", HeardAt: time.Unix(17, 5), Took: audit.Stages{Wait: 1999 * time.Microsecond, Decide: 17500 * time.Nanosecond},
		Revoked: &audit.Revoked{
			Sequence: 1 << 53, Kind: "tool", Issuer: "https://login.example", ID: "payments/create_payment", Lift: true,
			IssuedBefore: time.Unix(1, 0), From: time.Unix(2, 1000), Until: time.Unix(3, 0), Reason: "a reason", Author: "ann",
		},
		Grant: "GRANTGRANTGRANTGRANTGRANT1", Redemption: "REDEMPTIONREDEMPTIONREDEMPT", Review: "REVIEWREVIEWREVIEWREVIEWRE", Approvals: []string{"A1", "A2"},
		ApproverIssuer: "https://people.example", ApproverSubject: "dan", ApproverTenant: "acme", EffectID: "pay-1", Observer: "bank", RetriesDigest: "sha256:retried",
		Faults: []string{"policies/a.cedar:1:2: a fault"},
	}
}

func utf8Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func utf8Texts(list []string) (out []string) {
	for _, s := range list {
		out = append(out, utf8Text(s))
	}
	return out
}

// keyed is a text under the key; an empty one is left out.
func keyed(s string) string {
	if s == "" {
		return ""
	}
	return underKey(s)
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// message is the message that r is, by the comments of the proto file.
func message(r audit.Record) *auditv1.Record {
	m := &auditv1.Record{
		V: 1, Index: 7, Time: stamp(r.Time), Kind: utf8Text(string(r.Kind)), Id: utf8Text(r.ID), TraceId: utf8Text(r.TraceID),
		Caller: utf8Text(r.Caller), RequestId: utf8Text(r.RequestID), Issuer: utf8Text(r.Issuer), Subject: utf8Text(r.Subject),
		Tenant: utf8Text(r.Tenant), Principal: utf8Text(r.Principal), Actors: utf8Texts(r.Actors), Server: utf8Text(r.Server),
		Tool: utf8Text(r.Tool), Action: utf8Text(r.Action), Effect: utf8Text(string(r.Effect)), ResourcesLeftOut: uint32(r.ResourcesLeftOut),
		Code: utf8Text(string(r.Code)), Control: utf8Text(string(r.Control)), Policies: utf8Texts(r.Policies), Errors: utf8Texts(r.Errors),
		Explanation: utf8Text(r.Explanation), ContractDigest: utf8Text(r.ContractDigest), CallDigest: keyed(r.CallDigest),
		ProposalDigest: keyed(r.ProposalDigest), ReviewDigest: keyed(r.ReviewDigest), PolicyDigest: utf8Text(r.PolicyDigest),
		TokenDigest: keyed(r.TokenDigest), Revision: utf8Text(r.Revision), HeardAt: stamp(r.HeardAt), Faults: utf8Texts(r.Faults), Redacted: r.Redacted,
		Grant: utf8Text(r.Grant), Redemption: utf8Text(r.Redemption), Review: utf8Text(r.Review), Approvals: utf8Texts(r.Approvals),
		ApproverIssuer: utf8Text(r.ApproverIssuer), ApproverSubject: utf8Text(r.ApproverSubject), ApproverTenant: utf8Text(r.ApproverTenant),
		EffectId: utf8Text(r.EffectID), Observer: utf8Text(r.Observer), RetriesDigest: keyed(r.RetriesDigest),
	}
	if r.Kind.Answers() {
		m.Outcome = r.Outcome.String()
	}
	for stage, took := range map[string]time.Duration{"wait": r.Took.Wait, "decide": r.Took.Decide} {
		if took > 0 {
			if m.Micros == nil {
				m.Micros = map[string]uint32{}
			}
			m.Micros[stage] = uint32(took / time.Microsecond)
		}
	}
	if v := r.Revoked; v != nil {
		m.Revoked = &auditv1.Revoked{
			Sequence: v.Sequence, Kind: utf8Text(v.Kind), Issuer: utf8Text(v.Issuer), Id: utf8Text(v.ID), Lift: v.Lift,
			IssuedBefore: stamp(v.IssuedBefore), From: stamp(v.From), Until: stamp(v.Until), Reason: utf8Text(v.Reason), Author: utf8Text(v.Author),
		}
	}
	if r.Redacted {
		m.ResourcesLeftOut += uint32(len(r.Resources))
		return m
	}
	if m.Resources = utf8Texts(r.Resources); r.SecretResources {
		for i, s := range r.Resources {
			m.Resources[i] = underKey(s)
		}
	}
	for _, a := range r.Arguments {
		if m.Arguments == nil {
			m.Arguments = map[string]string{}
		}
		if _, twice := m.Arguments[utf8Text(a.Pointer)]; !twice {
			m.Arguments[utf8Text(a.Pointer)] = utf8Text(a.JSON)
		}
	}
	for _, e := range r.Evidence {
		ref := &auditv1.EvidenceRef{Argument: utf8Text(e.Argument), Kind: utf8Text(e.Kind), Reference: utf8Text(e.Reference)}
		if e.Secret {
			ref.Reference = keyed(e.Reference)
		}
		m.Evidence = append(m.Evidence, ref)
	}
	return m
}

// leafOf is the line of a record, as the log writes it.
func leafOf(r *audit.Record, key *[32]byte) []byte {
	return audit.AppendJSON([]byte(front), r, key)
}

// readLeaf reads a leaf as any reader of the proto file would, and checks what
// holds for all leaves.
func readLeaf(t testing.TB, leaf []byte) *auditv1.Record {
	t.Helper()
	m := &auditv1.Record{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(leaf, m); err != nil {
		t.Fatalf("%v\n%.2000s", err, leaf)
	}
	if n := len(leaf) - len(front); n > maxBody {
		t.Fatalf("%d bytes, at most %d may be written", n, maxBody)
	}
	for _, r := range string(leaf) {
		if r != utf8.RuneError && !unicode.IsPrint(r) {
			t.Fatalf("%U is in the file", r)
		}
	}
	return m
}

// same compares a leaf with the message, also as the Protobuf JSON mapping
// spells it. Only 64-bit numbers differ: they are numbers here.
func same(t testing.TB, leaf []byte, m *auditv1.Record) {
	t.Helper()
	if got := readLeaf(t, leaf); !proto.Equal(got, m) {
		t.Fatalf("\n got %v\nwant %v\n%.2000s", got, m, leaf)
	}
	mapped, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got, spelled map[string]any
	if err := json.Unmarshal(leaf, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(mapped, &spelled); err != nil {
		t.Fatal(err)
	}
	spelled["index"] = float64(7)
	if revoked, ok := spelled["revoked"].(map[string]any); ok && m.Revoked.Sequence > 0 {
		revoked["sequence"] = float64(m.Revoked.Sequence)
	}
	if !reflect.DeepEqual(got, spelled) {
		t.Errorf("\n got %s\nwant %s", leaf, mapped)
	}
}

// TestEveryFieldOfTheMessage walks the descriptor: a full record has every
// field, and each as the proto file says.
func TestEveryFieldOfTheMessage(t *testing.T) {
	r := fullRecord()
	leaf := leafOf(&r, &testKey)
	same(t, leaf, message(r))
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			switch {
			case f.FullName() == "writ.audit.v1.Record.redacted": // excludes others, see TestRedacted
			case !m.Has(f):
				t.Errorf("%s is never written: add it to Record, and to the sample", f.FullName())
			case f.IsList() && f.Message() != nil:
				walk(m.Get(f).List().Get(0).Message())
			case f.IsMap():
			case f.Message() != nil && f.Message().ParentFile().Package() == "writ.audit.v1":
				walk(m.Get(f).Message())
			}
		}
	}
	walk(readLeaf(t, leaf).ProtoReflect())
}

// TestLines pins the text of records.
func TestLines(t *testing.T) {
	for _, tc := range []struct {
		record audit.Record
		want   string
	}{
		{audit.Record{Time: time.Unix(0, 0), Kind: audit.KindStart, Revision: "rev-9"},
			`{"v":1,"index":7,"time":"1970-01-01T00:00:00Z","kind":"start","revision":"rev-9"}`},
		{audit.Record{Time: time.Unix(1, 5), Kind: audit.KindDecision, ID: "d-2", Code: writ.CodeNoPermit},
			`{"v":1,"index":7,"time":"1970-01-01T00:00:01.000000005Z","kind":"decision","id":"d-2","outcome":"DENY","code":"NO_PERMIT"}`},
		{audit.Record{Time: time.Unix(1, 5000), Kind: audit.KindRevocation, Revoked: &audit.Revoked{Lift: true}},
			`{"v":1,"index":7,"time":"1970-01-01T00:00:01.000005Z","kind":"revocation","revoked":{"lift":true}}`},
		{audit.Record{Time: time.Unix(1, 5_000_000), Kind: audit.KindReload, Faults: []string{"a", "b"}},
			`{"v":1,"index":7,"time":"1970-01-01T00:00:01.005Z","kind":"reload","faults":["a","b"]}`},
	} {
		got := leafOf(&tc.record, &testKey)
		if string(got) != tc.want {
			t.Errorf("\n got %s\nwant %s", got, tc.want)
		}
		same(t, got, message(tc.record))
	}
}

// TestUnderKey: HMAC-SHA-256 by RFC 4231, test case 2. Its key is shorter than
// ours, and HMAC fills keys up with zero bytes.
func TestUnderKey(t *testing.T) {
	key := [32]byte{'J', 'e', 'f', 'e'}
	r := audit.Record{Time: time.Unix(0, 0), Kind: audit.KindStop, CallDigest: "what do ya want for nothing?"}
	if got := readLeaf(t, leafOf(&r, &key)).CallDigest; got != "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" {
		t.Errorf("got %s", got)
	}
}

// A field that is not written is a field that nobody can audit.
func TestEveryFieldIsWritten(t *testing.T) {
	base := reflect.ValueOf(fullRecord())
	unchanged := fullRecord()
	seen := map[string]string{string(leafOf(&unchanged, &testKey)): "nothing"}
	for i := range base.NumField() {
		field := base.Type().Field(i)
		if base.Field(i).IsZero() != (field.Name == "Redacted") {
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
		case []audit.Argument, []audit.EvidenceRef:
			v.Set(v.Slice(0, 1))
		case audit.Stages, *audit.Revoked:
			v.SetZero()
		case bool:
			v.SetBool(!x)
		case int:
			v.SetInt(int64(x) + 1)
		default:
			if v.Kind() != reflect.String {
				t.Fatalf("a field of type %s: say how to change it, and write it", field.Type)
			}
			v.SetString(v.String() + "x")
		}
		line := string(leafOf(&r, &testKey))
		if other, dup := seen[line]; dup {
			t.Errorf("changing %s or %s gives the same line", field.Name, other)
		}
		seen[line] = field.Name
	}
}

func TestRecordsThatAreNone(t *testing.T) {
	for name, edit := range map[string]func(*audit.Record){
		"no kind":                 func(r *audit.Record) { r.Kind = "" },
		"unknown kind":            func(r *audit.Record) { r.Kind = "Decision" },
		"no time":                 func(r *audit.Record) { r.Time = time.Time{} },
		"no id":                   func(r *audit.Record) { r.ID = "" },
		"no code":                 func(r *audit.Record) { r.Code = "" },
		"no code of an effect":    func(r *audit.Record) { r.Kind, r.Code = audit.KindEffect, "" },
		"no id of a redemption":   func(r *audit.Record) { r.Kind, r.ID = audit.KindRedemption, "" },
		"no code to explain":      func(r *audit.Record) { r.Kind, r.Code = audit.KindExplanation, "" },
		"a revocation of nothing": func(r *audit.Record) { r.Kind, r.Revoked = audit.KindRevocation, nil },
	} {
		r := fullRecord()
		edit(&r)
		if audit.Check(&r) == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	for _, kind := range audit.Kinds {
		r := fullRecord()
		r.Kind = kind
		if err := audit.Check(&r); err != nil {
			t.Error(err)
		}
	}
}

// TestHostile: whatever text comes in, a record stays one line of JSON, reads
// back as it was, and moves no terminal's cursor.
func TestHostile(t *testing.T) {
	texts := []string{
		"a\u009b2Jb\u202ec\u2028d\U000e0041e\x1b[0m é ☂\x7f", "d\xff\xfe-1", "a\nb\u2028c\"d\\e\x00f", `x","index":9}`, "\xed\xa0\x80", "\U0010ffff", "[{", "{",
	}
	for c := range rune(0xa1) {
		texts = append(texts, "a"+string(c)+"b")
	}
	for _, text := range texts {
		r := fullRecord()
		fill(&r, text)
		same(t, leafOf(&r, &testKey), message(r))
	}
	r := audit.Record{Time: time.Unix(0, 0), Kind: audit.KindStop, RequestID: "é ☂"}
	if leaf := leafOf(&r, &testKey); !bytes.Contains(leaf, []byte("é ☂")) {
		t.Errorf("what is printable is escaped: %s", leaf)
	}
}

// fill sets every text of a record, but for its kind.
func fill(r *audit.Record, text string) {
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if v.Type() != reflect.TypeFor[audit.Kind]() {
				v.SetString(text)
			}
		case reflect.Slice:
			for i := range v.Len() {
				set(v.Index(i))
			}
		case reflect.Pointer:
			set(v.Elem())
		case reflect.Struct:
			if v.Type() != reflect.TypeFor[time.Time]() {
				for i := range v.NumField() {
					set(v.Field(i))
				}
			}
		default:
		}
	}
	set(reflect.ValueOf(r).Elem())
}

// TestTimes: instants that the mapping cannot tell are the nearest that it can.
func TestTimes(t *testing.T) {
	for _, tc := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(-3, 1, 1, 0, 0, 0, 0, time.UTC), "0001-01-01T00:00:00Z"},
		{time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), "9999-12-31T23:59:59.999999999Z"},
		{time.Unix(1<<60, 0), "9999-12-31T23:59:59.999999999Z"},
		{time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)), "2025-12-31T23:00:00Z"},
	} {
		r := audit.Record{Time: tc.at, Kind: audit.KindRevocation, Revoked: &audit.Revoked{Until: tc.at}}
		leaf := leafOf(&r, &testKey)
		readLeaf(t, leaf)
		if n := bytes.Count(leaf, []byte(`"`+tc.want+`"`)); n != 2 {
			t.Errorf("%v: %s", tc.at, leaf)
		}
	}
	r := audit.Record{Time: time.Unix(0, 0), Kind: audit.KindStop, Took: audit.Stages{Wait: 1 << 62, Decide: -5}}
	if m := readLeaf(t, leafOf(&r, &testKey)); len(m.Micros) != 1 || m.Micros["wait"] != 1<<32-1 {
		t.Errorf("micros: %v", m.Micros)
	}
}

// TestNoAllocations: a usual record costs its buffer.
func TestNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("not with the race detector")
	}
	r := fullRecord()
	r.Explanation, r.Principal = "Two people must agree.", "p"
	r.Actors, r.Resources, r.SecretResources = []string{"a"}, []string{"x"}, true
	r.Arguments = []audit.Argument{{Pointer: "/amount", JSON: "900"}}
	appendTo := audit.Appender(testKey)
	b := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { b = appendTo(b[:0], &r) }); n >= 1 {
		t.Errorf("%v allocations a record", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := fullRecord()
	r.Revoked, r.Faults, r.SecretResources, r.Arguments, r.Evidence = nil, nil, false, nil, nil
	appendTo := audit.Appender(testKey)
	buffer := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buffer = appendTo(buffer[:0], &r)
	}
}
