package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// jsonCodec reads requests in JSON as strictly as codec reads binary ones, and
// writes answers in JSON.
type jsonCodec struct{}

// Name is the subtype of application/grpc+json.
func (jsonCodec) Name() string { return "json" }

// Unmarshal reads into an incoming, and into nothing else: no request gets
// past the strict reader.
func (jsonCodec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return fmt.Errorf("server: a %T was to be received without the strict reader", v)
	}
	in.read(data.Len(), func() error { return unmarshalJSON(data.Materialize(), in.message) })
	return nil
}

// Marshal writes an answer by the JSON mapping of Protobuf, without the fields
// that have their default, and without the spaces that protojson strews in at
// random.
func (jsonCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("server: an answer of type %T is not a message", v)
	}
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	text := jsontext.Value(data)
	if err := text.Compact(); err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(text)}, nil
}

// unmarshalJSON reads m strictly: as the JSON mapping of Protobuf
// (protobuf.dev/programming-guides/json) says, but for what that lets pass
// although it can be read in two ways, or is a mistake.
//
//   - The text is one object in UTF-8 without lone surrogates, with nothing
//     after it.
//   - A member that the message does not declare is refused, and so is one
//     given twice, be it as request_id and as requestId; a map's key given
//     twice; two members of one oneof.
//   - A string is a string, a number is a number, true and false are neither:
//     "1" is no number. Whole numbers are written without point and exponent.
//     Only 64-bit ones may be strings, as which the mapping writes them. An
//     enum's value is its name.
//   - null is an absent field, as in the mapping; within arrays and maps it is
//     refused.
func unmarshalJSON(data []byte, m proto.Message) error {
	desc := m.ProtoReflect().Descriptor()
	r := jsonReader{jsontext.NewDecoder(bytes.NewBuffer(data))}
	if err := r.message(desc, 0); err != nil {
		return err
	}
	if _, err := r.in.ReadToken(); err != io.EOF {
		return r.malformed("there is something after the message")
	}
	if err := protojson.Unmarshal(data, m); err != nil {
		return refuse(ReasonMalformedRequest, fmt.Sprintf("the JSON is not a valid %s", desc.FullName()))
	}
	return nil
}

// jsonReader checks one text. What it has passed nests as the messages do: a
// value that has no place is not entered.
type jsonReader struct{ in *jsontext.Decoder }

func (r jsonReader) message(desc protoreflect.MessageDescriptor, depth int) error {
	if depth > maxNesting {
		return r.malformed("messages nest too deep")
	}
	if err := r.open('{', "an object"); err != nil {
		return err
	}
	seen := make(map[int]struct{})
	for r.in.PeekKind() != '}' {
		name, err := r.in.ReadToken()
		if err != nil {
			return r.syntax(err)
		}
		field := fieldNamed(desc, name.String())
		if field == nil {
			return r.fault(ReasonUnknownFields, desc, "%s has no such field: send only what this server's API declares")
		}
		if _, again := seen[slot(field)]; again {
			return r.fault(ReasonDuplicateFields, desc, "a field of %s is given twice: send it once")
		}
		seen[slot(field)] = struct{}{}
		if err := r.field(field, depth); err != nil {
			return err
		}
	}
	return r.close()
}

// fieldNamed finds a field by either of the names that the JSON mapping gives
// it: requestId and request_id.
func fieldNamed(desc protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := desc.Fields().ByJSONName(name); f != nil {
		return f
	}
	return desc.Fields().ByTextName(name)
}

func (r jsonReader) field(field protoreflect.FieldDescriptor, depth int) error {
	if r.in.PeekKind() == 'n' {
		return r.skip()
	}
	switch {
	case field.IsList():
		if err := r.open('[', "an array"); err != nil {
			return err
		}
		for r.in.PeekKind() != ']' {
			if err := r.single(field, depth); err != nil {
				return err
			}
		}
		return r.close()
	case field.IsMap():
		if err := r.open('{', "an object"); err != nil {
			return err
		}
		for r.in.PeekKind() != '}' {
			if _, err := r.in.ReadToken(); err != nil {
				return r.syntax(err)
			}
			if err := r.single(field.MapValue(), depth); err != nil {
				return err
			}
		}
		return r.close()
	}
	return r.single(field, depth)
}

