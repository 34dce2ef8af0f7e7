// Package ocsf writes records of the log as events of the Open Cybersecurity
// Schema Framework, https://schema.ocsf.io, for SIEMs that read these.
//
// A decision is one event of the class API Activity (6003) with the profiles
// security_control and, if it was traced, trace: the API is the MCP server, the
// operation its tool, the response Writ's answer. The other records are events
// of the same class, with the activity Other and Writ itself as the API, so that
// who counts calls to a server never counts them. What the class has no place
// for keeps its name and value in unmapped: an event says all that its record
// says. docs/audit.md has the whole mapping.
//
// testdata/api_activity.json holds the facts of the published class, and the
// tests hold every event against them.
package ocsf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"

	"github.com/writ-pdp/writ/audit"
)

// Version is the version of OCSF that events follow.
const Version = "1.8.0"

// Event returns a record of the log, a line of JSON without its end, as an
// OCSF event: JSON on one line. The same record always makes the same event. A
// text that is no whole writ.audit.v1.Record of version 1, or one with a kind,
// outcome, control or effect that this package does not know, is an error.
func Event(record []byte) ([]byte, error) {
	r, err := read(record)
	if err != nil {
		return nil, fmt.Errorf("ocsf: %w", err)
	}
	e := begin(r)
	switch audit.Kind(r.Kind) {
	case audit.KindDecision:
		err = e.decision(r)
	case audit.KindExplanation:
		err = e.explanation(r)
	case audit.KindRedemption:
		err = e.answered(r, "Redeem", "Redeemed")
	case audit.KindApproval:
		err = e.answered(r, "Approve", "Approval")
	case audit.KindEffect:
		err = e.answered(r, "VerifyEffect", "Effect")
	case audit.KindRevocation:
		e.revocation(r)
	case audit.KindReload:
		e.reload(r)
	case audit.KindStart, audit.KindStop:
		e.process(r)
	default:
		err = fmt.Errorf("unknown kind of record %q", r.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("ocsf: record %d: %w", r.Index, err)
	}
	if len(r.rest) > 0 {
		e.Unmapped = r.rest
	}
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	if err := w.Encode(e); err != nil {
		return nil, fmt.Errorf("ocsf: record %d: %w", r.Index, err)
	}
	return printable(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// printable escapes what a terminal may obey, or hide, as the log does. In JSON
// such characters are only within strings.
func printable(text []byte) []byte {
	if !bytes.ContainsFunc(text, unprintable) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		switch {
		case !unprintable(r):
			out = append(out, string(r)...)
		case r <= 0xFFFF:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
	}
	return out
}

func unprintable(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }
