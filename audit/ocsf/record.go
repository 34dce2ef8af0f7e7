package ocsf

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-pdp/writ/audit"
	auditv1 "github.com/writ-pdp/writ/gen/writ/audit/v1"
)

// record is a record, and what of it has no place in the event yet.
type record struct {
	*auditv1.Record
	time string // as the record has it
	rest map[string]json.RawMessage
}

// read reads a record and makes sure that it is a whole one.
func read(line []byte) (*record, error) {
	r := &record{Record: &auditv1.Record{}}
	if err := protojson.Unmarshal(line, r.Record); err != nil {
		return nil, fmt.Errorf("this is no record of the log: %w", err)
	}
	if err := json.Unmarshal(line, &r.rest); err != nil {
		return nil, fmt.Errorf("this is no record of the log: %w", err)
	}
	fields := r.ProtoReflect().Descriptor().Fields()
	for name := range r.rest { // protojson takes other spellings
		if fields.ByName(protoreflect.Name(name)) == nil {
			return nil, fmt.Errorf("this is no record of the log: it has a member %q", name)
		}
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("record %d: %w", r.Index, err)
	}
	err := json.Unmarshal(r.rest["time"], &r.time)
	r.placed("v", "index", "time", "kind", "id", "trace_id")
	return r, err
}

// check holds the record against what audit.Record demands of each kind. Which
// kinds there are is seen where they are told apart.
func (r *record) check() error {
	switch {
	case r.V != 1:
		return fmt.Errorf("its form has version %d, and this program knows 1: use a newer one", r.V)
	case r.Index > math.MaxInt64 || r.rest["index"] == nil:
		return errors.New("it has no index that a log can have")
	case r.Time == nil || r.Time.CheckValid() != nil:
		return errors.New("it has no time")
	}
	switch audit.Kind(r.Kind) {
	case audit.KindDecision, audit.KindExplanation, audit.KindRedemption, audit.KindApproval, audit.KindEffect:
		if r.Id == "" || r.Code == "" {
			return errors.New("it is an answer without id or code")
		}
	case audit.KindRevocation:
		if r.Revoked == nil {
			return errors.New("it is a revocation of nothing")
		}
	}
	return nil
}

// placed says that the event has these members of the record elsewhere.
func (r *record) placed(members ...string) {
	for _, m := range members {
		delete(r.rest, m)
	}
}

// entity takes a Cedar entity apart, as far as it is told: Type::"id". What is
// under the log's key has no type.
func entity(text string, role int) *resource {
	e := &resource{UID: text, RoleID: role, Role: roles[role]}
	kind, id, ok := strings.Cut(text, `::"`)
	if id, closed := strings.CutSuffix(id, `"`); ok && closed && kind != "" {
		e.Type = kind
		if !strings.Contains(id, `\`) { // an escaped id is told by UID only
			e.Name = id
		}
	}
	return e
}
