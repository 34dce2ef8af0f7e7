package server

import (
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/revocation"
)

// revocationFromProto reads an entry that is to be added. It checks what the
// log's own rules don't: that everything can be carried over, and that nothing
// is said that is the server's to say.
func revocationFromProto(in *writv1.Revocation) (revocation.Entry, *FieldError) {
	if in == nil {
		return revocation.Entry{}, &FieldError{"", "is missing"}
	}
	r := reader{}
	e := revocation.Entry{
		Kind: revocation.Kind(in.GetKind()), Issuer: in.GetIssuer(), ID: in.GetId(),
		IssuedBefore: r.time("issued_before", in.GetIssuedBefore()),
		From:         r.time("from", in.GetFrom()),
		Until:        r.time("until", in.GetUntil()),
		Lift:         in.GetLift(), Reason: in.GetReason(), Author: in.GetAuthor(),
	}
	switch {
	case r.fault != nil:
		return revocation.Entry{}, &FieldError{r.fault.Field, "is not a valid time"}
	case in.GetSequence() != 0:
		return revocation.Entry{}, &FieldError{"sequence", "is given by the log: leave it out"}
	case in.GetRecordedAt() != nil:
		return revocation.Entry{}, &FieldError{"recorded_at", "is given by the log: leave it out"}
	case e.Reason == "":
		return revocation.Entry{}, &FieldError{"reason", "is missing: say why, for those who will wonder"}
	}
	return e, nil
}

// revocationToProto writes an entry for the wire.
func revocationToProto(e *revocation.Entry) *writv1.Revocation {
	return &writv1.Revocation{
		Sequence: e.Sequence, Kind: string(e.Kind), Issuer: e.Issuer, Id: e.ID,
		IssuedBefore: timeToProto(e.IssuedBefore), From: timeToProto(e.From), Until: timeToProto(e.Until),
		Lift: e.Lift, Reason: e.Reason, Author: e.Author, RecordedAt: timeToProto(e.RecordedAt),
	}
}

func revocationsToProto(entries []revocation.Entry) []*writv1.Revocation {
	out := make([]*writv1.Revocation, len(entries))
	for i := range entries {
		out[i] = revocationToProto(&entries[i])
	}
	return out
}
