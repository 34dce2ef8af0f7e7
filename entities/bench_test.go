package entities_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/entities"
)

// company writes the entity files of n users, each file below the cap. Groups
// lie in 50 departments, these in one organisation. each says how many of
// 2,000 groups a user is in, at random: with one, users share memberships; with three,
// hardly two users are in the same groups. window is put into each membership.
func company(n, each int, window string) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	var files [][]byte
	var b bytes.Buffer
	open := func() { b.WriteString("[\n") }
	end := func() {
		b.Truncate(b.Len() - 2)
		b.WriteString("\n]\n")
		files = append(files, bytes.Clone(b.Bytes()))
		b.Reset()
	}
	open()
	b.WriteString(`{"uid": {"type": "Org", "id": "acme"}, "attrs": {}, "parents": []},` + "\n")
	for i := range 50 {
		fmt.Fprintf(&b, `{"uid": {"type": "Group", "id": "department-%d"}, "attrs": {}, "parents": [{"type": "Org", "id": "acme"}]},`+"\n", i)
	}
	for i := range 2000 {
		fmt.Fprintf(&b, `{"uid": {"type": "Group", "id": "group-%d"}, "attrs": {}, "parents": [{"type": "Group", "id": "department-%d"}]},`+"\n", i, i%50)
	}
	for i := range n {
		if b.Len() > 60<<20 {
			end()
			open()
		}
		fmt.Fprintf(&b, `{"uid": {"type": "User", "id": "user-%07d"}, "attrs": {"tenant": "acme", "level": %d}, "parents": [`, i, i%9)
		for k := range each {
			if k > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, `{"type": "Group", "id": "group-%d"%s}`, k*666+random.IntN(666), window)
		}
		b.WriteString("]},\n")
	}
	end()
	return files
}

func load(tb testing.TB, files [][]byte) *entities.Store {
	var all []entities.Held
	for i, data := range files {
		held, faults := entities.Decode(fmt.Sprintf("%d.json", i), data)
		if faults != nil {
			tb.Fatal(faults)
		}
		all = append(all, held...)
	}
	s, faults := entities.New(all)
	if faults != nil {
		tb.Fatal(faults)
	}
	return s
}

const window = `, "valid": {"until": "2027-01-01T00:00:00Z"}`

// BenchmarkLoad reads and joins a million users; B/entity is what stays.
func BenchmarkLoad(b *testing.B) {
	for _, c := range []struct {
		name   string
		each   int
		window string
	}{{"OneGroup", 1, ""}, {"ThreeGroups", 3, ""}, {"ThreeGroupsWindows", 3, window}} {
		b.Run(c.name, func(b *testing.B) {
			const n = 1_000_000
			files := company(n, c.each, c.window)
			size := 0
			for _, f := range files {
				size += len(f)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			before := heap()
			var s *entities.Store
			for b.Loop() {
				s = nil
				s = load(b, files)
			}
			b.ReportMetric(float64(heap()-before)/n, "B/entity")
			runtime.KeepAlive(s)
			runtime.KeepAlive(files)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

var (
	small = sync.OnceValue(func() *entities.Store { return load(&testing.B{}, company(10, 3, "")) })
	large = sync.OnceValue(func() *entities.Store { return load(&testing.B{}, company(1_000_000, 3, "")) })
	timed = sync.OnceValue(func() *entities.Store { return load(&testing.B{}, company(10, 3, window)) })
)

func BenchmarkGet(b *testing.B) {
	for _, c := range []struct {
		name  string
		store func() *entities.Store
		users int
	}{{"10", small, 10}, {"1000000", large, 1_000_000}, {"Windows", timed, 10}} {
		b.Run(c.name, func(b *testing.B) {
			s := c.store()
			uids := make([]types.EntityUID, 1024)
			for i := range uids {
				uids[i] = types.NewEntityUID("User", types.String(fmt.Sprintf("user-%07d", i*7919%c.users)))
			}
			now := at(0)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e, ok := s.Get(uids[i&1023], now)
				if !ok || e.Parents.Len() < 5 {
					b.Fatal(e)
				}
				i++
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	data := company(10_000, 3, "")[0]
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, faults := entities.Decode("f.json", data); faults != nil {
			b.Fatal(faults)
		}
	}
}
