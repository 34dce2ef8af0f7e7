package verifytest_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/audit/verifytest"
)

var update = flag.Bool("update", false, "write testdata/logs anew")

// vectors is where the logs are, with what a verifier must say of each.
const vectors = "testdata/logs"

// vector is one log of testdata/logs: the directory of that name.
type vector struct {
	Name      string   `json:"name"`
	About     string   `json:"about"`
	Verifier  string   `json:"verifier"`
	Witnesses []string `json:"witnesses,omitempty"`
	// Fault is the part that is wrong: checkpoint, record, root or tile; empty:
	// the log is good.
	Fault string `json:"fault,omitempty"`
	// Index is the first record that is concerned; of a checkpoint 0, of a root
	// the size.
	Index uint64 `json:"index,omitempty"`
	// Size is the checkpoint's, of a good log.
	Size uint64 `json:"size"`
	// Cosigned are the witnesses that cosigned a good log.
	Cosigned []string `json:"cosigned,omitempty"`

	make func(*world)
}

// allVectors are the logs: seven records in two segments for what is about
// records, 259 for what is about tiles.
func allVectors() []vector {
	seven := func(w *world) { w.of(7, 4) }
	tampered := func(change func(*world)) func(*world) {
		return func(w *world) { seven(w); change(w) }
	}
	tiled := func(change func(*world)) func(*world) {
		return func(w *world) { w.of(259); change(w) }
	}
	cosigned := func(signers ...signer) func(*world) {
		return func(w *world) { seven(w); w.checkpoint(text(ours.name, w.records), signers...) }
	}
	both := []string{witness.verifier(), silent.verifier()}
	return append(badVectors(tampered, tiled), []vector{
		{Name: "empty", About: "no record yet", make: func(w *world) { w.of(0) }},
		{Name: "one", About: "one record", Size: 1, make: func(w *world) { w.of(1) }},
		{Name: "seven", About: "seven records in two segments", Size: 7, make: seven},
		{Name: "full-tile", About: "256 records: a full tile, and one hash above it", Size: 256, make: func(w *world) { w.of(256, 100) }},
		{Name: "tiles", About: "259 records: a full tile, a partial one, and one hash above", Size: 259, make: func(w *world) { w.of(259) }},
		{Name: "records-after", About: "records that no checkpoint speaks for yet", Size: 7, make: tampered(func(w *world) {
			w.put(segment(4), w.get(segment(4))+record(7)+"\n"+record(8)+"\n")
		})},
		{Name: "unfinished-after", About: "a last line that is not yet finished, after what the checkpoint speaks for", Size: 7, make: tampered(func(w *world) {
			w.put(segment(4), w.get(segment(4))+record(7)[:20])
		})},
		{Name: "older-checkpoint", About: "a checkpoint of an earlier size; the tiles are ahead", Size: 5, make: tampered(func(w *world) {
			w.tiles(w.records[:5])
			w.checkpoint(text(ours.name, w.records[:5]), ours)
		})},
		{Name: "older-partial-tile", About: "a partial tile of an earlier size is still there", Size: 7, make: tampered(func(w *world) { w.tiles(w.records[:3]) })},
		{Name: "tile-unfinished", About: "what a crash left of a tile that was being written", Size: 7, make: tampered(func(w *world) { w.put("tile/0/000.p/9.new", "half") })},
		{Name: "empty-segment", About: "the next segment has no record yet", Size: 7, make: tampered(func(w *world) { w.put(segment(7), "") })},
		{Name: "extension", About: "a checkpoint with a line that says nothing to a verifier", Size: 7, make: tampered(func(w *world) {
			w.checkpoint(text(ours.name, w.records, "an extension"), ours)
		})},
		{Name: "unknown-signature", About: "a signature of an unknown key beside the log's", Size: 7, make: cosigned(foreign, ours)},
		{Name: "cosigned", About: "one of two witnesses has cosigned", Size: 7, Witnesses: both, Cosigned: []string{witness.name}, make: cosigned(ours, witness)},
	}...)
}