// single checks one value of a field's kind.
func (r jsonReader) single(field protoreflect.FieldDescriptor, depth int) error {
	switch kind := field.Kind(); kind {
	case protoreflect.MessageKind:
		return r.inner(field.Message(), depth)
	case protoreflect.StringKind:
		return r.leaf("a string", func(v jsontext.Value) bool { return v.Kind() == '"' })
	case protoreflect.BytesKind:
		return r.leaf("a string of base64", func(v jsontext.Value) bool { return v.Kind() == '"' })
	case protoreflect.BoolKind:
		return r.leaf("true or false", func(v jsontext.Value) bool { return v.Kind() == 't' || v.Kind() == 'f' })
	case protoreflect.EnumKind:
		return r.leaf("the name of a "+string(field.Enum().Name()), func(v jsontext.Value) bool {
			name, err := jsontext.AppendUnquote(nil, v)
			return err == nil && field.Enum().Values().ByName(protoreflect.Name(name)) != nil
		})
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		size := 64
		if kind == protoreflect.FloatKind {
			size = 32
		}
		return r.leaf("a number", func(v jsontext.Value) bool {
			_, err := strconv.ParseFloat(string(v), size)
			return v.Kind() == '0' && err == nil
		})
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return r.leaf("a whole number of 32 bits", func(v jsontext.Value) bool { return isWhole(v, true, 32) })
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return r.leaf("a whole number of 32 bits, 0 or more", func(v jsontext.Value) bool { return isWhole(v, false, 32) })
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return r.leaf("a whole number of 64 bits", func(v jsontext.Value) bool { return isWhole(v, true, 64) })
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return r.leaf("a whole number of 64 bits, 0 or more", func(v jsontext.Value) bool { return isWhole(v, false, 64) })
	default:
		return r.malformed("the field cannot be sent as JSON")
	}
}

// inner checks a message within another. Of those that the JSON mapping writes
// in forms of their own, our API has only Timestamp.
func (r jsonReader) inner(desc protoreflect.MessageDescriptor, depth int) error {
	switch {
	case desc.FullName() == "google.protobuf.Timestamp":
		return r.leaf(`a time as RFC 3339 writes it, such as "2006-01-02T15:04:05Z"`, func(v jsontext.Value) bool {
			return v.Kind() == '"' && protojson.Unmarshal(v, &timestamppb.Timestamp{}) == nil
		})
	case desc.FullName().Parent() == "google.protobuf":
		return r.malformed("the field cannot be sent as JSON")
	}
	return r.message(desc, depth+1)
}

func isWhole(v jsontext.Value, signed bool, bits int) bool {
	text := string(v)
	if v.Kind() == '"' && bits == 64 {
		text = strings.Trim(text, `"`) // an escape within is no digit
	}
	var err error
	if signed {
		_, err = strconv.ParseInt(text, 10, bits)
	} else {
		_, err = strconv.ParseUint(text, 10, bits)
	}
	return err == nil && !strings.HasPrefix(text, "+")
}

// leaf checks one value that is neither array nor object. It enters neither.
func (r jsonReader) leaf(want string, fits func(jsontext.Value) bool) error {
	if kind := r.in.PeekKind(); kind == '[' || kind == '{' {
		return r.wanted(want)
	}
	v, err := r.in.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	if !fits(v) {
		return r.malformed(want + " is wanted")
	}
	return nil
}

func (r jsonReader) open(kind jsontext.Kind, want string) error {
	switch r.in.PeekKind() {
	case kind, 0: // 0: ReadToken says what is wrong
		_, err := r.in.ReadToken()
		if err != nil {
			return r.syntax(err)
		}
		return nil
	}
	return r.wanted(want)
}

func (r jsonReader) close() error { return r.skip() }

func (r jsonReader) skip() error {
	if _, err := r.in.ReadToken(); err != nil {
		return r.syntax(err)
	}
	return nil
}

// wanted refuses the value that comes next, which has the wrong kind.
func (r jsonReader) wanted(want string) error {
	_, _ = r.in.ReadToken() // no more than its bracket, so that the pointer points there
	return r.malformed(want + " is wanted")
}

// syntax refuses what is no JSON.
func (r jsonReader) syntax(err error) error {
	where := r.in.StackPointer()
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		where = e.JSONPointer
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return refusalAt(where, ReasonDuplicateFields, "a name is given twice: send it once")
	}
	return refusalAt(where, ReasonMalformedRequest, "the text is cut off, or is not JSON in UTF-8")
}

func (r jsonReader) malformed(why string) error {
	return refusalAt(r.in.StackPointer(), ReasonMalformedRequest, why)
}

func (r jsonReader) fault(reason Reason, desc protoreflect.MessageDescriptor, why string) error {
	refused := refusalAt(r.in.StackPointer(), reason, fmt.Sprintf(why, desc.FullName()))
	refused.metadata["message"] = string(desc.FullName())
	return refused
}

// refusalAt says where, too: by a JSON Pointer (RFC 6901), cut where someone
// made it long.
func refusalAt(pointer jsontext.Pointer, reason Reason, why string) *refusal {
	const most = 128
	where := string(pointer)
	if len(where) > most {
		where = where[:most] + "…"
	}
	where = strings.ToValidUTF8(where, "�")
	if where == "" {
		return &refusal{reason: reason, message: why, metadata: make(map[string]string)}
	}
	return &refusal{reason: reason, message: "at " + where + ": " + why, metadata: map[string]string{"pointer": where}}
}
