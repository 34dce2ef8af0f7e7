package bundle

import (
	"slices"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// Scenario is one case of a scenario file: a call and the answer that it must
// get.
type Scenario struct {
	File  string
	Line  int // from 1
	Name  string
	About string // of the case; empty where it says nothing

	Caller   string        // a caller of the snapshot
	Now      time.Time     // of the decision; zero: the time of the run
	Proposal writ.Proposal // without approvals; see At
	// Approvers are the people who agreed. Whoever runs the scenario signs for
	// them: an approval is over the review that the decision asks for.
	Approvers []types.EntityUID
	Expect    Expectation

	tokenExpired  bool
	intentExpired bool
}

// Expectation is the answer that a scenario must get.
type Expectation struct {
	Code writ.Code
	// Policies are the @ids that must be among the determining policies;
	// empty: any.
	Policies []string
	Control  writ.Control // empty: any
	Line     int          // where it is written
}

// How old and how young the valid token and intent of a scenario are.
const (
	scenarioAge  = time.Minute
	scenarioLife = time.Hour
)

// At returns the scenario at its own time, or at clock where it has none,
// with every time filled in that it doesn't state: token and intent are a
// minute old and live an hour, evidence was observed just now. The scenario
// that it is called on stays as it is.
func (s Scenario) At(clock time.Time) Scenario {
	if s.Now.IsZero() {
		s.Now = clock
	}
	if t := s.Proposal.Token; t != nil {
		t := *t
		fill(&t.IssuedAt, s.Now.Add(-scenarioAge))
		if s.tokenExpired {
			t.ExpiresAt = s.Now.Add(-time.Second)
		}
		fill(&t.ExpiresAt, s.Now.Add(scenarioLife))
		s.Proposal.Token = &t
	}
	if in := s.Proposal.Intent; in != nil {
		in := *in
		fill(&in.DeclaredAt, s.Now.Add(-scenarioAge))
		if s.intentExpired {
			in.ExpiresAt = s.Now.Add(-time.Second)
		}
		fill(&in.ExpiresAt, s.Now.Add(scenarioLife))
		s.Proposal.Intent = &in
	}
	s.Proposal.Evidence = slices.Clone(s.Proposal.Evidence)
	for i := range s.Proposal.Evidence {
		fill(&s.Proposal.Evidence[i].ObservedAt, s.Now)
	}
	return s
}

func fill(t *time.Time, value time.Time) {
	if t.IsZero() {
		*t = value
	}
}
