package server_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

// jsonCases are requests of Decide: what passes has no reason.
var jsonCases = []struct {
	name, text string
	reason     server.Reason
	where      string // the pointer of the refusal
}{
	{"empty message", `{}`, "", ""},
	{"space around", " \t\r\n{ \"proposal\" : { } } \n", "", ""},
	{"both kinds of names", `{"proposal":{"requestId":"r","arguments_json":"{}"}}`, "", ""},
	{"null is absent", `{"proposal":{"intent":null,"tool":null,"actors":null,"token":{"claims":null,"expiresAt":null}}}`, "", ""},
	{"everything nested", `{"proposal":{"token":{"actors":[{"claims":{"k":"v","l":""}}],"expiresAt":"2026-01-02T03:04:05.678901234Z"},"evidence":[{"confidence":0.5},{"confidence":1},{"confidence":1e-3}]}}`, "", ""},
	{"time with an offset", `{"proposal":{"intent":{"expiresAt":"2026-01-02T03:04:05+01:00"}}}`, "", ""},
	{"escapes", `{"proposal":{"tool":"a\u00e9\ud83d\ude00\u0000"}}`, "", ""},

	{"nothing", ``, server.ReasonMalformedRequest, ""},
	{"space", ` `, server.ReasonMalformedRequest, ""},
	{"cut off", `{"proposal":{"requestId":"r"`, server.ReasonMalformedRequest, "/proposal"},
	{"in a string", `{"proposal":{"requestId":"r`, server.ReasonMalformedRequest, "/proposal/requestId"},
	{"in a name", `{"propo`, server.ReasonMalformedRequest, ""},
	{"an array", `[]`, server.ReasonMalformedRequest, ""},
	{"null", `null`, server.ReasonMalformedRequest, ""},
	{"a string", `"{}"`, server.ReasonMalformedRequest, ""},
	{"no JSON", `proposal: {}`, server.ReasonMalformedRequest, ""},
	{"a comment", `{/* */}`, server.ReasonMalformedRequest, ""},
	{"a comma more", `{"proposal":{},}`, server.ReasonMalformedRequest, ""},
	{"single quotes", `{'proposal':{}}`, server.ReasonMalformedRequest, ""},
	{"byte order mark", "\ufeff{}", server.ReasonMalformedRequest, ""},
	{"UTF-16", "\xff\xfe{\x00}\x00", server.ReasonMalformedRequest, ""},
	{"not UTF-8", "{\"proposal\":{\"tool\":\"\xff\"}}", server.ReasonMalformedRequest, "/proposal/tool"},
	{"a name that is not UTF-8", "{\"\xff\":1}", server.ReasonMalformedRequest, ""},
	{"an overlong slash", "{\"proposal\":{\"tool\":\"\xc0\xaf\"}}", server.ReasonMalformedRequest, "/proposal/tool"},
	{"a lone surrogate", `{"proposal":{"tool":"\ud800"}}`, server.ReasonMalformedRequest, "/proposal/tool"},
	{"a control character", "{\"proposal\":{\"tool\":\"\x01\"}}", server.ReasonMalformedRequest, "/proposal/tool"},
	{"something after it", `{}{}`, server.ReasonMalformedRequest, ""},
	{"a brace after it", `{}}`, server.ReasonMalformedRequest, ""},
	{"a zero after it", "{}\x00", server.ReasonMalformedRequest, ""},
	{"a framed message", "\x00\x00\x00\x00\x02{}", server.ReasonMalformedRequest, ""},

	{"unknown at the top", `{"x":1}`, server.ReasonUnknownFields, "/x"},
	{"unknown in the proposal", `{"proposal":{"surprise":{"a":[1]}}}`, server.ReasonUnknownFields, "/proposal/surprise"},
	{"unknown in an array", `{"proposal":{"actors":[{},{"x":null}]}}`, server.ReasonUnknownFields, "/proposal/actors/1/x"},
	{"another case", `{"Proposal":{}}`, server.ReasonUnknownFields, "/Proposal"},
	{"the field's number", `{"1":{}}`, server.ReasonUnknownFields, "/1"},
	{"an extension", `{"[writ.v1.x]":1}`, server.ReasonUnknownFields, "/[writ.v1.x]"},
	{"a type", `{"@type":"type.googleapis.com/writ.v1.DecideRequest"}`, server.ReasonUnknownFields, "/@type"},
	{"the empty name", `{"":1}`, server.ReasonUnknownFields, "/"},
	{"a long name", `{"` + strings.Repeat("n", 100_000) + `":1}`, server.ReasonUnknownFields, "/" + strings.Repeat("n", 127) + "…"},

	{"twice", `{"proposal":{"tool":"a","tool":"a"}}`, server.ReasonDuplicateFields, "/proposal/tool"},
	{"twice, one of them null", `{"proposal":{"tool":"a","tool":null}}`, server.ReasonDuplicateFields, "/proposal/tool"},
	{"twice, escaped", `{"proposal":{"tool":"a","t\u006fol":"b"}}`, server.ReasonDuplicateFields, "/proposal/tool"},
	{"by both names", `{"proposal":{"requestId":"a","request_id":"b"}}`, server.ReasonDuplicateFields, "/proposal/request_id"},
	{"a message twice", `{"proposal":{},"proposal":{}}`, server.ReasonDuplicateFields, "/proposal"},
	{"an array twice", `{"proposal":{"actors":[],"actors":[]}}`, server.ReasonDuplicateFields, "/proposal/actors"},
	{"a map's key twice", `{"proposal":{"token":{"claims":{"k":"v","k":"w"}}}}`, server.ReasonDuplicateFields, "/proposal/token/claims/k"},

	{"number for string", `{"proposal":{"tool":1}}`, server.ReasonMalformedRequest, "/proposal/tool"},
	{"true for string", `{"proposal":{"tool":true}}`, server.ReasonMalformedRequest, "/proposal/tool"},
	{"object for string", `{"proposal":{"argumentsJson":{"path":"/"}}}`, server.ReasonMalformedRequest, "/proposal/argumentsJson"},
	{"array for string", `{"proposal":{"tool":["x"]}}`, server.ReasonMalformedRequest, "/proposal/tool"},
	{"string for number", `{"proposal":{"evidence":[{"confidence":"0.5"}]}}`, server.ReasonMalformedRequest, "/proposal/evidence/0/confidence"},
	{"NaN", `{"proposal":{"evidence":[{"confidence":"NaN"}]}}`, server.ReasonMalformedRequest, "/proposal/evidence/0/confidence"},
	{"bare NaN", `{"proposal":{"evidence":[{"confidence":NaN}]}}`, server.ReasonMalformedRequest, "/proposal/evidence/0/confidence"},
	{"too large a number", `{"proposal":{"evidence":[{},{"confidence":1e999}]}}`, server.ReasonMalformedRequest, "/proposal/evidence/1/confidence"},
	{"leading zero", `{"proposal":{"evidence":[{"confidence":01}]}}`, server.ReasonMalformedRequest, "/proposal/evidence/0"},
	{"string for message", `{"proposal":"x"}`, server.ReasonMalformedRequest, "/proposal"},
	{"array for message", `{"proposal":[]}`, server.ReasonMalformedRequest, "/proposal"},
	{"object for array", `{"proposal":{"actors":{}}}`, server.ReasonMalformedRequest, "/proposal/actors"},
	{"one for many", `{"proposal":{"token":{"scopes":"a"}}}`, server.ReasonMalformedRequest, "/proposal/token/scopes"},
	{"null in an array", `{"proposal":{"token":{"scopes":["a",null]}}}`, server.ReasonMalformedRequest, "/proposal/token/scopes/1"},
	{"null message in an array", `{"proposal":{"actors":[null]}}`, server.ReasonMalformedRequest, "/proposal/actors/0"},
	{"array in an array", `{"proposal":{"token":{"scopes":[[]]}}}`, server.ReasonMalformedRequest, "/proposal/token/scopes/0"},
	{"array for map", `{"proposal":{"token":{"claims":[]}}}`, server.ReasonMalformedRequest, "/proposal/token/claims"},
	{"number in a map", `{"proposal":{"token":{"claims":{"k":1}}}}`, server.ReasonMalformedRequest, "/proposal/token/claims/k"},
	{"null in a map", `{"proposal":{"token":{"claims":{"k":null}}}}`, server.ReasonMalformedRequest, "/proposal/token/claims/k"},
	{"time as a number", `{"proposal":{"intent":{"expiresAt":1767225600}}}`, server.ReasonMalformedRequest, "/proposal/intent/expiresAt"},
	{"time as its fields", `{"proposal":{"intent":{"expiresAt":{"seconds":1}}}}`, server.ReasonMalformedRequest, "/proposal/intent/expiresAt"},
	{"a date", `{"proposal":{"intent":{"expiresAt":"2026-01-02"}}}`, server.ReasonMalformedRequest, "/proposal/intent/expiresAt"},
	{"no zone", `{"proposal":{"intent":{"expiresAt":"2026-01-02T03:04:05"}}}`, server.ReasonMalformedRequest, "/proposal/intent/expiresAt"},
	{"ten digits of a second", `{"proposal":{"intent":{"expiresAt":"2026-01-02T03:04:05.0123456789Z"}}}`, server.ReasonMalformedRequest, "/proposal/intent/expiresAt"},
	{"no such day", `{"proposal":{"intent":{"expiresAt":"2026-02-30T03:04:05Z"}}}`, server.ReasonMalformedRequest, "/proposal/intent/expiresAt"},

	{"deep array", strings.Repeat("[", 500_000), server.ReasonMalformedRequest, ""},
	{"deep in a string's place", `{"proposal":{"tool":` + strings.Repeat("[", 400_000), server.ReasonMalformedRequest, "/proposal/tool"},
	{"deep in an array", `{"proposal":{"actors":` + strings.Repeat("[", 400_000), server.ReasonMalformedRequest, "/proposal/actors/0"},
	{"deep in an unknown field", `{"x":` + strings.Repeat(`{"x":`, 80_000), server.ReasonUnknownFields, "/x"},
	{"deep proposals", strings.Repeat(`{"proposal":`, 40_000), server.ReasonUnknownFields, "/proposal/proposal"},
}

