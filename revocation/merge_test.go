package revocation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/writ-pdp/writ/revocation"
)

// TestMerge goes through files as a server sees them, one after the other, and
// holds what each adds to the log, and which entries' lines have gone.
func TestMerge(t *testing.T) {
	revoke := func(id string) revocation.Entry { return server(id) }
	lift := func(id, reason string) revocation.Entry {
		return revocation.Entry{Kind: revocation.Server, ID: id, Lift: true, Reason: reason}
	}
	type file = []revocation.Entry
	type step struct {
		file file
		add  string // ids, a lift with - before it
		gone []uint64
	}
	a, b := revoke("a"), revoke("b")
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"nothing", []step{{nil, "", nil}}},
		{"the same file again and again", []step{{file{a, b}, "a b", nil}, {file{a, b}, "", nil}, {file{a, b}, "", nil}}},
		{"a line more", []step{{file{a}, "a", nil}, {file{a, b}, "b", nil}, {file{revoke("c"), a, b}, "c", nil}}},
		{"a line taken out stays revoked", []step{{file{a, b}, "a b", nil}, {file{b}, "", []uint64{1}}, {file{b}, "", nil}, {nil, "", []uint64{2}}}},
		{"written again it revokes again", []step{{file{a}, "a", nil}, {nil, "", []uint64{1}}, {file{a}, "a", nil}, {file{a}, "", nil}, {nil, "", []uint64{2}}}},
		{"a line twice", []step{{file{a}, "a", nil}, {file{a, a}, "a", nil}, {file{a, a}, "", nil}, {file{a}, "", []uint64{2}}, {file{a, a}, "a", nil}}},
		{"moved lines", []step{{file{a, b}, "a b", nil}, {file{b, a}, "", nil}}},
		{"another reason is another line", []step{{file{a}, "a", nil}, {file{{Kind: a.Kind, ID: "a", Reason: "other"}}, "a", []uint64{1}}}},
		{"in the order of the file", []step{{file{a, lift("a", "x"), b}, "a -a b", nil}}},
		{"a lift counts once", []step{
			{file{a, lift("a", "x")}, "a -a", nil}, {file{a}, "", []uint64{2}}, {file{a, lift("a", "x")}, "", nil}, {nil, "", []uint64{1}},
			{file{lift("a", "x")}, "", nil}, {file{lift("a", "y")}, "-a", nil},
		}},
		{"a lift written twice counts twice", []step{{file{lift("a", "x")}, "-a", nil}, {file{lift("a", "x"), lift("a", "x")}, "-a", nil}, {file{lift("a", "x"), lift("a", "x")}, "", nil}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log *revocation.View
			left := map[uint64]bool{}
			for i, s := range c.steps {
				add, gone := revocation.Merge(log, left, s.file)
				got := ""
				for _, e := range add {
					if !e.Imported || e.Sequence != 0 {
						t.Errorf("step %d adds %+v", i, e)
					}
					sign := ""
					if e.Lift {
						sign = "-"
					}
					got += " " + sign + e.ID
				}
				if want := s.add; want != "" && got != " "+want || want == "" && got != "" {
					t.Errorf("step %d adds %q, want %q", i, got, want)
				}
				if !slices.Equal(gone, s.gone) {
					t.Errorf("step %d: gone %v, want %v", i, gone, s.gone)
				}
				var err error
				if log, err = log.With(add); err != nil {
					t.Fatal(err)
				}
				for _, n := range gone {
					left[n] = true
				}
			}
		})
	}
}

// What others have added doesn't count as a line of the file.
func TestMergeOfOthers(t *testing.T) {
	log := mustNew(t, server("a"))
	if add, gone := revocation.Merge(log, nil, []revocation.Entry{server("a")}); len(add) != 1 || gone != nil {
		t.Errorf("adds %v, gone %v", add, gone)
	}
}

