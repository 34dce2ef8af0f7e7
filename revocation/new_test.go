package revocation_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/revocation"
)

func TestNewErrors(t *testing.T) {
	server := revocation.Entry{Kind: revocation.Server, ID: "payments"}
	with := func(change func(e *revocation.Entry)) revocation.Entry {
		e := revocation.Entry{Kind: revocation.Principal, Issuer: iss, ID: "ann"}
		change(&e)
		return e
	}
	numbered := func(n uint64) revocation.Entry { return with(func(e *revocation.Entry) { e.Sequence = n }) }
	id := func(k revocation.Kind, id string) revocation.Entry { return revocation.Entry{Kind: k, ID: id} }
	long := strings.Repeat("x", 1025)
	for _, c := range []struct {
		name string
		log  []revocation.Entry
		want []string // index.field: a part of the message; none: sound
	}{
		{"sound", []revocation.Entry{server, with(func(*revocation.Entry) {})}, nil},
		{"no kind", []revocation.Entry{server, id("", "x")}, []string{`entries[1].kind: is unknown`}},
		{"unknown kind", []revocation.Entry{id("user", "x")}, []string{`entries[0].kind: is unknown: want one of principal, actor, caller, issuer, key, token, intent, server, tool, approval, grant`}},
		{"kind in capitals", []revocation.Entry{id("Server", "x")}, []string{`entries[0].kind: is unknown`}},
		{"no id", []revocation.Entry{id(revocation.Intent, "")}, []string{`entries[0].id: is empty`}},
		{"no issuer", []revocation.Entry{id(revocation.Principal, "ann"), id(revocation.Token, "j"), id(revocation.Key, "k")},
			[]string{`entries[0].issuer: is missing`, `entries[1].issuer: is missing`, `entries[2].issuer: is missing`}},
		{"an issuer too many", []revocation.Entry{with(func(e *revocation.Entry) { e.Kind = revocation.Actor })}, []string{`entries[0].issuer: is not part of the name where kind is actor`}},
		{"id of 1,024 bytes", []revocation.Entry{id(revocation.Intent, long[:1024])}, nil},
		{"id of 1,025 bytes", []revocation.Entry{id(revocation.Intent, long)}, []string{`entries[0].id: is 1025 bytes long: at most 1024`}},
		{"issuer of 1,025 bytes", []revocation.Entry{with(func(e *revocation.Entry) { e.Issuer = long })}, []string{`entries[0].issuer: is 1025 bytes long`}},
		{"author of 1,025 bytes", []revocation.Entry{with(func(e *revocation.Entry) { e.Author = long })}, []string{`entries[0].author: is 1025 bytes long`}},
		{"reason of 4,096 bytes", []revocation.Entry{with(func(e *revocation.Entry) { e.Reason = strings.Repeat("r", 4096) })}, nil},
		{"reason of 4,097 bytes", []revocation.Entry{with(func(e *revocation.Entry) { e.Reason = strings.Repeat("r", 4097) })}, []string{`entries[0].reason: is 4097 bytes long`}},
		{"control character", []revocation.Entry{id(revocation.Intent, "a\x00")}, []string{`entries[0].id: holds the control character U+0000`}},
		{"invalid UTF-8", []revocation.Entry{id(revocation.Intent, "a\xff")}, []string{`entries[0].id: is not valid UTF-8`}},
		{"a tool without server", []revocation.Entry{id(revocation.Tool, "create_payment"), id(revocation.Tool, "/t"), id(revocation.Tool, "s/")},
			[]string{`entries[0].id: names no tool: write server/tool`, `entries[1].id: names no tool`, `entries[2].id: names no tool`}},
		{"a tool with a slash in its name", []revocation.Entry{id(revocation.Tool, "s/a/b")}, nil},
		{"no server's id", []revocation.Entry{id(revocation.Server, "s/t"), id(revocation.Server, "s#m"), id(revocation.Tool, "s:write/t")},
			[]string{`entries[0].id: is no server's id`, `entries[1].id: is no server's id`, `entries[2].id: is no server's id`}},
		{"a window that is never open", []revocation.Entry{with(func(e *revocation.Entry) { e.From, e.Until = at(5), at(5) })}, []string{`entries[0].from: is not before until`}},
		{"a window backwards", []revocation.Entry{with(func(e *revocation.Entry) { e.From, e.Until = at(6), at(5) })}, []string{`entries[0].from: is not before until`}},
		{"a lift with times", []revocation.Entry{with(func(e *revocation.Entry) {
			e.Lift, e.IssuedBefore, e.From, e.Until = true, at(1), at(2), at(3)
		})}, []string{`entries[0].issued_before: a lift has no times`, `entries[0].from: a lift`, `entries[0].until: a lift`}},
		{"a lift of nothing", []revocation.Entry{with(func(e *revocation.Entry) { e.Lift = true })}, nil},
		{"several errors of one entry", []revocation.Entry{{Kind: revocation.Key, From: at(1), Until: at(1)}},
			[]string{`entries[0].issuer: is missing`, `entries[0].id: is empty`, `entries[0].from: is not before until`}},
		{"numbered with gaps", []revocation.Entry{numbered(3), numbered(7), numbered(0), numbered(9)}, nil},
		{"numbered twice", []revocation.Entry{numbered(3), numbered(3)}, []string{`entries[1].sequence: 3 does not come after 3`}},
		{"numbered backwards", []revocation.Entry{numbered(3), numbered(2), numbered(4)}, []string{`entries[1].sequence: 2 does not come after 3`}},
		{"numbered as the one before is", []revocation.Entry{numbered(7), numbered(0), numbered(8)}, []string{`entries[2].sequence: 8 does not come after 8`}},
		{"no number left", []revocation.Entry{numbered(math.MaxUint64), numbered(0)}, []string{`entries[1].sequence: no number is left`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := revocation.New(c.log)
			if len(c.want) == 0 {
				if err != nil || v == nil {
					t.Fatal(err)
				}
				return
			}
			errs, ok := errors.AsType[revocation.Errors](err)
			if !ok || v != nil || len(errs) != len(c.want) {
				t.Fatalf("view %v, errors:\n%v", v, err)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), c.want[i]) {
					t.Errorf("got  %v\nwant %s", e, c.want[i])
				}
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != len(c.want) {
				t.Errorf("%d lines: %v", len(lines), err)
			}
		})
	}
}

func TestNewManyErrors(t *testing.T) {
	_, err := revocation.New(make([]revocation.Entry, 5000))
	if errs, _ := errors.AsType[revocation.Errors](err); len(errs) != revocation.MaxErrors {
		t.Errorf("%d errors", len(errs))
	}
}

func TestSequence(t *testing.T) {
	v := mustNew(t,
		revocation.Entry{Sequence: 7, Kind: revocation.Server, ID: "a"},
		revocation.Entry{Kind: revocation.Server, ID: "b"},
		revocation.Entry{Sequence: 20, Kind: revocation.Server, ID: "b", Lift: true},
	)
	if v.Sequence() != 20 {
		t.Errorf("sequence %d", v.Sequence())
	}
	v = mustNew(t, revocation.Entry{Sequence: 7, Kind: revocation.Server, ID: "a"}, revocation.Entry{Kind: revocation.Server, ID: "b"})
	if e, _ := v.Revoked(revocation.Server, "", "b", at(0), at(0)); e.Sequence != 8 || v.Sequence() != 8 {
		t.Errorf("entry %d, sequence %d", e.Sequence, v.Sequence())
	}
}
