package audit

import (
	"bytes"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/writ-pdp/writ/canon"
)

// maxLeaf is how long a leaf of the log may be, in bytes: an entry of a C2SP
// tlog-tiles bundle has two bytes for its length.
const maxLeaf = 1<<16 - 1

// maxBody bounds what appendJSON appends: room is left for the version and the
// index before it.
const maxBody = maxLeaf - 64

// A record that is too long even without values keeps the first few of each
// list and the beginning of each text: at most 6 bytes come of one.
const (
	shortText = 128 // bytes
	shortList = 8
)

// extent says how much of a record is told.
type extent struct {
	resources int  // how many bytes they may take
	values    bool // resources, arguments and evidence are told
	short     bool // texts and lists are cut
}

// appendJSON appends r as the members of a JSON object that follow version and
// index, with a comma before the first, and the object's end. It is the
// Protobuf JSON mapping of writ.audit.v1.Record, with the names of the proto
// file. It never fails, and never appends more than maxBody bytes: where r is
// longer, first resources are left out from the end; if that does not do, all
// values, and then the rest is cut. Without a key nothing is told that belongs
// under one, and no value.
func (r *Record) appendJSON(b []byte, key *hmacKey) []byte {
	start := len(b)
	e := extent{resources: maxBody, values: !r.Redacted && key != nil}
	b, resources := r.appendExtent(b, key, e)
	over := len(b) - start - maxBody
	if over <= 0 {
		return b
	}
	const toldLeftOut = len(`,"resources_left_out":4294967295`)
	if e.resources = resources - over - toldLeftOut; e.values && e.resources >= 0 {
		b, _ = r.appendExtent(b[:start], key, e)
		return b
	}
	if b, _ = r.appendExtent(b[:start], key, extent{}); len(b)-start > maxBody {
		b, _ = r.appendExtent(b[:start], key, extent{short: true})
	}
	return b
}

// appendExtent appends as much of r as e says, and returns also how many bytes
// of that are resources.
func (r *Record) appendExtent(b []byte, key *hmacKey, e extent) (_ []byte, resources int) {
	a := appender{b: append(b, `,"time":`...), key: key, extent: e}
	a.instant(r.Time)
	a.text("kind", string(r.Kind))
	a.text("id", r.ID)
	a.text("trace_id", r.TraceID)
	a.text("caller", r.Caller)
	a.text("request_id", r.RequestID)
	a.text("issuer", r.Issuer)
	a.text("subject", r.Subject)
	a.text("tenant", r.Tenant)
	a.text("principal", r.Principal)
	a.texts("actors", r.Actors)
	a.text("server", r.Server)
	a.text("tool", r.Tool)
	a.text("action", r.Action)
	a.text("effect", string(r.Effect))
	resources = a.resources(r)
	if e.values {
		a.arguments(r.Arguments)
		a.evidence(r.Evidence)
	}
	if r.Kind.Answers() {
		a.text("outcome", r.Outcome.String())
	}
	a.text("code", string(r.Code))
	a.text("control", string(r.Control))
	a.texts("policies", r.Policies)
	a.texts("errors", r.Errors)
	a.text("explanation", r.Explanation)
	a.text("contract_digest", r.ContractDigest)
	a.keyed("call_digest", r.CallDigest)
	a.keyed("proposal_digest", r.ProposalDigest)
	a.keyed("review_digest", r.ReviewDigest)
	a.text("policy_digest", r.PolicyDigest)
	a.keyed("token_digest", r.TokenDigest)
	a.text("revision", r.Revision)
	a.time("heard_at", r.HeardAt)
	a.stages(&r.Took)
	a.text("grant", r.Grant)
	a.text("redemption", r.Redemption)
	a.text("review", r.Review)
	a.texts("approvals", r.Approvals)
	a.text("approver_issuer", r.ApproverIssuer)
	a.text("approver_subject", r.ApproverSubject)
	a.text("approver_tenant", r.ApproverTenant)
	a.text("effect_id", r.EffectID)
	a.text("observer", r.Observer)
	a.keyed("retries_digest", r.RetriesDigest)
	a.revoked(r.Revoked)
	a.texts("faults", r.Faults)
	if !e.values {
		a.b = append(a.b, `,"redacted":true`...)
	}
	return append(a.b, '}'), resources
}

// appender appends members to a JSON object.
type appender struct {
	b   []byte
	key *hmacKey // nil: none
	extent
}

// name appends a member's name, and a comma before it unless it is the first of
// its object.
func (a *appender) name(name string) {
	if a.b[len(a.b)-1] != '{' {
		a.b = append(a.b, ',')
	}
	a.b = append(a.b, '"')
	a.b = append(a.b, name...)
	a.b = append(a.b, `":`...)
}

// next appends the comma between the elements of an array.
func (a *appender) next() {
	if a.b[len(a.b)-1] != '[' {
		a.b = append(a.b, ',')
	}
}

func (a *appender) text(name, s string) {
	if s != "" {
		a.name(name)
		a.string(s)
	}
}

// keyed appends a text under the key, if there is one.
func (a *appender) keyed(name, s string) {
	if s != "" && a.key != nil {
		a.name(name)
		a.secret(s)
	}
}

func (a *appender) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	if a.short && len(list) > shortList {
		list = list[:shortList]
	}
	a.name(name)
	a.b = append(a.b, '[')
	for _, s := range list {
		a.next()
		a.string(s)
	}
	a.b = append(a.b, ']')
}