// No sequence of file edits, rollbacks, reloads and restarts undoes a
// revocation, wherever it came from: only a lift does that, and each only what
// came before it.
func TestNothingUndoesARevocation(t *testing.T) {
	lifted, stood := 0, 0
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 21))
		dir := t.TempDir()
		j := mustOpen(t, dir)
		var files [][]revocation.Entry // all that there have been, to roll back to
		var file []revocation.Entry
		ids := []string{"a", "b", "c"}
		want := map[string]bool{} // what must be revoked
		seen := map[string]bool{} // lines that lift
		for step := range 60 {
			id := ids[random.IntN(len(ids))]
			switch random.IntN(9) {
			case 0, 1: // a line more, at some place
				at := random.IntN(len(file) + 1)
				file = slices.Insert(slices.Clone(file), at, server(id))
			case 2: // a line less
				if len(file) > 0 {
					at := random.IntN(len(file))
					file = slices.Delete(slices.Clone(file), at, at+1)
				}
			case 3: // a rollback, or forward again
				if len(files) > 0 {
					file = files[random.IntN(len(files))]
				}
			case 4: // somebody revokes
				mustAppend(t, j, server(id))
				want[id] = true
				continue
			case 5: // somebody lifts
				if random.IntN(4) == 0 {
					mustAppend(t, j, revocation.Entry{Kind: revocation.Server, ID: id, Lift: true})
					want[id] = false
					lifted++
				}
				continue
			case 6: // a line that lifts, at the end
				if random.IntN(4) == 0 {
					file = append(slices.Clone(file), revocation.Entry{Kind: revocation.Server, ID: id, Lift: true, Reason: fmt.Sprint(step)})
				}
			case 7: // a restart
				mustClose(t, j)
				j = mustOpen(t, dir)
			case 8: // a reload
			}
			files = append(files, file)
			before := all(j.View())
			v, err := j.Import(file)
			if err != nil {
				t.Fatal(err)
			}
			after := all(v)
			if !slices.Equal(after[:len(before)], before) {
				t.Fatal("the log was rewritten")
			}
			for _, e := range after[len(before):] {
				if e.Lift {
					if seen[e.Reason] {
						t.Fatalf("seed %d, step %d: a lift counts a second time", seed, step)
					}
					seen[e.Reason] = true
				}
				want[e.ID] = !e.Lift
			}
			for id, must := range want {
				if revoked(v, id) != must {
					t.Fatalf("seed %d, step %d: %s is revoked: %t", seed, step, id, !must)
				}
				if must {
					stood++
				}
			}
		}
		mustClose(t, j)
	}
	if lifted < 20 || stood < 400 {
		t.Errorf("%d lifts, %d times revoked: too few", lifted, stood)
	}
}

// An import is durable with its notes: after a restart the same file adds
// nothing, and what has gone has gone.
func TestImportSurvives(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		file []revocation.Entry
		want uint64
	}{
		{[]revocation.Entry{server("a"), server("b")}, 2},
		{[]revocation.Entry{server("a"), server("b")}, 2},
		{[]revocation.Entry{server("b")}, 2},
		{[]revocation.Entry{server("b")}, 2},
		{[]revocation.Entry{server("a"), server("b")}, 3},
		{[]revocation.Entry{server("a"), server("b")}, 3},
	} {
		j := mustOpen(t, dir)
		v, err := j.Import(c.file)
		if err != nil || v.Sequence() != c.want || !revoked(v, "a") || !revoked(v, "b") {
			t.Errorf("step %d: sequence %d, want %d, %v", i, v.Sequence(), c.want, err)
		}
		mustClose(t, j)
	}
	j := mustOpen(t, dir)
	if _, err := j.Import([]revocation.Entry{{Sequence: 1, Kind: revocation.Server, ID: "a"}}); err == nil {
		t.Error("a numbered line is imported")
	}
	if _, err := j.Import([]revocation.Entry{{Kind: "x", ID: "a"}}); err == nil {
		t.Error("a bad line is imported")
	}
}
