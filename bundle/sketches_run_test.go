package bundle_test

import (
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
)

// mustPass decides every scenario of a bundle but those that differ on
// purpose, each with the code that it gets instead.
func mustPass(t *testing.T, b *bundle.Bundle, differs map[string]writ.Code) {
	t.Helper()
	answer := func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
		return decide.Decide(b.Snapshot, caller, p, now, nil)
	}
	clock := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for _, s := range b.Scenarios {
		if code, ok := differs[s.Name]; ok {
			s.Expect.Code = code
		}
		if why := s.Expect.Check(s.Run(b.Snapshot, clock, answer)); why != "" {
			t.Errorf("%s:%d: %s: %s", s.File, s.Line, s.Name, why)
		}
	}
}