// resources appends as many resources as may be told, and how many are not. It
// returns how many bytes they take.
func (a *appender) resources(r *Record) int {
	told, start := 0, len(a.b)
	if a.values && len(r.Resources) > 0 {
		a.name("resources")
		a.b = append(a.b, '[')
		for _, s := range r.Resources {
			end := len(a.b)
			a.next()
			if r.SecretResources {
				a.secret(s)
			} else {
				a.string(s)
			}
			if len(a.b)-start >= a.extent.resources { // with the bracket
				a.b = a.b[:end]
				break
			}
			told++
		}
		a.b = append(a.b, ']')
		if told == 0 {
			a.b = a.b[:start]
		}
	}
	size := len(a.b) - start
	if left := r.ResourcesLeftOut + len(r.Resources) - told; left > 0 {
		a.name("resources_left_out")
		a.b = strconv.AppendUint(a.b, uint64(min(left, math.MaxUint32)), 10)
	}
	return size
}

func (a *appender) arguments(list []Argument) {
	if len(list) == 0 {
		return
	}
	a.name("arguments")
	a.b = append(a.b, '{')
	for i, argument := range list {
		if named(list[:i], argument.Pointer) {
			continue // a map holds each key once
		}
		if i > 0 {
			a.b = append(a.b, ',')
		}
		a.string(argument.Pointer)
		a.b = append(a.b, ':')
		a.string(argument.JSON)
	}
	a.b = append(a.b, '}')
}

// named reports whether one of list has a pointer that reads like this one.
func named(list []Argument, pointer string) bool {
	for i := range list {
		if list[i].Pointer == pointer || valid(list[i].Pointer) == valid(pointer) {
			return true
		}
	}
	return false
}

func (a *appender) evidence(list []EvidenceRef) {
	if len(list) == 0 {
		return
	}
	a.name("evidence")
	a.b = append(a.b, '[')
	for i := range list {
		e := &list[i]
		a.next()
		a.b = append(a.b, '{')
		a.text("argument", e.Argument)
		a.text("kind", e.Kind)
		if e.Secret {
			a.keyed("reference", e.Reference)
		} else {
			a.text("reference", e.Reference)
		}
		a.b = append(a.b, '}')
	}
	a.b = append(a.b, ']')
}

func (a *appender) stages(s *Stages) {
	if s.Wait <= 0 && s.Decide <= 0 {
		return
	}
	a.name("micros")
	a.b = append(a.b, '{')
	for _, stage := range [...]struct {
		name string
		took time.Duration
	}{{"wait", s.Wait}, {"decide", s.Decide}} {
		if stage.took > 0 {
			a.name(stage.name)
			a.b = strconv.AppendInt(a.b, min(stage.took.Microseconds(), math.MaxUint32), 10)
		}
	}
	a.b = append(a.b, '}')
}

func (a *appender) revoked(r *Revoked) {
	if r == nil {
		return
	}
	a.name("revoked")
	a.b = append(a.b, '{')
	if r.Sequence > 0 {
		a.name("sequence")
		a.b = strconv.AppendUint(a.b, r.Sequence, 10)
	}
	a.text("kind", r.Kind)
	a.text("issuer", r.Issuer)
	a.text("id", r.ID)
	if r.Lift {
		a.name("lift")
		a.b = append(a.b, "true"...)
	}
	a.time("issued_before", r.IssuedBefore)
	a.time("from", r.From)
	a.time("until", r.Until)
	a.text("reason", r.Reason)
	a.text("author", r.Author)
	a.b = append(a.b, '}')
}

// secret appends a text under the key, as a string. There is a key wherever
// values are told.
func (a *appender) secret(s string) {
	a.b = append(a.b, '"')
	a.b = a.key.appendText(a.b, s)
	a.b = append(a.b, '"')
}

// string keeps the file JSON and fit to be read at a terminal, whatever the
// text: what is not printable is escaped.
func (a *appender) string(s string) {
	if a.short && len(s) > shortText {
		n := shortText
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if plain(s) {
		a.b = append(append(append(a.b, '"'), s...), '"')
		return
	}
	start := len(a.b)
	a.b = canon.AppendString(a.b, valid(s))
	if ascii(a.b[start:]) || !bytes.ContainsFunc(a.b[start:], unprintable) {
		return
	}
	text := string(a.b[start:])
	a.b = a.b[:start]
	for _, r := range text {
		switch {
		case !unprintable(r):
			a.b = utf8.AppendRune(a.b, r)
		case r <= 0xFFFF:
			a.escape(r)
		default:
			high, low := utf16.EncodeRune(r)
			a.escape(high)
			a.escape(low)
		}
	}
}

// escape appends one UTF-16 code unit.
func (a *appender) escape(unit rune) {
	a.b = append(a.b, '\\', 'u')
	a.b = hex.AppendEncode(a.b, []byte{byte(unit >> 8), byte(unit)})
}

// valid is s in UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

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

// ascii reports whether b, in which controls are escaped, is printable ASCII.
func ascii(b []byte) bool {
	for _, c := range b {
		if c > '~' {
			return false
		}
	}
	return true
}

// unprintable is true of what a terminal may obey or hide: controls beyond those
// that JSON escapes anyway, and formatting characters such as those that change
// the direction of text.
func unprintable(r rune) bool { return r > '~' && !unicode.IsPrint(r) }
