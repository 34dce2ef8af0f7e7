package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/canon"
)

// logLine is what is read of a record to find and to show it.
type logLine struct {
	Index          uint64    `json:"index"`
	Time           time.Time `json:"time"`
	Kind           string    `json:"kind"`
	ID             string    `json:"id"`
	TraceID        string    `json:"trace_id"`
	Caller         string    `json:"caller"`
	RequestID      string    `json:"request_id"`
	Subject        string    `json:"subject"`
	Principal      string    `json:"principal"`
	Actors         []string  `json:"actors"`
	Server         string    `json:"server"`
	Tool           string    `json:"tool"`
	Resources      []string  `json:"resources"`
	Outcome        string    `json:"outcome"`
	Code           string    `json:"code"`
	Policies       []string  `json:"policies"`
	CallDigest     string    `json:"call_digest"`
	ProposalDigest string    `json:"proposal_digest"`
	Revision       string    `json:"revision"`
	Faults         []string  `json:"faults"`
	Revoked        *struct {
		Kind, Issuer, ID, Reason string
		Lift                     bool
		IssuedBefore             string `json:"issued_before"`
		From, Until              string
	} `json:"revoked"`
}

// filterFlags choose records. All that are given must hold.
type filterFlags struct {
	Kind      []string `help:"decision, explanation, redemption, approval, effect, revocation, reload, start or stop; may be repeated." placeholder:"KIND" group:"Which records"`
	Principal string   `help:"For whom: a Cedar entity as the record has it, or a subject." placeholder:"NAME" group:"Which records"`
	Actor     string   `help:"Who acted: a Cedar entity as the record has it." placeholder:"NAME" group:"Which records"`
	Caller    string   `help:"The caller's name." placeholder:"NAME" group:"Which records"`
	Tool      string   `help:"SERVER/TOOL, or TOOL of any server, or SERVER/ for all of its tools." group:"Which records"`
	Code      []string `help:"The answer's code, such as NO_PERMIT; may be repeated." placeholder:"CODE" group:"Which records"`
	Resource  string   `help:"What the call is about: a Cedar entity. A secret one is found by the log's key, so only where that can be read." placeholder:"NAME" group:"Which records"`
	Outcome   string   `help:"ALLOW, DENY or REVIEW_REQUIRED." group:"Which records"`
	Policy    string   `help:"A policy that decided." placeholder:"ID" group:"Which records"`
	Since     string   `help:"A time (RFC 3339), or how long ago (2h)." placeholder:"TIME" group:"Which records"`
	Until     string   `help:"A time, or how long ago." placeholder:"TIME" group:"Which records"`
	Trace     string   `help:"The W3C trace id of the call." placeholder:"ID" group:"Which records"`
	Decision  string   `help:"The decision's id." placeholder:"ID" group:"Which records"`
	Request   string   `help:"The proposal's request id." placeholder:"ID" group:"Which records"`
	Call      string   `help:"The call's, or the proposal's, digest (sha256:…): found by the log's key, so only where that can be read." placeholder:"DIGEST" group:"Which records"`
}

// filter is filterFlags, read.
type filter struct {
	filterFlags
	since, until time.Time
	call         string   // as records have it
	secret       string   // the resource, as records have a secret one
	needles      [][]byte // each is part of every record that matches
}

func (f filterFlags) filter(dir string) (*filter, error) {
	out := &filter{filterFlags: f}
	for _, k := range f.Kind {
		if !slices.Contains(audit.Kinds[:], audit.Kind(k)) {
			return nil, usage(fmt.Sprintf("there is no kind %q of record: it is one of %s", k, strings.Trim(fmt.Sprint(audit.Kinds), "[]")))
		}
	}
	now := time.Now()
	var err error
	if out.since, err = ago("--since", f.Since, now); err != nil {
		return nil, err
	}
	if out.until, err = ago("--until", f.Until, now); err != nil {
		return nil, err
	}
	outcomes := []string{"", writ.Allow.String(), writ.Deny.String(), writ.ReviewRequired.String()}
	if !slices.Contains(outcomes, f.Outcome) {
		return nil, usage(fmt.Sprintf("there is no outcome %q: it is one of %s", f.Outcome, strings.Join(outcomes[1:], ", ")))
	}
	if err := out.underKey(dir); err != nil {
		return nil, err
	}
	// What JSON writes as it is finds most others without reading them.
	for _, text := range []string{f.Trace, f.Decision, out.call} {
		if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			out.needles = append(out.needles, []byte(text))
		}
	}
	return out, nil
}