func TestStrictJSON(t *testing.T) {
	for _, c := range jsonCases {
		err := server.UnmarshalJSON([]byte(c.text), &writv1.DecideRequest{})
		if got := server.ReasonOf(err); got != c.reason || got == "" && err != nil {
			t.Errorf("%s: got %v, want reason %q", c.name, err, c.reason)
		}
	}
}

func TestStrictJSONOverHTTP(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	asked := 0
	for _, c := range jsonCases {
		r := h.post(t, h.host, decideMethod, body(c.text))
		if c.reason == "" {
			asked++
			if r.status != http.StatusOK {
				t.Errorf("%s: %d %s", c.name, r.status, r.body)
			}
			continue
		}
		info := r.wantRefused(t, http.StatusBadRequest, "invalid_argument", c.reason)
		if got := info.GetMetadata()["pointer"]; got != c.where {
			t.Errorf("%s: refused at %q, want %q", c.name, got, c.where)
		}
		if len(r.body) > 2000 {
			t.Errorf("%s: the answer has %d bytes", c.name, len(r.body))
		}
	}
	if n := len(d.questions()); n != asked {
		t.Errorf("asked %d times, want %d", n, asked)
	}
	h.aliveJSON(t)
}

// kinds describes a message with a field of every kind that JSON can carry.
func kinds(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("kinds.proto"), Package: proto.String("kinds"), Syntax: proto.String("proto3"),
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("Color"), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("COLOR_UNSPECIFIED"), Number: proto.Int32(0)}, {Name: proto.String("COLOR_RED"), Number: proto.Int32(1)},
		}}},
		Dependency: []string{"google/protobuf/any.proto", "google/protobuf/struct.proto", "google/protobuf/timestamp.proto"},
	}
	message := &descriptorpb.DescriptorProto{Name: proto.String("Kinds"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("one")}}}
	add := func(name string, kind descriptorpb.FieldDescriptorProto_Type, typeName string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(int32(len(message.Field) + 1)), Type: kind.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if typeName != "" {
			f.TypeName = proto.String(typeName)
		}
		message.Field = append(message.Field, f)
		return f
	}
	add("bool", descriptorpb.FieldDescriptorProto_TYPE_BOOL, "")
	add("bytes", descriptorpb.FieldDescriptorProto_TYPE_BYTES, "")
	add("color", descriptorpb.FieldDescriptorProto_TYPE_ENUM, ".kinds.Color")
	add("int32", descriptorpb.FieldDescriptorProto_TYPE_INT32, "")
	add("sint32", descriptorpb.FieldDescriptorProto_TYPE_SINT32, "")
	add("uint32", descriptorpb.FieldDescriptorProto_TYPE_UINT32, "")
	add("fixed32", descriptorpb.FieldDescriptorProto_TYPE_FIXED32, "")
	add("int64", descriptorpb.FieldDescriptorProto_TYPE_INT64, "")
	add("sfixed64", descriptorpb.FieldDescriptorProto_TYPE_SFIXED64, "")
	add("uint64", descriptorpb.FieldDescriptorProto_TYPE_UINT64, "")
	add("float", descriptorpb.FieldDescriptorProto_TYPE_FLOAT, "")
	add("double", descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, "")
	add("any", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf.Any")
	add("struct", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf.Struct")
	add("inner", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".kinds.Kinds")
	add("left", descriptorpb.FieldDescriptorProto_TYPE_STRING, "").OneofIndex = proto.Int32(0)
	add("right", descriptorpb.FieldDescriptorProto_TYPE_STRING, "").OneofIndex = proto.Int32(0)
	add("ints", descriptorpb.FieldDescriptorProto_TYPE_INT32, "").Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	file.MessageType = []*descriptorpb.DescriptorProto{message}
	built, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return built.Messages().Get(0)
}

// Shapes that no request of ours has, but a later one may.
func TestStrictJSONOnOtherMessages(t *testing.T) {
	desc := kinds(t)
	for _, c := range []struct {
		text   string
		reason server.Reason
	}{
		{`{"bool":true}`, ""}, {`{"bool":"true"}`, server.ReasonMalformedRequest}, {`{"bool":1}`, server.ReasonMalformedRequest},
		{`{"bytes":"AAE="}`, ""}, {`{"bytes":"!"}`, server.ReasonMalformedRequest}, {`{"bytes":[1]}`, server.ReasonMalformedRequest},
		{`{"color":"COLOR_RED"}`, ""}, {`{"color":1}`, server.ReasonMalformedRequest}, {`{"color":"1"}`, server.ReasonMalformedRequest},
		{`{"color":"COLOR_PINK"}`, server.ReasonMalformedRequest}, {`{"color":"red"}`, server.ReasonMalformedRequest},
		{`{"int32":-2147483648}`, ""}, {`{"int32":2147483648}`, server.ReasonMalformedRequest}, {`{"int32":"1"}`, server.ReasonMalformedRequest},
		{`{"int32":1.0}`, server.ReasonMalformedRequest}, {`{"int32":1e2}`, server.ReasonMalformedRequest}, {`{"int32":1.5}`, server.ReasonMalformedRequest},
		{`{"int32":true}`, server.ReasonMalformedRequest},
		{`{"sint32":-1}`, ""}, {`{"uint32":4294967295}`, ""}, {`{"uint32":-1}`, server.ReasonMalformedRequest}, {`{"fixed32":"7"}`, server.ReasonMalformedRequest},
		{`{"int64":"-9223372036854775808"}`, ""}, {`{"int64":9223372036854775807}`, ""}, {`{"int64":"9223372036854775808"}`, server.ReasonMalformedRequest},
		{`{"int64":"+1"}`, server.ReasonMalformedRequest}, {`{"int64":" 1"}`, server.ReasonMalformedRequest}, {`{"int64":""}`, server.ReasonMalformedRequest},
		{`{"int64":"1.0"}`, server.ReasonMalformedRequest}, {`{"int64":"\u0031"}`, server.ReasonMalformedRequest}, {`{"int64":"0x1"}`, server.ReasonMalformedRequest},
		{`{"sfixed64":"1"}`, ""}, {`{"uint64":"18446744073709551615"}`, ""}, {`{"uint64":"-1"}`, server.ReasonMalformedRequest}, {`{"uint64":-1}`, server.ReasonMalformedRequest},
		{`{"float":1.5}`, ""}, {`{"float":1e39}`, server.ReasonMalformedRequest}, {`{"float":"Infinity"}`, server.ReasonMalformedRequest},
		{`{"double":1e39}`, ""}, {`{"double":"1"}`, server.ReasonMalformedRequest}, {`{"double":false}`, server.ReasonMalformedRequest},
		{`{"any":{"@type":"type.googleapis.com/google.protobuf.Empty"}}`, server.ReasonMalformedRequest},
		{`{"struct":{"a":1}}`, server.ReasonMalformedRequest},
		{`{"left":"a"}`, ""}, {`{"left":"a","right":"b"}`, server.ReasonDuplicateFields}, {`{"left":null,"right":"b"}`, server.ReasonDuplicateFields},
		{`{"ints":[1,2]}`, ""}, {`{"ints":[1,"2"]}`, server.ReasonMalformedRequest},
		{strings.Repeat(`{"inner":`, 32) + `{}` + strings.Repeat(`}`, 32), ""},
		{strings.Repeat(`{"inner":`, 33) + `{}` + strings.Repeat(`}`, 33), server.ReasonMalformedRequest},
		{strings.Repeat(`{"inner":`, 100_000), server.ReasonMalformedRequest},
	} {
		m := dynamicpb.NewMessage(desc)
		err := server.UnmarshalJSON([]byte(c.text), m)
		if got := server.ReasonOf(err); got != c.reason || got == "" && err != nil {
			t.Errorf("%.80s: got %v, want reason %q", c.text, err, c.reason)
		}
	}
}

// Every request that HTTP offers can be written as JSON.
func TestEveryRequestHasJSON(t *testing.T) {
	h := open(t, &decider{}, nil)
	seen := map[protoreflect.FullName]bool{}
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if m.FullName() == "google.protobuf.Timestamp" || seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		if m.FullName().Parent() == "google.protobuf" {
			t.Errorf("a request has a %s, for which the strict reader of JSON has no rule", m.FullName())
		}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if f.IsMap() {
				f = f.MapValue()
			}
			if f.Kind() == protoreflect.GroupKind {
				t.Errorf("%s is a group", f.FullName())
			}
			if inner := f.Message(); inner != nil {
				walk(inner)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Services())) {
		desc, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		methods := desc.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			walk(methods.Get(i).Input())
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %d messages were seen", len(seen))
	}
}