func badVectors(tampered, tiled func(func(*world)) func(*world)) []vector {
	return []vector{
		{Name: "flipped-byte", About: "one bit of record 2", Fault: "root", Index: 7, make: tampered(func(w *world) {
			w.flip(segment(0), strings.Index(w.get(segment(0)), record(2))+strings.Index(record(2), "start"))
		})},
		{Name: "flipped-newline", About: "the end of record 2 is no newline", Fault: "record", Index: 3, make: tampered(func(w *world) {
			w.flip(segment(0), strings.Index(w.get(segment(0)), record(3))-1)
		})},
		{Name: "swapped-records", About: "records 1 and 2 in each other's place", Fault: "record", Index: 1, make: tampered(func(w *world) {
			w.put(segment(0), strings.Join([]string{record(0), record(2), record(1), record(3)}, "\n")+"\n")
		})},
		{Name: "swapped-renumbered", About: "contents of records 1 and 2 in each other's place, under their old indexes", Fault: "root", Index: 7, make: func(w *world) {
			w.records, w.split = records(7), []int{4}
			w.records[1], w.records[2] = `{"v":1,"index":1,"kind":"a"}`, `{"v":1,"index":2,"kind":"b"}`
			w.good()
			w.records[1], w.records[2] = `{"v":1,"index":1,"kind":"b"}`, `{"v":1,"index":2,"kind":"a"}`
			w.segments()
		}},
		{Name: "removed-tail", About: "the last record is gone", Fault: "record", Index: 6, make: tampered(func(w *world) {
			w.put(segment(4), record(4)+"\n"+record(5)+"\n")
		})},
		{Name: "removed-last-segment", About: "the last segment is gone", Fault: "record", Index: 4, make: tampered(func(w *world) { w.remove(segment(4)) })},
		{Name: "torn-tail", About: "the last record is cut in its middle", Fault: "record", Index: 6, make: tampered(func(w *world) {
			w.put(segment(4), strings.TrimSuffix(w.get(segment(4)), record(6)[10:]+"\n"))
		})},
		{Name: "torn-middle", About: "half a record between two segments that are whole", Fault: "record", Index: 4, make: tampered(func(w *world) {
			w.put(segment(0), w.get(segment(0))+record(4)[:10])
		})},
		{Name: "removed-middle", About: "record 2 is gone", Fault: "record", Index: 2, make: tampered(func(w *world) {
			w.put(segment(0), strings.Replace(w.get(segment(0)), record(2)+"\n", "", 1))
		})},
		{Name: "removed-middle-renumbered", About: "record 2 is gone, and what follows is renumbered", Fault: "record", Index: 6, make: tampered(func(w *world) {
			w.records[2] = w.records[6]
			w.records, w.split = records(6), []int{4}
			w.remove(segment(4))
			w.segments()
		})},
		{Name: "removed-first-segment", About: "the first segment is gone", Fault: "record", Index: 0, make: tampered(func(w *world) { w.remove(segment(0)) })},
		{Name: "doubled-record", About: "record 2 is there twice", Fault: "record", Index: 3, make: tampered(func(w *world) {
			w.put(segment(0), strings.Replace(w.get(segment(0)), record(2)+"\n", record(2)+"\n"+record(2)+"\n", 1))
		})},
		{Name: "foreign-segment", About: "a file among the segments that is none", Fault: "record", Index: 7, make: tampered(func(w *world) {
			w.put("segments/notes.txt", "x\n")
		})},
		{Name: "oversized-record", About: "record 6 has 65,536 bytes", Fault: "record", Index: 6, make: func(w *world) {
			w.records, w.split = records(7), []int{4}
			w.records[6] = `{"v":1,"index":6,"kind":"` + strings.Repeat("x", 65536-27) + `"}`
			w.good()
		}},
		{Name: "wrong-version", About: "record 1 says another version", Fault: "record", Index: 1, make: tampered(func(w *world) {
			w.put(segment(0), strings.Replace(w.get(segment(0)), `{"v":1,"index":1,`, `{"v":2,"index":1,`, 1))
		})},
		{Name: "foreign-key", About: "the checkpoint is signed by another key under the log's name", Fault: "checkpoint", make: tampered(func(w *world) {
			w.checkpoint(text(ours.name, w.records), signer{ours.name, 1, foreign.key})
		})},
		{Name: "wrong-signature", About: "one bit of the signature", Fault: "checkpoint", make: tampered(func(w *world) {
			note := w.get("checkpoint")
			at := len(note) - 40
			swap := "A"
			if note[at] == 'A' {
				swap = "B"
			}
			w.put("checkpoint", note[:at]+swap+note[at+1:])
		})},
		{Name: "other-checkpoint", About: "the checkpoint of another log with another key", Fault: "checkpoint", make: tampered(func(w *world) {
			w.checkpoint(text(foreign.name, w.records), foreign)
		})},
		{Name: "other-origin", About: "the log's key signed a checkpoint that names another log", Fault: "checkpoint", make: tampered(func(w *world) {
			w.checkpoint(text(foreign.name, w.records), ours)
		})},
		{Name: "other-tree", About: "the log's key signed another tree of the same size", Fault: "root", Index: 7, make: tampered(func(w *world) {
			other := slices.Clone(w.records)
			other[3] = `{"v":1,"index":3,"kind":"stop"}`
			w.checkpoint(text(ours.name, other), ours)
		})},
		{Name: "edited-size", About: "the checkpoint's size is changed", Fault: "checkpoint", make: tampered(func(w *world) {
			w.put("checkpoint", strings.Replace(w.get("checkpoint"), "\n7\n", "\n6\n", 1))
		})},
		{Name: "no-checkpoint", About: "there is none", Fault: "checkpoint", make: tampered(func(w *world) { w.remove("checkpoint") })},
		{Name: "wrong-cosignature", About: "a cosignature by the witness's name and ID that another key made", Fault: "checkpoint", Witnesses: []string{witness.verifier()}, make: tampered(func(w *world) {
			t := text(ours.name, w.records)
			forged := newSigner(silent.name, 4).line(t)
			_, encoded, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(forged, "\n"), "— "), " ")
			data, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				w.t.Fatal(err)
			}
			copy(data, witness.id())
			w.put("checkpoint", t+"\n"+ours.line(t)+"— "+witness.name+" "+base64.StdEncoding.EncodeToString(data)+"\n")
		})},
		{Name: "tile-flipped", About: "one bit of the hash of record 100", Fault: "tile", Index: 100, make: tiled(func(w *world) { w.flip("tile/0/000", 100*32+5) })},
		{Name: "tile-partial-flipped", About: "one bit of the hash of record 258", Fault: "tile", Index: 258, make: tiled(func(w *world) { w.flip("tile/0/001.p/3", 2*32) })},
		{Name: "tile-above-flipped", About: "one bit of the hash over records 0 to 255", Fault: "tile", Index: 0, make: tiled(func(w *world) { w.flip("tile/1/000.p/1", 31) })},
		{Name: "tile-too-long", About: "a byte after the last hash of the tile of records 256 to 258", Fault: "tile", Index: 256, make: tiled(func(w *world) {
			w.put("tile/0/001.p/3", w.get("tile/0/001.p/3")+"\x00")
		})},
		{Name: "tile-too-short", About: "the full tile lacks its last hash", Fault: "tile", Index: 0, make: tiled(func(w *world) {
			w.put("tile/0/000", w.get("tile/0/000")[:255*32])
		})},
		{Name: "tile-wrong-width", About: "the partial tile's name says four hashes, and there are three", Fault: "tile", Index: 256, make: tiled(func(w *world) {
			data := w.get("tile/0/001.p/3")
			w.remove("tile/0/001.p/3")
			w.put("tile/0/001.p/4", data)
		})},
		{Name: "tile-missing", About: "the full tile is gone", Fault: "tile", Index: 259, make: tiled(func(w *world) { w.remove("tile/0/000") })},
		{Name: "tile-partial-missing", About: "the partial tile above is gone", Fault: "tile", Index: 259, make: tiled(func(w *world) { w.remove("tile/1/000.p/1") })},
	}
}

