package pdp

import (
	"context"
	"strings"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/decide"
)

// record is what the log keeps of one decision: who asked for what, what was
// answered and why, and the digests that bind it. No argument's value is in it
// but those that the tool's contract calls loggable, no token, and no free text
// of the proposer but the names of sources.
func record(ctx context.Context, id string, s *setting, caller *writ.Caller, p *writ.Proposal, d *writ.Decision, took time.Duration) audit.Record {
	if p == nil {
		p = &writ.Proposal{}
	}
	r := audit.Record{
		Kind: audit.KindDecision, Time: s.now, ID: id, TraceID: traceID(ctx), Caller: caller.Name, RequestID: clip(p.RequestID, maxClaim),
		Issuer: clip(p.Principal.Issuer, maxClaim), Subject: clip(p.Principal.Subject, maxClaim), Tenant: clip(p.Principal.Tenant, maxClaim),
		Principal: d.Principal, Actors: d.Actors, Server: clip(d.Server, maxClaim), Tool: clip(d.Tool, maxClaim), Action: d.Action, Effect: d.Effect,
		Outcome: d.Outcome, Code: d.Code, Control: d.Control, Explanation: d.Explanation,
		Policies: ids(d.Policies), Errors: ids(d.Errors), Revision: d.Revision, HeardAt: d.HeardAt,
		ContractDigest: d.ContractDigest.String(), CallDigest: d.CallDigest.String(), ProposalDigest: d.ProposalDigest.String(),
		ReviewDigest: d.ReviewDigest.String(), PolicyDigest: d.PolicyDigest.String(),
		Took: audit.Stages{Wait: s.wait, Decide: took},
	}
	for i := range p.Approvals {
		if a := &p.Approvals[i]; !a.Forged && i < decide.MaxApprovals {
			r.Approvals = append(r.Approvals, clip(a.ID, maxName))
		}
	}
	if !p.Retries.IsZero() {
		r.RetriesDigest = p.Retries.String()
	}
	if len(p.AccessToken) > 0 {
		r.TokenDigest = canon.Sum(p.AccessToken).String()
	}
	tell(&r, s, p, d)
	return r
}

// tell adds what a contract has a say in: what the call is about, values, and
// where they were observed. Whatever goes wrong, the rest of the record stands,
// and holds nothing of these.
func tell(r *audit.Record, s *setting, p *writ.Proposal, d *writ.Decision) {
	told := false
	defer func() {
		if recover() != nil || !told {
			r.Resources, r.ResourcesLeftOut, r.Arguments, r.Evidence = nil, len(d.Resources), nil, nil
			r.Redacted = true
		}
	}()
	// Only a contract that the call was held against says what may be told.
	var held *contract.Contract
	if !d.ContractDigest.IsZero() {
		held = s.world.Contract(d.Server, d.Tool)
		r.SecretResources = held.SecretTargets()
		// These passed the tool's schema, and this digest is made of them.
		if !d.CallDigest.IsZero() {
			var ok bool
			if r.Arguments, ok = values(held.Loggable, p.ArgumentsJSON); !ok {
				return
			}
		}
	}
	r.Resources = d.Resources
	for n := len(r.Resources); n > 0 && r.Resources[n-1] == ""; n-- {
		r.Resources = r.Resources[:n-1] // TARGET ended at the one before
	}
	for i := range min(len(p.Evidence), decide.MaxEvidence) {
		e := &p.Evidence[i]
		ref := audit.EvidenceRef{
			Argument: clip(e.Argument, maxName), Kind: clip(string(e.Kind), maxName),
			Reference: e.Reference, Secret: held == nil || held.IsSecret(e.Argument),
		}
		if !ref.Secret {
			ref.Reference = clip(ref.Reference, maxName)
		}
		if r.Evidence == nil {
			r.Evidence = make([]audit.EvidenceRef, 0, len(p.Evidence))
		}
		r.Evidence = append(r.Evidence, ref)
	}
	told = true
}

// values returns what arguments hold at pointers; what is absent is left out.
func values(pointers []string, arguments []byte) (out []audit.Argument, ok bool) {
	if len(pointers) == 0 || len(arguments) == 0 {
		return nil, true
	}
	tree, err := canon.ParseObject(arguments)
	if err != nil {
		return nil, false
	}
	for _, pointer := range pointers {
		var v any = tree
		for token := range strings.SplitSeq(pointer[1:], "/") {
			object, _ := v.(map[string]any)
			v, ok = object[strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")]
			if !ok {
				break
			}
		}
		if ok {
			out = append(out, audit.Argument{Pointer: pointer, JSON: string(canon.Append(nil, v))})
		}
	}
	return out, true
}

// Bounds of what a record keeps of texts that no control has read yet, in
// bytes: a malformed proposal can be full of anything.
const (
	maxClaim = 1024
	maxName  = 256 // of a source, or of what was observed there: there are many
)

// clip makes an unread text fit for a record: valid UTF-8, and not too long.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func ids(refs []writ.PolicyRef) []string {
	if len(refs) == 0 {
		return nil
	}
	out := make([]string, len(refs))
	for i := range refs {
		out[i] = refs[i].ID
	}
	return out
}
