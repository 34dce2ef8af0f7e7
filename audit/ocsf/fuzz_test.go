package ocsf_test

import (
	"bytes"
	"testing"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/ocsf"
	auditv1 "github.com/writ-pdp/writ/gen/writ/audit/v1"
)

// FuzzEvent: from the lines that a log writes, whatever becomes of them.
func FuzzEvent(f *testing.F) {
	p := readPublished(f)
	var records []audit.Record
	for _, tc := range cases() {
		records = append(records, tc.record)
	}
	for _, line := range lines(f, records...) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) { check(t, p, line) })
}

// check holds what becomes of any line: an error, or one sound event.
func check(t *testing.T, p *published, line []byte) bool {
	event, err := ocsf.Event(line)
	if err != nil {
		if event != nil {
			t.Errorf("an event and %v", err)
		}
		return false
	}
	if faults := p.validate(event); faults != nil {
		t.Errorf("%q\n%s\n%s", faults, line, event)
	}
	if bytes.ContainsFunc(event, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("not printable: %q", event)
	}
	if again, err := ocsf.Event(line); err != nil || !bytes.Equal(again, event) {
		t.Errorf("the second time it is %s, %v", again, err)
	}
	return true
}

// FuzzEventTexts: whole records, with any text in them, are events.
func FuzzEventTexts(f *testing.F) {
	p := readPublished(f)
	f.Add("host", "ann", `User::"ann"`, "files", "read", `Path::"/a"`, `{"a":1}`, "DENY_IT", "why", uint8(0))
	f.Add("", "", "", "", "", `::""`, `"`, "x", "\u202e\x00", uint8(1))
	f.Add("h", "s", `"`, "s", "t", `A::B::"c\"d"`, "1e999", "c", "\U000e0001", uint8(2))
	f.Fuzz(func(t *testing.T, caller, subject, principal, server, tool, resource, argument, code, why string, shape uint8) {
		r := &auditv1.Record{
			V: 1, Index: 1 << 62, Kind: string(audit.Kinds[int(shape)%len(audit.Kinds)]), Id: "d", TraceId: why, Caller: caller, RequestId: principal, Issuer: server,
			Subject: subject, Tenant: subject, Principal: principal, Actors: []string{principal}, Server: server, Tool: tool, Action: tool,
			Resources: []string{resource}, Arguments: map[string]string{tool: argument}, Policies: []string{code, why}, Errors: []string{code},
			Outcome: []string{"ALLOW", "DENY", "REVIEW_REQUIRED"}[int(shape/8)%3], Code: "C" + code, Control: "POLICY", Explanation: why, Revision: why,
			Effect: []string{"", "pure", "read", "write"}[shape>>6], Revoked: &auditv1.Revoked{Kind: tool, Id: subject, Issuer: server, Reason: why, Lift: shape > 9},
			Faults: []string{why},
		}
		line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
		if err != nil {
			return // no UTF-8: a log writes none
		}
		line = append([]byte(`{"time":"2031-04-01T12:00:00Z",`), line[1:]...)
		if !check(t, p, line) {
			_, err := ocsf.Event(line)
			t.Errorf("%v\n%s", err, line)
		}
	})
}
