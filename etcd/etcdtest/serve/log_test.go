package serve_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/segment"
)

// checkLogs holds every answer that let somebody act against the logs of the
// replicas, which must have been stopped: the log of the replica that gave it
// has it, each log verifies, and no proposal has two redemptions in all of them.
func (s *system) checkLogs() (records int) {
	t := s.t
	t.Helper()
	type entry struct {
		at                *replica
		grant, redemption string
	}
	recorded := map[entry]bool{}
	redemptions := map[string]string{} // by proposal
	for _, r := range s.replicas {
		run(t, 0, "audit", "verify", "--data", r.data)
		reader, err := segment.OpenReader(filepath.Join(r.data, "log", segment.Dir), 0)
		if err != nil {
			t.Fatal(err)
		}
		for {
			_, leaf, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(leaf, []byte(`"REDEEMED"`)) {
				continue
			}
			var record struct{ Kind, ID, Code, Grant, Redemption string }
			if err := json.Unmarshal(leaf, &record); err != nil {
				t.Fatal(err)
			}
			if record.Kind != string(audit.KindRedemption) || record.Code != string(writ.CodeRedeemed) {
				continue
			}
			records++
			id := cmp.Or(record.Redemption, record.ID)
			recorded[entry{r, record.Grant, id}] = true
			of, known := s.minted[record.Grant]
			if !known {
				t.Errorf("the log of %s has a redemption of the grant %q, which nobody was given", r.name, record.Grant)
				continue
			}
			if before := redemptions[of]; before != "" && before != id {
				t.Errorf("the logs have two redemptions of %s: %s and %s", of, before, id)
			}
			redemptions[of] = id
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
	first := map[string]act{}
	for _, a := range s.acts {
		if !recorded[entry{a.at, a.grant, a.redemption}] {
			t.Errorf("%s answered that %s is redeemed as %s, and its log has no record of it", a.at.name, a.proposal, a.redemption)
		}
		before, again := first[a.proposal]
		if !again {
			first[a.proposal] = a
		} else if before.grant != a.grant || before.attempt != a.attempt || before.redemption != a.redemption || before.key != a.key {
			t.Errorf("%s was redeemed twice: %+v and %+v", a.proposal, before, a)
		}
	}
	if len(s.acts) == 0 {
		t.Error("nothing was redeemed")
	}
	return records
}
