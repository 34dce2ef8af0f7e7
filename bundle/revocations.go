package bundle

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/revocation"
)

// readRevocations reads revocations.yaml. The order of its lines is their
// sequence.
func (b *builder) readRevocations() {
	b.revocations = &revocation.View{}
	if b.layout.revocations == nil {
		return
	}
	d := parseYAML(b.layout.revocations.Name, b.layout.revocations.Data)
	defer func() { b.faults = append(b.faults, d.faults...) }()
	var file bundlev1.RevocationsFile
	if !decode(d, &file) {
		return
	}
	var entries []revocation.Entry
	for _, in := range file.GetRevocations() {
		entries = append(entries, revocation.Entry{
			Kind: revocation.Kind(in.GetKind()), Issuer: in.GetIssuer(), ID: in.GetId(),
			IssuedBefore: timeOf(in.GetIssuedBefore()), From: timeOf(in.GetFrom()), Until: timeOf(in.GetUntil()),
			Reason: in.GetReason(), Author: in.GetAuthor(), Lift: in.GetLift(),
		})
	}
	view, err := revocation.New(entries)
	if errs, ok := errors.AsType[revocation.Errors](err); ok {
		for _, e := range errs {
			field := member(item("revocations", e.Index), e.Field)
			d.add(d.at(field), field, e.Message)
		}
	} else if err != nil {
		d.add(d.at("revocations"), "revocations", err.Error())
	}
	b.revocations, b.revoked, b.revocationFile = view, entries, d
}

// timeOf is the time of a timestamp; absent is the zero time.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