// underKey finds what records have in place of a digest, or of a secret
// resource.
func (f *filter) underKey(dir string) error {
	if f.Call == "" && f.Resource == "" {
		return nil
	}
	if f.Call != "" {
		if _, err := canon.ParseDigest(f.Call); err != nil {
			return usage(fmt.Sprintf("--call: %v: it is the call_digest of an answer, as pdp decide --json prints it", err))
		}
	}
	file := filepath.Join(dir, audit.HMACFile)
	key, err := os.ReadFile(file)
	if f.Call == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return nil // it may be told in clear
	}
	if err != nil {
		return fmt.Errorf("a call's digest is found by the log's key only, on the machine that has it: %w", err)
	}
	for text, keyed := range map[string]*string{f.Call: &f.call, f.Resource: &f.secret} {
		if text == "" {
			continue
		}
		if *keyed, err = audit.HMAC(key, text); err != nil {
			return fmt.Errorf("%s: %w: put the log's own key back", file, err)
		}
	}
	return nil
}

// ago reads a time, or how long ago.
func ago(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, usage(fmt.Sprintf("%s %q is neither a time such as 2026-12-01T08:00:00Z nor how long ago, such as 2h", flag, text))
}

// read returns the record if it matches.
func (f *filter) read(leaf []byte) (*logLine, error) {
	for _, n := range f.needles {
		if !bytes.Contains(leaf, n) {
			return nil, nil
		}
	}
	r := &logLine{}
	if err := json.Unmarshal(leaf, r); err != nil {
		return nil, fmt.Errorf("a record that can't be read: run pdp audit verify: %w", err)
	}
	is := func(want, have string) bool { return want == "" || want == have }
	ok := (len(f.Kind) == 0 || slices.Contains(f.Kind, r.Kind)) &&
		(len(f.Code) == 0 || slices.Contains(f.Code, r.Code)) &&
		(f.Principal == "" || f.Principal == r.Principal || f.Principal == r.Subject) &&
		(f.Actor == "" || slices.Contains(r.Actors, f.Actor)) &&
		(f.Resource == "" || slices.Contains(r.Resources, f.Resource) || f.secret != "" && slices.Contains(r.Resources, f.secret)) &&
		(f.Policy == "" || slices.Contains(r.Policies, f.Policy)) &&
		(f.since.IsZero() || !r.Time.Before(f.since)) && (f.until.IsZero() || r.Time.Before(f.until)) &&
		(f.call == "" || f.call == r.CallDigest || f.call == r.ProposalDigest) &&
		is(f.Caller, r.Caller) && is(f.Outcome, r.Outcome) && is(f.Trace, r.TraceID) && is(f.Decision, r.ID) && is(f.Request, r.RequestID) &&
		f.tool(r)
	if !ok {
		return nil, nil
	}
	return r, nil
}

func (f *filter) tool(r *logLine) bool {
	server, tool, both := strings.Cut(f.Tool, "/")
	switch {
	case f.Tool == "":
		return true
	case !both:
		return r.Tool == f.Tool
	}
	return r.Server == server && (tool == "" || r.Tool == tool)
}

// String shows a record in one line.
func (r *logLine) String() string {
	line := fmt.Sprintf("%d  %s  ", r.Index, r.Time.UTC().Format("2006-01-02T15:04:05.000Z"))
	switch audit.Kind(r.Kind) {
	case audit.KindDecision, audit.KindExplanation, audit.KindRedemption, audit.KindApproval, audit.KindEffect:
		line += r.Outcome
		if r.Code != r.Outcome {
			line += " " + r.Code
		}
		if r.Kind == string(audit.KindExplanation) {
			line += " (explained)"
		} else if r.Kind != string(audit.KindDecision) {
			line += " (" + r.Kind + ")"
		}
		line += fmt.Sprintf("  %s/%s", r.Server, r.Tool)
		if who := r.Principal; who != "" {
			line += " for " + who
		} else if r.Subject != "" {
			line += " for " + r.Subject
		}
		if len(r.Resources) > 0 {
			line += " on " + r.Resources[0]
			if n := len(r.Resources) - 1; n > 0 {
				line += fmt.Sprintf(" and %d more", n)
			}
		}
		line += fmt.Sprintf("  %s by %s", r.ID, r.Caller)
	case audit.KindRevocation:
		if v := r.Revoked; v != nil {
			verb := "revoked"
			if v.Lift {
				verb = "lifted"
			}
			line += strings.Join(slices.DeleteFunc([]string{verb, v.Kind, v.Issuer, v.ID}, func(s string) bool { return s == "" }), " ")
			for _, t := range [][2]string{{"issued before", v.IssuedBefore}, {"from", v.From}, {"until", v.Until}} {
				if t[1] != "" {
					line += " " + t[0] + " " + t[1]
				}
			}
			line += "  " + v.Reason
		}
	case audit.KindReload, audit.KindStart, audit.KindStop:
		line += r.Kind + "  " + r.Revision
		if len(r.Faults) > 0 {
			line += "  refused: " + r.Faults[0]
		}
	default:
		line += r.Kind
	}
	// What people wrote into it must not move the terminal's cursor, or hide.
	return strings.Map(func(c rune) rune {
		if c != ' ' && !unicode.IsPrint(c) {
			return '\uFFFD'
		}
		return c
	}, line)
}
