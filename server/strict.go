package server

import (
	"fmt"
	"strconv"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxNesting bounds messages within messages. Ours nest three deep.
const maxNesting = 32

// incoming is what a method's message is received into. The codec reports
// through it, because grpc turns a codec's own error into INTERNAL.
type incoming struct {
	message proto.Message
	begin   func(size int) error // waits until so many bytes may be read; nil: at once
	fault   error
}

// receive receives one message of a request through recv, strictly, and reads it
// once begin, which may be nil, has returned.
func receive(recv func(any) error, v any, begin func(size int) error) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("server: a request of type %T is not a message", v)
	}
	in := &incoming{message: m, begin: begin}
	if err := recv(in); err != nil {
		return asUnread(err)
	}
	return in.fault
}

// codec reads requests strictly and writes answers as usual.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Unmarshal reads into an incoming, and into nothing else: no request gets
// past the strict reader.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return fmt.Errorf("server: a %T was to be received without the strict reader", v)
	}
	in.read(data.Len(), func() error {
		buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer buf.Free()
		return unmarshal(buf.ReadOnlyData(), in.message)
	})
	return nil
}

// read reads a message of so many bytes, when it may.
func (in *incoming) read(size int, unmarshal func() error) {
	if in.begin != nil {
		if in.fault = in.begin(size); in.fault != nil {
			return
		}
	}
	in.fault = unmarshal()
}

// unmarshal reads m strictly.
func unmarshal(data []byte, m proto.Message) error {
	desc := m.ProtoReflect().Descriptor()
	if err := checkWire(data, desc, 0); err != nil {
		return err
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return malformedMessage(desc)
	}
	return nil
}

// checkWire reads the bytes of one message against its descriptor. It refuses
// what a Protobuf decoder drops or overwrites in silence: a field that the
// message does not declare or declares with another wire type, also within a
// map's entry; a single field, a oneof or a map's key given twice. It also
// refuses a google.protobuf.Any, into which nobody here could look.
//
// Everything that passes nests no deeper than maxNesting.
func checkWire(data []byte, desc protoreflect.MessageDescriptor, depth int) error {
	if depth > maxNesting {
		return malformedMessage(desc)
	}
	fields := desc.Fields()
	var few [1]uint64
	seen := few[:]
	if n := fields.Len(); n > 64 {
		seen = make([]uint64, (n+63)/64)
	}
	var keys map[mapKey]struct{}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return malformedMessage(desc)
		}
		data = data[n:]
		field := fields.ByNumber(number)
		if field == nil || !fits(field, wire) {
			return unknownField(desc, number)
		}
		if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
			return malformedMessage(desc)
		}
		value := data[:n]
		data = data[n:]
		if !field.IsList() && !field.IsMap() {
			i := slot(field)
			if seen[i/64]&(1<<(i%64)) != 0 {
				return duplicateField(desc, number)
			}
			seen[i/64] |= 1 << (i % 64)
		}
		message := field.Message()
		if message == nil {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		if message.FullName() == "google.protobuf.Any" {
			return unknownField(desc, number)
		}
		if err := checkWire(value, message, depth+1); err != nil {
			return err
		}
		if field.IsMap() {
			key := mapKey{number, entryKey(value)}
			if _, again := keys[key]; again {
				return duplicateField(desc, number)
			}
			if keys == nil {
				keys = make(map[mapKey]struct{})
			}
			keys[key] = struct{}{}
		}
	}
	return nil
}

// mapKey is one key of one map field, as its bytes on the wire.
type mapKey struct {
	field protowire.Number
	key   string
}

// slot numbers what may be given once: a field, or all fields of a oneof.
func slot(field protoreflect.FieldDescriptor) int {
	if one := field.ContainingOneof(); one != nil {
		return one.Fields().Get(0).Index()
	}
	return field.Index()
}

// fits reports whether a value of this wire type can be field's. Groups fit
// nothing.
func fits(field protoreflect.FieldDescriptor, wire protowire.Type) bool {
	var want protowire.Type
	switch field.Kind() {
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Uint32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind:
		want = protowire.VarintType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		want = protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		want = protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return wire == protowire.BytesType
	default:
		return false
	}
	return wire == want || field.IsList() && wire == protowire.BytesType // packed
}

// entryKey returns the key of a map's entry that checkWire has passed: a
// string's text, which is "" where it is absent, or another key's bytes.
func entryKey(entry []byte) string {
	for len(entry) > 0 {
		number, wire, n := protowire.ConsumeTag(entry)
		size := protowire.ConsumeFieldValue(number, wire, entry[n:])
		if number == 1 {
			key := entry[n : n+size]
			if wire == protowire.BytesType {
				key, _ = protowire.ConsumeBytes(key)
			}
			return string(key)
		}
		entry = entry[n+size:]
	}
	return ""
}

func malformedMessage(desc protoreflect.MessageDescriptor) error {
	return refuse(ReasonMalformedRequest, fmt.Sprintf("the bytes are not a valid %s", desc.FullName()))
}

func unknownField(desc protoreflect.MessageDescriptor, number protowire.Number) error {
	return fieldRefusal(ReasonUnknownFields, desc, number,
		fmt.Sprintf("%s has no field %d of this type here: send only what this server's API declares", desc.FullName(), number))
}

func duplicateField(desc protoreflect.MessageDescriptor, number protowire.Number) error {
	return fieldRefusal(ReasonDuplicateFields, desc, number,
		fmt.Sprintf("field %d of %s is given twice: send it once", number, desc.FullName()))
}

func fieldRefusal(reason Reason, desc protoreflect.MessageDescriptor, number protowire.Number, message string) error {
	return &refusal{reason: reason, message: message, metadata: map[string]string{
		"message": string(desc.FullName()), "field": strconv.Itoa(int(number)),
	}}
}
