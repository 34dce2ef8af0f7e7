package etcd_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/revocation"
)

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// FuzzRecords reads what anybody may have put under the keys: nothing panics,
// and what is accepted is within its limits.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `{"generation":1}`,
		`{"generation":1,"bundle":"` + someDigest + `","files":1,"bytes":1,"pushed_at":"2026-01-01T00:00:00Z","id":"i","manifest":{"digest":"` + someDigest + `","size":0}}`,
		`{"generation":1,"generation":2}`,
		`{"generation":1e99,"id":"i"}`,
		`{"files":[]}`, `{"files":[{"name":"policies/a.cedar","digest":"` + someDigest + `","size":3}]}`,
		`{"files":[{"name":"../a","digest":"` + someDigest + `","size":3}]}`,
		`{"files":[{"name":"a","digest":"` + someDigest + `","size":-1}]}`,
		`{"files":[{"name":"b","digest":"` + someDigest + `","size":1},{"name":"a","digest":"` + someDigest + `","size":1}]}`,
		`{"id":"i","generation":1,"entries":[{"kind":"intent","id":"a","reason":"r","recorded_at":"2026-01-01T00:00:00Z"}]}`,
		`{"id":"i","generation":1,"entries":[{"kind":"intent","id":"a","lift":true,"imported":true}]}`,
		`{"id":"i","generation":1,"entries":[]}`, `{"id":"i","generation":-1,"entries":[{}]}`,
		`{"id":"i","generation":1,"entries":[{"kind":"intent","id":"a","from":"99999-01-01T00:00:00Z"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if g, err := etcd.ParseGeneration(data); err == nil && (g.Number == 0 || g.ID == "" || g.Manifest.Size < 0 || g.Manifest.Size > 8<<20) {
			t.Errorf("accepted %+v", g)
		}
		if files, size, err := etcd.ParseManifest(data); err == nil && (files > bundle.MaxFiles || size < 0 || size > 256<<20) {
			t.Errorf("accepted %d files of %d bytes", files, size)
		}
		entries, again, err := etcd.ParseBatch(7, data)
		if err != nil {
			return
		}
		if len(entries) == 0 || entries[0].Sequence != 7 {
			t.Errorf("accepted %+v", entries)
		}
		if _, err := revocation.New(entries); err != nil {
			return // what an entry says is checked there
		}
		same, _, err := etcd.ParseBatch(7, again)
		if err != nil || len(same) != len(entries) {
			t.Fatalf("%s is not read again: %v", again, err)
		}
		_, third, err := etcd.ParseBatch(7, again)
		if err != nil || !bytes.Equal(third, again) {
			t.Errorf("%s is written otherwise: %s", again, third)
		}
	})
}

// FuzzState applies a key and its value as an event.
func FuzzState(f *testing.F) {
	f.Add("source", "abcd")
	f.Add("source", "AB")
	f.Add("current", `{"generation":1}`)
	f.Add("sequence", "0")
	f.Add("sequence", "1 i")
	f.Add("sequence", "18446744073709551615")
	f.Add("revocations/00000000000000000001", `{"id":"i","generation":0,"entries":[{"kind":"intent","id":"a"}]}`)
	f.Add("revocations/1", `{}`)
	f.Add("revocations/", ``)
	f.Add("strange", ``)
	f.Fuzz(func(t *testing.T, key, value string) {
		s := etcd.NewState("/writ/")
		batches, err := s.Apply(1, "/writ/state/"+key, value)
		if err == nil && (batches > 0 || s.Sequence() > 0) {
			t.Errorf("the log grows by one key alone: %q %q", key, value)
		}
		if err == nil && key != "source" && key != "current" && key != "sequence" {
			t.Errorf("the key %q passes", key)
		}
		if err != nil && !strings.Contains(err.Error(), "/writ/state/") {
			t.Errorf("the error doesn't name the key: %v", err)
		}
	})
}
