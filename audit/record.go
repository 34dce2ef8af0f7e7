package audit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// Kind says what a record is about. Kinds are append-only.
type Kind string

// Kinds.
const (
	KindDecision    Kind = "decision"    // an answer to a proposal
	KindExplanation Kind = "explanation" // what such an answer would be and why; no authority to act
	KindStart       Kind = "start"       // a process started to answer
	KindStop        Kind = "stop"        // it stopped in good order
)

// maxRecord bounds one line, in bytes. The longest that a proposal within its
// own bounds can cause has 256 resources, each a path of 4096 bytes.
const maxRecord = 2 << 20

// usualRecord is what most records fit in.
const usualRecord = 1536

// Record is one line of the log. Each field is the member that it names in
// lower case and underscores (RequestID is request_id); what is empty is left
// out. Text that is not UTF-8 has U+FFFD in place of each bad run of bytes.
type Record struct {
	Time time.Time // of the event, by the server's clock; required; RFC 3339 in UTC
	Kind Kind      // required
	ID   string    // of the decision; required for decisions and explanations

	Caller    string   // name of the caller
	RequestID string   // of the proposal
	TraceID   string   // W3C trace id of the call, as the caller or this process began it: 32 lower-case hexadecimal digits; empty: not traced
	Issuer    string   // of the principal, as the proposal claims
	Subject   string   // of the principal, as the proposal claims
	Principal string   // Cedar entity, as text; empty where the token did not establish it
	Actors    []string // Cedar entities, as text
	Server    string
	Tool      string
	Action    string   // Cedar action id
	Resources []string // Cedar entities, as text

	Outcome     writ.Outcome // written for decisions and explanations only
	Code        writ.Code    // required for decisions and explanations
	Control     writ.Control
	Policies    []string // ids of the determining policies
	Errors      []string // ids of the policies that could not be evaluated
	Explanation string   // for people, without argument values

	// Digests, as text: "sha256:…".
	ContractDigest string
	CallDigest     string
	ProposalDigest string
	ReviewDigest   string
	PolicyDigest   string

	Revision string // of the snapshot
}

// check says what keeps r from being a record, or nil.
func (r *Record) check() error {
	switch r.Kind {
	case KindDecision, KindExplanation:
		if r.ID == "" || r.Code == "" {
			return errors.New("audit: a decision's record needs ID and Code")
		}
	case KindStart, KindStop:
	default:
		return fmt.Errorf("audit: unknown kind of record %q", string(r.Kind))
	}
	if r.Time.IsZero() {
		return errors.New("audit: a record needs its Time")
	}
	return nil
}

// appendBody appends the members of r, without the sequence before them and
// the chain after them.
func (r *Record) appendBody(b []byte) []byte {
	b = append(b, `"time":"`...)
	b = r.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = appendText(b, "kind", string(r.Kind))
	b = appendText(b, "id", r.ID)
	b = appendText(b, "caller", r.Caller)
	b = appendText(b, "request_id", r.RequestID)
	b = appendText(b, "trace_id", r.TraceID)
	b = appendText(b, "issuer", r.Issuer)
	b = appendText(b, "subject", r.Subject)
	b = appendText(b, "principal", r.Principal)
	b = appendTexts(b, "actors", r.Actors)
	b = appendText(b, "server", r.Server)
	b = appendText(b, "tool", r.Tool)
	b = appendText(b, "action", r.Action)
	b = appendTexts(b, "resources", r.Resources)
	if r.Kind == KindDecision || r.Kind == KindExplanation {
		b = appendText(b, "outcome", r.Outcome.String())
	}
	b = appendText(b, "code", string(r.Code))
	b = appendText(b, "control", string(r.Control))
	b = appendTexts(b, "policies", r.Policies)
	b = appendTexts(b, "errors", r.Errors)
	b = appendText(b, "explanation", r.Explanation)
	b = appendText(b, "contract_digest", r.ContractDigest)
	b = appendText(b, "call_digest", r.CallDigest)
	b = appendText(b, "proposal_digest", r.ProposalDigest)
	b = appendText(b, "review_digest", r.ReviewDigest)
	b = appendText(b, "policy_digest", r.PolicyDigest)
	return appendText(b, "revision", r.Revision)
}

func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(appendName(b, name), s)
}

func appendTexts(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(appendName(b, name), '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

func appendName(b []byte, name string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	return append(b, `":`...)
}

// appendString keeps the file JSON and fit to be read at a terminal, whatever
// the text: what is not printable is escaped.
func appendString(b []byte, s string) []byte {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	start := len(b)
	b = canon.AppendString(b, strings.ToValidUTF8(s, "\uFFFD"))
	if !bytes.ContainsFunc(b[start:], unprintable) {
		return b
	}
	text := string(b[start:])
	b = b[:start]
	for _, r := range text {
		switch {
		case !unprintable(r):
			b = utf8.AppendRune(b, r)
		case r <= 0xFFFF:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	return b
}

// plain reports whether s stands for itself in JSON, as nearly all texts do:
// printable ASCII with nothing to escape.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// unprintable is true of what a terminal may obey or hide: controls, and
// formatting characters such as those that change the direction of text.
func unprintable(r rune) bool { return r > unicode.MaxASCII && !unicode.IsPrint(r) }
