package server_test

import (
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// field encodes one length-delimited field.
func field(number protowire.Number, value ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func varint(number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// The field numbers of proposal.proto.
const (
	requestProposal  = 1 // DecideRequest.proposal
	proposalRequest  = 1
	proposalIntent   = 2
	proposalActors   = 4
	proposalToken    = 5
	proposalEvidence = 12
	intentExpires    = 4
	actorClaims      = 3
	tokenClaims      = 11
	tokenActors      = 12
	evidenceObserved = 6
)

var strictCases = []struct {
	name   string
	data   []byte
	reason server.Reason
	where  string // message and field of the refusal
}{
	{"empty", nil, "", ""},
	{"unknown at the top", varint(2, 1), server.ReasonUnknownFields, "writ.v1.DecideRequest 2"},
	{"unknown with a huge number", varint(536870911, 1), server.ReasonUnknownFields, "writ.v1.DecideRequest 536870911"},
	{"unknown in the proposal", field(requestProposal, varint(900, 0)...), server.ReasonUnknownFields, "writ.v1.Proposal 900"},
	{"unknown in the intent", field(requestProposal, field(proposalIntent, field(9, 'x')...)...), server.ReasonUnknownFields, "writ.v1.Intent 9"},
	{"unknown in a timestamp", field(requestProposal, field(proposalIntent, field(intentExpires, varint(3, 1)...)...)...),
		server.ReasonUnknownFields, "google.protobuf.Timestamp 3"},
	{"unknown in the second actor", field(requestProposal, join(field(proposalActors), field(proposalActors, varint(4, 1)...))...),
		server.ReasonUnknownFields, "writ.v1.Actor 4"},
	{"unknown in the token's actor", field(requestProposal, field(proposalToken, field(tokenActors, varint(7, 1)...)...)...),
		server.ReasonUnknownFields, "writ.v1.Actor 7"},
	{"unknown in evidence", field(requestProposal, field(proposalEvidence, varint(99, 1)...)...), server.ReasonUnknownFields, "writ.v1.Evidence 99"},
	{"unknown in a map's entry", field(requestProposal, field(proposalToken, field(tokenClaims, join(field(1, 'k'), field(2, 'v'), field(3, 'x'))...)...)...),
		server.ReasonUnknownFields, "writ.v1.Token.ClaimsEntry 3"},
	{"known field, other wire type", field(requestProposal, varint(proposalRequest, 5)...), server.ReasonUnknownFields, "writ.v1.Proposal 1"},
	{"group", protowire.AppendTag(protowire.AppendTag(nil, 1, protowire.StartGroupType), 1, protowire.EndGroupType),
		server.ReasonUnknownFields, "writ.v1.DecideRequest 1"},

	{"message twice", join(field(requestProposal), field(requestProposal)), server.ReasonDuplicateFields, "writ.v1.DecideRequest 1"},
	{"string twice", field(requestProposal, join(field(proposalRequest, 'a'), field(proposalRequest, 'b'))...),
		server.ReasonDuplicateFields, "writ.v1.Proposal 1"},
	{"map key twice", field(requestProposal, field(proposalActors, join(
		field(actorClaims, join(field(1, 'k'), field(2, 'v'))...), field(actorClaims, join(field(1, 'k'), field(2, 'w'))...))...)...),
		server.ReasonDuplicateFields, "writ.v1.Actor 3"},
	{"empty map key and none", field(requestProposal, field(proposalActors, join(
		field(actorClaims, join(field(1), field(2, 'v'))...), field(actorClaims, field(2, 'w')...))...)...),
		server.ReasonDuplicateFields, "writ.v1.Actor 3"},
	{"two map keys", field(requestProposal, field(proposalActors, join(
		field(actorClaims, join(field(1, 'k'), field(2, 'v'))...), field(actorClaims, join(field(1, 'l'), field(2, 'v'))...))...)...), "", ""},
	{"repeated field twice", field(requestProposal, join(field(proposalActors), field(proposalActors))...), "", ""},

	{"tag cut off", []byte{0x80}, server.ReasonMalformedRequest, ""},
	{"length over the end", []byte{0x0a, 0x05, 0x0a}, server.ReasonMalformedRequest, ""},
	{"field number 0", []byte{0x02, 0x00}, server.ReasonMalformedRequest, ""},
	{"field number 2^30", protowire.AppendVarint(nil, 1<<33|2), server.ReasonUnknownFields, "writ.v1.DecideRequest 1073741824"},
	{"length of 2^63", join([]byte{0x0a}, protowire.AppendVarint(nil, 1<<63)), server.ReasonMalformedRequest, ""},
	{"end of a group", protowire.AppendTag(nil, 1, protowire.EndGroupType), server.ReasonUnknownFields, "writ.v1.DecideRequest 1"},
	{"text that is not UTF-8", field(requestProposal, field(proposalRequest, 0xff, 0xfe)...), server.ReasonMalformedRequest, ""},
}

func TestStrictReader(t *testing.T) {
	for _, c := range strictCases {
		err := server.Unmarshal(c.data, &writv1.DecideRequest{})
		if got := server.ReasonOf(err); got != c.reason {
			t.Errorf("%s: got %v, want reason %q", c.name, err, c.reason)
		}
	}
}

func TestStrictReaderReadsWhatIsSent(t *testing.T) {
	want := &writv1.DecideRequest{Proposal: full()}
	data, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &writv1.DecideRequest{}
	if err := server.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Shapes that no request of ours has, but a later one may.
func TestStrictReaderOnOtherMessages(t *testing.T) {
	deep := func(n int) []byte {
		data := []byte{}
		for range n { // Value.list_value = 6, ListValue.values = 1
			data = field(6, field(1, data...)...)
		}
		return data
	}
	for _, c := range []struct {
		name   string
		data   []byte
		into   proto.Message
		reason server.Reason
	}{
		{"oneof", varint(4, 1), &structpb.Value{}, ""},
		{"oneof, two members", join(varint(1, 0), varint(4, 1)), &structpb.Value{}, server.ReasonDuplicateFields},
		{"nested 15 pairs deep", deep(15), &structpb.Value{}, ""},
		{"nested 1000 pairs deep", deep(1000), &structpb.Value{}, server.ReasonMalformedRequest},
		{"no Any", join(varint(1, 3), field(2, 'm')), &status.Status{}, ""},
		{"Any", field(3, field(1, []byte("type.googleapis.com/google.protobuf.Empty")...)...), &status.Status{}, server.ReasonUnknownFields},
		{"number, other wire type", field(1, 1), &timestamppb.Timestamp{}, server.ReasonUnknownFields},
	} {
		if got := server.ReasonOf(server.Unmarshal(c.data, c.into)); got != c.reason {
			t.Errorf("%s: got %q, want %q", c.name, got, c.reason)
		}
	}
}

// FuzzRequest takes the whole way of a request's bytes: strict reader,
// message, noun and back.
func FuzzRequest(f *testing.F) {
	for _, c := range strictCases {
		f.Add(c.data)
	}
	data, err := proto.Marshal(&writv1.DecideRequest{Proposal: full()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &writv1.DecideRequest{}
		if err := server.Unmarshal(data, req); err != nil {
			if server.ReasonOf(err) == "" {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		// What passed is what Protobuf itself reads, and holds nothing unknown.
		plain := &writv1.DecideRequest{}
		if err := proto.Unmarshal(data, plain); err != nil {
			t.Fatalf("passed, but Protobuf says %v", err)
		}
		wantNoUnknown(t, req.ProtoReflect())
		noun, err := server.ProposalFromProto(req.GetProposal())
		if noun == nil {
			t.Fatal("no proposal")
		}
		if err != nil {
			return
		}
		back, err := server.ProposalToProto(noun)
		if err != nil {
			t.Fatal(err)
		}
		again, err := server.ProposalFromProto(back)
		if err != nil {
			t.Fatalf("%v came back as %v", req, err)
		}
		// The noun tells an absent message from an empty one only where it matters.
		if second, _ := server.ProposalToProto(again); !proto.Equal(back, second) {
			t.Fatalf("first  %v\nsecond %v", back, second)
		}
	})
}

func wantNoUnknown(t *testing.T, m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s passed with the unknown fields %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				wantNoUnknown(t, v.List().Get(i).Message())
			}
		default:
			wantNoUnknown(t, v.Message())
		}
		return true
	})
}