func TestStrictJSONReadsWhatIsSent(t *testing.T) {
	want := &writv1.DecideRequest{Proposal: full()}
	for _, options := range []protojson.MarshalOptions{{}, {UseProtoNames: true}, {EmitUnpopulated: true, Multiline: true}} {
		data, err := options.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := &writv1.DecideRequest{}
		if err := server.UnmarshalJSON(data, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v\ngot  %v\nwant %v", data, err, got, want)
		}
	}
}

func addJSON(f *testing.F) {
	for _, c := range jsonCases {
		if len(c.text) < 1000 {
			f.Add([]byte(c.text))
		}
	}
	data, err := protojson.Marshal(&writv1.DecideRequest{Proposal: full()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
}

// FuzzJSON holds the strict reader of JSON against Protobuf's own: what passes
// is what that reads, and what the strict reader of bytes lets pass too.
func FuzzJSON(f *testing.F) {
	addJSON(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &writv1.DecideRequest{}
		if err := server.UnmarshalJSON(data, req); err != nil {
			if server.ReasonOf(err) == "" {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		plain := &writv1.DecideRequest{}
		if err := protojson.Unmarshal(data, plain); err != nil || !proto.Equal(req, plain) {
			t.Fatalf("passed as %v, but Protobuf says %v, %v", req, plain, err)
		}
		if !json.Valid(data) {
			t.Fatalf("passed, but is no JSON")
		}
		wire, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		again := &writv1.DecideRequest{}
		if err := server.Unmarshal(wire, again); err != nil || !proto.Equal(again, req) {
			t.Fatalf("%v comes back from the wire as %v, %v", req, again, err)
		}
	})
}

// counter counts what it is asked, and keeps none of it.
type counter struct {
	*decider
	asked atomic.Int64
}

func (c *counter) Decide(context.Context, *writ.Caller, *writ.Proposal, pdp.Ask) (pdp.Answer, error) {
	c.asked.Add(1)
	return pdp.Answer{}, nil
}

func (c *counter) Refuse(context.Context, *writ.Caller, *writ.Proposal, string, string) (pdp.Answer, error) {
	c.asked.Add(1)
	return pdp.Answer{}, nil
}

// FuzzHTTP sends a path, a header and a body to a running server. It must
// answer in JSON, decide nothing that it did not understand, and live on.
func FuzzHTTP(f *testing.F) {
	for _, path := range []string{decideMethod, "/readyz", "/%2e"} {
		for _, header := range []string{"application/json", "text/plain", "application/grpc"} {
			f.Add(path, header, []byte(`{"proposal":{"requestId":"r"}}`))
		}
	}
	for _, c := range jsonCases {
		if len(c.text) < 1000 {
			f.Add(decideMethod, "application/json", []byte(c.text))
		}
	}
	d := &counter{decider: &decider{}}
	h := open(f, d.decider, func(c *server.Config) {
		c.Decider = d
		c.Limits.Rate, c.Limits.Burst = 1<<20, 1<<20
		c.Log = nil
	})
	f.Fuzz(func(t *testing.T, path, kind string, data []byte) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+h.web, strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return
		}
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Authorization", "Bearer "+h.host)
		before := d.asked.Load()
		r, err := do(&http.Client{Transport: h.transport}, req)
		if err != nil {
			if strings.Contains(err.Error(), "invalid header") {
				return // what this client does not send
			}
			t.Fatal(err)
		}
		asked := d.asked.Load() - before
		switch {
		case r.status == http.StatusBadRequest && r.header.Get("Content-Type") != "application/json":
			// net/http's own words
		case r.status == http.StatusOK:
			if !json.Valid(r.body) || asked != 1 && strings.HasPrefix(path, decideMethod) {
				t.Fatalf("asked %d times: %s", asked, r.body)
			}
		case r.status < 400 || r.status >= 500:
			t.Fatalf("%d %s", r.status, r.body)
		default:
			if asked != 0 || !json.Valid(r.body) || !strings.Contains(string(r.body), `"domain":"writ.dev"`) {
				t.Fatalf("asked %d times: %d %s", asked, r.status, r.body)
			}
		}
		h.aliveJSON(t)
	})
}
