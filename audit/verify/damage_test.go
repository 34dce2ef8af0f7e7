package verify_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
	"github.com/writ-pdp/writ/audit/verify"
)

// edit changes a file of the log.
func edit(t testing.TB, l *treetest.Log, file string, change func([]byte) []byte) {
	t.Helper()
	name := filepath.Join(l.Dir, file)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, l *treetest.Log, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(l.Dir, file)); err != nil {
		t.Fatal(err)
	}
}

// lines changes the lines of a file, each with its end.
func lines(change func([][]byte) [][]byte) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Join(change(bytes.SplitAfter(b, []byte("\n"))), nil) }
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0x01
		return b
	}
}

const (
	segment0 = "segments/00000000000000000000.jsonl"
	segment1 = "segments/00000000000000000100.jsonl"
	segment2 = "segments/00000000000000000400.jsonl"
)

// found is a finding without its words.
type found struct {
	kind        verify.Kind
	file        string
	first, last int64 // -1 for none
}

// rewrite puts other records and their tiles in the place of a log's, and leaves
// its checkpoint.
func rewrite(t *testing.T, l *treetest.Log) {
	forged := treetest.New(t)
	forged.Append(600, 160)
	forged.Checkpoint()
	for _, dir := range []string{"tile", "segments"} {
		if err := os.RemoveAll(filepath.Join(l.Dir, dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(l.Dir, dir), os.DirFS(filepath.Join(forged.Dir, dir))); err != nil {
			t.Fatal(err)
		}
	}
}

// A finding is shown at a terminal, and whoever made a file chose its name.
func TestFindingString(t *testing.T) {
	name := "segments/\x1b[2K\rVERIFIED\u202e\x9b\n"
	f := verify.Finding{Kind: verify.ForeignFile, File: name, Reason: "is no segment"}
	if want := `foreign_file: "segments/\x1b[2K\rVERIFIED\u202e\x9b\n": is no segment`; f.String() != want {
		t.Errorf("got  %s\nwant %s", f, want)
	}
	f.File = "segments/notes and more"
	if want := `foreign_file: segments/notes and more: is no segment`; f.String() != want {
		t.Errorf("got  %s\nwant %s", f, want)
	}
}

func TestDamage(t *testing.T) {
	sound := small(t)
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, l *treetest.Log)
		want   []found
	}{
		{"a flipped byte in a record", func(t *testing.T, l *treetest.Log) { edit(t, l, segment1, flip(151*23+100)) },
			[]found{{verify.RecordChanged, segment1, 123, 123}}},
		{"in the newest record", func(t *testing.T, l *treetest.Log) { edit(t, l, segment2, flip(-20)) },
			[]found{{verify.RecordChanged, segment2, 599, 599}}},
		{"in an index", func(t *testing.T, l *treetest.Log) { edit(t, l, segment1, flip(151*23+16)) },
			[]found{{verify.RecordOutOfPlace, segment1, 123, 123}}},
		{"in the form of a record", func(t *testing.T, l *treetest.Log) { edit(t, l, segment1, flip(151*23+3)) },
			[]found{{verify.RecordBroken, segment1, 123, 123}}},
		{"in the end of a line", func(t *testing.T, l *treetest.Log) { edit(t, l, segment1, flip(151*23-1)) },
			[]found{{verify.RecordChanged, segment1, 122, 122}, {verify.RecordsMissing, segment1, 123, 123}}},
		{"in the end of a segment", func(t *testing.T, l *treetest.Log) { edit(t, l, segment0, flip(-1)) },
			[]found{{verify.RecordTorn, segment0, -1, -1}, {verify.SegmentMissing, "segments/00000000000000000099.jsonl", 99, 99}}},
		{"in the end of the log", func(t *testing.T, l *treetest.Log) { edit(t, l, segment2, flip(-1)) },
			[]found{{verify.TailMissing, segment2, 599, 599}}},
		{"swapped records", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { s[20], s[21] = s[21], s[20]; return s }))
		}, []found{{verify.RecordOutOfPlace, segment1, -1, -1}, {verify.RecordsMissing, segment1, 121, 121}}},
		{"swapped records with their indexes right", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte {
				s[20], s[21] = bytes.Replace(s[21], []byte("121"), []byte("120"), 1), bytes.Replace(s[20], []byte("120"), []byte("121"), 1)
				return s
			}))
		}, []found{{verify.RecordChanged, segment1, 120, 120}, {verify.RecordChanged, segment1, 121, 121}}},
		{"records far apart swapped", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { s[20], s[120] = s[120], s[20]; return s }))
		}, []found{{verify.RecordOutOfPlace, segment1, 120, 120}, {verify.RecordOutOfPlace, segment1, 220, 220}}},
		{"a record twice", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { return slices.Insert(s, 20, s[20]) }))
		}, []found{{verify.RecordOutOfPlace, segment1, -1, -1}}},
		{"a line too many", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { return slices.Insert(s, 20, []byte("hello\n")) }))
		}, []found{{verify.RecordBroken, segment1, -1, -1}}},
		{"an empty line", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { return slices.Insert(s, 20, []byte("\n")) }))
		}, []found{{verify.RecordBroken, segment1, -1, -1}}},
		{"a very long line", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { s[20] = append(bytes.Repeat([]byte("x"), 1<<20), '\n'); return s }))
		}, []found{{verify.RecordBroken, segment1, 120, 120}}},
		{"a record removed from the middle", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { return slices.Delete(s, 20, 21) }))
		}, []found{{verify.RecordsMissing, segment1, 120, 120}}},
		{"many removed from the middle", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { return slices.Delete(s, 20, 250) }))
		}, []found{{verify.RecordsMissing, segment1, 120, 349}}},
		{"the first of a segment removed", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { return s[1:] }))
		}, []found{{verify.RecordsMissing, segment1, 100, 100}}},
		{"the end of a segment removed", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, lines(func(s [][]byte) [][]byte { return s[:290] }))
		}, []found{{verify.SegmentMissing, "segments/00000000000000000390.jsonl", 390, 399}}},
		{"the tail removed", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment2, lines(func(s [][]byte) [][]byte { return s[:150] }))
		}, []found{{verify.TailMissing, segment2, 550, 599}}},
		{"the tail removed and torn", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment2, func(b []byte) []byte { return b[:151*150+40] })
		}, []found{{verify.TailMissing, segment2, 550, 599}}},
		{"a segment in the middle missing", func(t *testing.T, l *treetest.Log) { remove(t, l, segment1) },
			[]found{{verify.SegmentMissing, segment1, 100, 399}}},
		{"the first segment missing", func(t *testing.T, l *treetest.Log) { remove(t, l, segment0) },
			[]found{{verify.SegmentMissing, segment0, 0, 99}}},
		{"the last segment missing", func(t *testing.T, l *treetest.Log) { remove(t, l, segment2) },
			[]found{{verify.TailMissing, segment1, 400, 599}}},
		{"all segments missing", func(t *testing.T, l *treetest.Log) {
			if err := os.RemoveAll(l.Segments()); err != nil {
				t.Fatal(err)
			}
		}, []found{{verify.TailMissing, segment0, 0, 599}}},
		{"a segment renamed away", func(t *testing.T, l *treetest.Log) {
			if err := os.Rename(filepath.Join(l.Dir, segment1), filepath.Join(l.Dir, segment1+".old")); err != nil {
				t.Fatal(err)
			}
		}, []found{{verify.ForeignFile, segment1 + ".old", -1, -1}, {verify.SegmentMissing, segment1, 100, 399}}},
		{"a segment twice", func(t *testing.T, l *treetest.Log) {
			b, err := os.ReadFile(filepath.Join(l.Dir, segment1))
			if err != nil {
				t.Fatal(err)
			}
			extra := bytes.Join(bytes.SplitAfter(b, []byte("\n"))[290:], nil)
			if err := os.WriteFile(filepath.Join(l.Segments(), segment.Name(390)), extra, 0o600); err != nil {
				t.Fatal(err)
			}
		}, []found{{verify.RecordOutOfPlace, "segments/00000000000000000390.jsonl", -1, -1}}},
		{"a byte of a full tile", func(t *testing.T, l *treetest.Log) { edit(t, l, "tile/0/001", flip(5000)) },
			[]found{{verify.TileChanged, "tile/0/001", -1, -1}}},
		{"a byte of a partial tile", func(t *testing.T, l *treetest.Log) { edit(t, l, "tile/0/002.p/88", flip(5)) },
			[]found{{verify.TileChanged, "tile/0/002.p/88", -1, -1}}},
		{"a byte of the tile above", func(t *testing.T, l *treetest.Log) { edit(t, l, "tile/1/000.p/2", flip(40)) },
			[]found{{verify.TileChanged, "tile/1/000.p/2", -1, -1}}},
		{"a byte of an earlier partial tile", func(t *testing.T, l *treetest.Log) { edit(t, l, "tile/1/000.p/1", flip(0)) },
			[]found{{verify.TileChanged, "tile/1/000.p/1", -1, -1}}},
		{"a short tile", func(t *testing.T, l *treetest.Log) {
			edit(t, l, "tile/0/001", func(b []byte) []byte { return b[:8191] })
		},
			[]found{{verify.TileSize, "tile/0/001", -1, -1}}},
		{"a long tile", func(t *testing.T, l *treetest.Log) {
			edit(t, l, "tile/0/002.p/88", func(b []byte) []byte { return append(b, 0) })
		},
			[]found{{verify.TileSize, "tile/0/002.p/88", -1, -1}}},
		{"a tile missing", func(t *testing.T, l *treetest.Log) { remove(t, l, "tile/0/000") },
			[]found{{verify.TileMissing, "tile/0/000", -1, -1}}},
		{"the tile above missing", func(t *testing.T, l *treetest.Log) { remove(t, l, "tile/1/000.p/2") },
			[]found{{verify.TileMissing, "tile/1/000.p/2", -1, -1}}},
		{"a record and its tile", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, flip(151*23+100))
			edit(t, l, "tile/0/000", flip(32*7))
		}, []found{{verify.TileChanged, "tile/0/000", -1, -1}, {verify.RecordChanged, segment1, 123, 123}, {verify.RecordChanged, segment0, 7, 7}}},
		{"a record and another tile", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment1, flip(151*23+100))
			edit(t, l, "tile/0/001", flip(32*7))
		}, []found{{verify.TileChanged, "tile/0/001", -1, -1}, {verify.RecordChanged, segment1, 123, 123}}},
		{"a record and the tile above", func(t *testing.T, l *treetest.Log) {
			edit(t, l, segment2, flip(151*190+100))
			edit(t, l, "tile/1/000.p/2", flip(40))
		}, []found{{verify.TileChanged, "tile/1/000.p/2", -1, -1}, {verify.RecordChanged, segment2, 590, 590}}},
		{"no checkpoint", func(t *testing.T, l *treetest.Log) { remove(t, l, "checkpoint") },
			[]found{{verify.CheckpointMissing, "checkpoint", -1, -1}}},
		{"an empty checkpoint", func(t *testing.T, l *treetest.Log) { edit(t, l, "checkpoint", func([]byte) []byte { return nil }) },
			[]found{{verify.CheckpointBroken, "checkpoint", -1, -1}}},
		{"a changed checkpoint", func(t *testing.T, l *treetest.Log) {
			edit(t, l, "checkpoint", func(b []byte) []byte { return bytes.Replace(b, []byte("\n600\n"), []byte("\n599\n"), 1) })
		}, []found{{verify.BadSignature, "checkpoint", -1, -1}}},
		{"a checkpoint of another log", func(t *testing.T, l *treetest.Log) {
			other := treetest.NewAt(t, t.TempDir(), "other.example")
			other.Append(600, 150)
			signed := other.Checkpoint()
			edit(t, l, "checkpoint", func([]byte) []byte { return signed })
		}, []found{{verify.OtherLog, "checkpoint", -1, -1}}},
		{"another key", func(t *testing.T, l *treetest.Log) {
			signed, err := tree.Sign(l.Head(), treetest.New(t).Signer)
			if err != nil {
				t.Fatal(err)
			}
			edit(t, l, "checkpoint", func([]byte) []byte { return signed })
		}, []found{{verify.ForeignKey, "checkpoint", -1, -1}}},
		{"a log rewritten with its tiles, but not signed", rewrite, []found{{verify.RootMismatch, "checkpoint", -1, -1}}},
		{"a log rewritten with its tiles, and something beside it", func(t *testing.T, l *treetest.Log) {
			rewrite(t, l)
			edit(t, l, segment0, func(b []byte) []byte { return append([]byte("hello\n"), b...) })
			if err := os.WriteFile(filepath.Join(l.Dir, "segments", "notes"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, []found{
			{verify.ForeignFile, "segments/notes", -1, -1}, {verify.RecordBroken, segment0, -1, -1}, {verify.RootMismatch, "checkpoint", -1, -1},
		}},
		{"named pipes for tiles", func(t *testing.T, l *treetest.Log) {
			for _, tile := range []string{"tile/0/001", "tile/0/002.p/88"} {
				remove(t, l, tile)
				if err := syscall.Mkfifo(filepath.Join(l.Dir, tile), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, []found{{verify.TileSize, "tile/0/001", -1, -1}, {verify.TileSize, "tile/0/002.p/88", -1, -1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := copyOf(t, sound)
			test.damage(t, l)
			r := run(t, l, verify.Options{})
			if r.OK || r.More > 0 {
				t.Errorf("ok %t, %d more", r.OK, r.More)
			}
			var got []found
			for _, f := range r.Findings {
				g := found{f.Kind, f.File, -1, -1}
				if f.Records != nil {
					g.first, g.last = f.Records.First, f.Records.Last
				}
				got = append(got, g)
				if f.Reason == "" || strings.Contains(f.Reason, "%!") {
					t.Errorf("the reason %q", f.Reason)
				}
			}
			for _, list := range [][]found{got, test.want} {
				slices.SortFunc(list, func(a, b found) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%d findings, of which %+v\nwant  %+v\n%v", len(got), got[:min(len(got), 5)], test.want, r.Findings[:min(len(got), 5)])
			}
		})
	}
}