// build writes all vectors below dir.
func build(t *testing.T, dir string) []vector {
	t.Helper()
	all := allVectors()
	for i := range all {
		v := &all[i]
		v.Verifier = ours.verifier()
		w := &world{t: t, dir: filepath.Join(dir, v.Name)}
		w.put("verifier", v.Verifier+"\n")
		v.make(w)
	}
	slices.SortFunc(all, func(a, b vector) int { return strings.Compare(a.Name, b.Name) })
	list, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "expected.json"), append(list, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	return all
}

// read returns all files below dir.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The files are what the generator makes.
func TestVectorsAreCurrent(t *testing.T) {
	if *update {
		if err := os.RemoveAll(vectors); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(vectors, 0o755); err != nil {
			t.Fatal(err)
		}
		build(t, vectors)
	}
	fresh := t.TempDir()
	build(t, fresh)
	want, got := read(t, fresh), read(t, vectors)
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s%s is not what the generator makes: run go test ./audit/verifytest -run TestVectors -update", vectors, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s%s belongs to no vector", vectors, name)
		}
	}
}

// expected reads the list of vectors, as other programs would.
func expected(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVectors(t *testing.T) {
	for _, v := range expected(t) {
		log, err := verifytest.Verify(filepath.Join(vectors, v.Name), v.Verifier, v.Witnesses...)
		if v.Fault == "" {
			if err != nil {
				t.Errorf("%s: %v", v.Name, err)
			} else if log.Size != v.Size || !slices.Equal(log.Witnesses, v.Cosigned) {
				t.Errorf("%s: size %d, cosigned by %q", v.Name, log.Size, log.Witnesses)
			}
			continue
		}
		fault, ok := errors.AsType[*verifytest.Fault](err)
		if !ok || fault.Part != v.Fault || fault.Index != v.Index {
			t.Errorf("%s (%s): %v; want a fault of the %s at %d", v.Name, v.About, err, v.Fault, v.Index)
		}
	}
}
