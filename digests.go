package writ

import (
	"math"
	"time"

	"github.com/writ-pdp/writ/canon"
)

// The types of the digests that are made here: the "type" member of what is
// digested, so that a digest of one kind is never one of another.
const (
	callDigestType     = "writ.call.v1"
	proposalDigestType = "writ.proposal.v1"
)

// digestBuffer is what a digested object usually fits in, in bytes, so that a
// digest makes one allocation.
const digestBuffer = 1 << 10

// CallDigest is the digest of exactly one call: this tool under this contract,
// for this principal, with these arguments. It is over the RFC 8785 form of
//
//	{"type":            "writ.call.v1",
//	 "contract_digest": "sha256:…",
//	 "principal":       {"iss", "sub", "tenant"?},
//	 "tool":            …,
//	 "arguments":       {…},
//	 "extra_params":    {…}?}
//
// Members marked ? are left out where they are empty. args and extra are trees
// of [canon.Parse]; no arguments are an empty object. Without a contract's
// digest there is none of a call: the result is the zero Digest.
func CallDigest(contract canon.Digest, p Principal, tool string, args, extra map[string]any) canon.Digest {
	if contract.IsZero() {
		return canon.Digest{}
	}
	b := append(make([]byte, 0, digestBuffer), `{"arguments":`...)
	b = canon.Append(b, args)
	b = append(b, `,"contract_digest":"`...)
	b = contract.AppendText(b)
	b = append(b, '"')
	if len(extra) > 0 {
		b = append(b, `,"extra_params":`...)
		b = canon.Append(b, extra)
	}
	b = append(b, `,"principal":{"iss":`...)
	b = canon.AppendString(b, p.Issuer)
	b = append(b, `,"sub":`...)
	b = canon.AppendString(b, p.Subject)
	b = appendText(b, `,"tenant":`, p.Tenant)
	b = append(b, `},"tool":`...)
	b = canon.AppendString(b, tool)
	b = append(b, `,"type":"`+callDigestType+`"}`...)
	return canon.Sum(b)
}

// ProposalDigest is the digest of one proposal: a call, and on what grounds it
// is proposed. It is over the RFC 8785 form of
//
//	{"type":        "writ.proposal.v1",
//	 "call_digest": "sha256:…",
//	 "request_id":  …,
//	 "intent":      {"id", "purpose", "declared_at"?, "expires_at"?}?,
//	 "actors":      [{"iss"?, "sub", "claims"?}]?,
//	 "evidence":    [{"argument", "value"?, "kind", "reference"?, "classification"?,
//	                  "observed_at"?, "confidence"?, "derived_from"?}]?,
//	 "retries":     "sha256:…"?}
//
// Members marked ? are left out where they are empty, zero or nil. Times are
// RFC 3339 in UTC, with as many digits of the second's fraction as there are.
//
// Without a call's digest, or where an evidence's value is not JSON that
// [canon.Parse] reads or its confidence is not finite, there is no such object:
// the result is the zero Digest. Whoever compares digests refuses zero ones
// first.
func ProposalDigest(call canon.Digest, requestID string, intent *Intent, actors []Actor, evidence []Evidence, retries canon.Digest) canon.Digest {
	if call.IsZero() {
		return canon.Digest{}
	}
	b := append(make([]byte, 0, digestBuffer), '{')
	if len(actors) > 0 {
		b = append(b, `"actors":[`...)
		for i := range actors {
			b = appendActor(separate(b, i), &actors[i])
		}
		b = append(b, `],`...)
	}
	b = append(b, `"call_digest":"`...)
	b = call.AppendText(b)
	b = append(b, '"')
	if len(evidence) > 0 {
		b = append(b, `,"evidence":[`...)
		for i := range evidence {
			var ok bool
			if b, ok = appendEvidence(separate(b, i), &evidence[i]); !ok {
				return canon.Digest{}
			}
		}
		b = append(b, ']')
	}
	if intent != nil {
		b = append(b, `,"intent":`...)
		b = appendIntent(b, intent)
	}
	b = append(b, `,"request_id":`...)
	b = canon.AppendString(b, requestID)
	if !retries.IsZero() {
		b = append(b, `,"retries":"`...)
		b = retries.AppendText(b)
		b = append(b, '"')
	}
	b = append(b, `,"type":"`+proposalDigestType+`"}`...)
	return canon.Sum(b)
}

func appendIntent(b []byte, in *Intent) []byte {
	b = append(b, '{')
	b = appendTime(b, `"declared_at":`, in.DeclaredAt)
	b = appendTime(b, `"expires_at":`, in.ExpiresAt)
	b = append(b, `"id":`...)
	b = canon.AppendString(b, in.ID)
	b = append(b, `,"purpose":`...)
	b = canon.AppendString(b, in.Purpose)
	return append(b, '}')
}

func appendActor(b []byte, a *Actor) []byte {
	b = append(b, '{')
	if len(a.Claims) > 0 {
		claims := make(map[string]any, len(a.Claims))
		for name, value := range a.Claims {
			claims[name] = value
		}
		b = append(b, `"claims":`...)
		b = canon.Append(b, claims)
		b = append(b, ',')
	}
	if a.Issuer != "" {
		b = append(b, `"iss":`...)
		b = canon.AppendString(b, a.Issuer)
		b = append(b, ',')
	}
	b = append(b, `"sub":`...)
	b = canon.AppendString(b, a.Subject)
	return append(b, '}')
}

func appendEvidence(b []byte, e *Evidence) ([]byte, bool) {
	b = append(b, `{"argument":`...)
	b = canon.AppendString(b, e.Argument)
	b = appendText(b, `,"classification":`, e.Classification)
	if e.Confidence != 0 {
		if math.IsNaN(e.Confidence) || math.IsInf(e.Confidence, 0) {
			return b, false
		}
		b = append(b, `,"confidence":`...)
		b = canon.AppendFloat(b, e.Confidence)
	}
	if len(e.DerivedFrom) > 0 {
		b = append(b, `,"derived_from":[`...)
		for i, reference := range e.DerivedFrom {
			b = canon.AppendString(separate(b, i), reference)
		}
		b = append(b, ']')
	}
	b = append(b, `,"kind":`...)
	b = canon.AppendString(b, string(e.Kind))
	b = append(b, ',')
	b = appendTime(b, `"observed_at":`, e.ObservedAt)
	if e.Reference != "" {
		b = append(b, `"reference":`...)
		b = canon.AppendString(b, e.Reference)
		b = append(b, ',')
	}
	if len(e.ValueJSON) > 0 {
		value, err := canon.Parse(e.ValueJSON)
		if err != nil {
			return b, false
		}
		b = append(b, `"value":`...)
		b = canon.Append(b, value)
		b = append(b, ',')
	}
	b[len(b)-1] = '}' // in place of the last comma
	return b, true
}

// separate appends a comma before every element but the first.
func separate(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// appendText appends a member that is left out when it is empty. name brings
// its quotation marks, its colon and the comma before it.
func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return canon.AppendString(append(b, name...), s)
}

// appendTime appends a member that is left out when it is zero, and a comma
// after it.
func appendTime(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = append(b, name...)
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, `",`...)
}
