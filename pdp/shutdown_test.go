package pdp_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/pdp"
)

// TestShutdownAmongRedemptions: while the log is being closed, whoever is let
// act, or is given a grant, is in the log on the disk, and all others are told
// that nothing could be recorded.
func TestShutdownAmongRedemptions(t *testing.T) {
	b := lab(t)
	for round := range 8 {
		dir := t.TempDir()
		log, err := audit.Open(audit.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		p := newPDP(t, log, holding(b.Snapshot))
		s := named(t, b, "small allowlisted payment")
		var answered atomic.Int64
		var given sync.Map // ids of what was answered
		var work sync.WaitGroup
		for i := range 24 {
			work.Go(func() {
				for k := range 40 {
					q := s.Proposal
					q.RequestID = fmt.Sprint("r-", i, "-", k)
					a, err := p.Decide(t.Context(), b.Snapshot.LocalHost, &q, pdp.Ask{})
					if err != nil || !a.Allowed() {
						if err != nil || a.Decision().Code != writ.CodeAuditUnavailable || a.Grant() != (pdp.Grant{}) {
							t.Errorf("%+v, %v", a.Decision(), err)
						}
						return
					}
					given.Store(a.ID(), true)
					answered.Add(1)
					r, err := p.Redeem(t.Context(), b.Snapshot.LocalServer, redemption(a.Grant(), &q))
					if err != nil || !r.MayAct() {
						if err != nil || r.Decision().Code != writ.CodeAuditUnavailable || r.IdempotencyKey() != "" {
							t.Errorf("%+v, %v", r.Decision(), err)
						}
						return
					}
					given.Store(r.ID(), true)
					answered.Add(1)
				}
			})
		}
		for deadline := time.Now().Add(time.Minute); answered.Load() < int64(20*round) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
		files, err := filepath.Glob(filepath.Join(dir, "segments", "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		var written []byte
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			written = append(written, data...)
		}
		given.Range(func(id, _ any) bool {
			if !bytes.Contains(written, []byte(`"id":"`+id.(string)+`"`)) {
				t.Errorf("round %d: %s was answered, and is not in the log", round, id)
			}
			return true
		})
	}
}
