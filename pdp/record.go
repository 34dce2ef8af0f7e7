package pdp

import (
	"context"
	"strings"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
)

// record is what the log keeps of one decision: who asked for what, what was
// answered and why, and the digests that bind it. No argument's value, no
// token and no free text of the proposer is in it.
func record(ctx context.Context, id string, now time.Time, caller *writ.Caller, p *writ.Proposal, d *writ.Decision) audit.Record {
	if p == nil {
		p = &writ.Proposal{}
	}
	return audit.Record{
		Kind: audit.KindDecision, Time: now, ID: id, RequestID: clip(p.RequestID), TraceID: traceID(ctx), Caller: caller.Name,
		Issuer: clip(p.Principal.Issuer), Subject: clip(p.Principal.Subject), Principal: d.Principal, Actors: d.Actors,
		Server: clip(d.Server), Tool: clip(d.Tool), Action: d.Action, Resources: d.Resources,
		Outcome: d.Outcome, Code: d.Code, Control: d.Control, Explanation: d.Explanation,
		Policies: ids(d.Policies), Errors: ids(d.Errors), Revision: d.Revision,
		ContractDigest: d.ContractDigest.String(), CallDigest: d.CallDigest.String(), ProposalDigest: d.ProposalDigest.String(),
		ReviewDigest: d.ReviewDigest.String(), PolicyDigest: d.PolicyDigest.String(),
	}
}

// maxRecorded bounds what a record keeps of a claim that no control has read
// yet: a malformed proposal can be full of anything.
const maxRecorded = 1024

// clip makes an unread claim fit for a record: valid UTF-8, and not too long.
func clip(s string) string {
	if len(s) > maxRecorded {
		s = s[:maxRecorded]
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
