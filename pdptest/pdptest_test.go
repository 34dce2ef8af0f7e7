package pdptest_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdptest"
)

// TestNew: the real bundle decides, and its answers are recorded.
func TestNew(t *testing.T) {
	p := pdptest.New(t, "../examples/hello")
	for path, want := range map[string]string{"/srv/work/a.txt": "ALLOW", "/etc/passwd": "NO_PERMIT"} {
		r, err := p.Client().Decide(t.Context(), p.Call(t, `User::"me"`, "files/read_text_file", fmt.Sprintf(`{"path":%q}`, path)))
		if err != nil || r.GetDecision().GetCode() != want {
			t.Errorf("%s: %v, %v", path, r.GetDecision(), err)
		}
		records := p.Records()
		if last := records[len(records)-1]; last.ID != r.GetDecisionId() || string(last.Code) != want {
			t.Errorf("%s: recorded %+v", path, last)
		}
	}
	if p.CredentialsDir() == "" || p.Addr() == "" {
		t.Error("a client in another process finds neither address nor credentials")
	}
	request := p.Call(t, `User::"me"`, "files/read_text_file", `{"path":"/srv/work/a"}`)
	request.Proposal.Server.PackageHash = "sha256:0"
	if r, err := p.Client().Decide(t.Context(), request); err != nil || r.GetDecision().GetCode() != "SERVER_IDENTITY" {
		t.Errorf("a changed call: %v, %v", r, err)
	}
	if _, err := p.Client().Explain(t.Context(), &writv1.ExplainRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a host may not ask for explanations: %v", err)
	}
}

// TestForTest: what decides nothing says so.
func TestForTest(t *testing.T) {
	all := pdptest.AllowAllForTest(t)
	r, err := all.Client().Decide(t.Context(), all.Call(t, "", "any/tool", "{}"))
	if err != nil || r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_ALLOW || r.GetDecisionId() != "FOR-TEST" {
		t.Errorf("%v, %v", r, err)
	}
	none := pdptest.DenyAllForTest(t, writ.CodeToolRevoked)
	b, err := none.Client().DecideBatch(t.Context(), &writv1.DecideBatchRequest{Proposals: []*writv1.Proposal{{}, {}}})
	if err != nil || len(b.GetAnswers()) != 2 {
		t.Fatalf("%v, %v", b, err)
	}
	for _, a := range b.GetAnswers() {
		if d := a.GetDecision(); d.GetOutcome() != writv1.Outcome_OUTCOME_DENY || d.GetCode() != "TOOL_REVOKED" || d.GetControl() != "REVOCATION" {
			t.Errorf("%v", d)
		}
	}
}
