package revocation_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/writ-pdp/writ/revocation"
)

// A log that grows by whatever steps gives the answers of the whole log, down
// to the entry that answers, and leaves earlier views as they were.
func TestWithEqualsNew(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 11))
		log := randomLog(random, 1+random.IntN(40))
		var view *revocation.View
		type stage struct {
			view *revocation.View
			n    int
		}
		var stages []stage
		for n := 0; n < len(log); {
			step := min(1+random.IntN(3), len(log)-n)
			next, err := view.With(log[n : n+step])
			if err != nil {
				t.Fatal(err)
			}
			n += step
			view = next
			stages = append(stages, stage{view, n})
		}
		for _, s := range stages {
			whole := mustNew(t, log[:s.n]...)
			if s.view.Sequence() != whole.Sequence() || s.view.Len() != whole.Len() {
				t.Fatalf("seed %d: sequence %d, want %d", seed, s.view.Sequence(), whole.Sequence())
			}
			everyQuestion(func(k revocation.Kind, issuer, id string, issuedAt, now time.Time) {
				want, wanted := whole.Revoked(k, issuer, id, issuedAt, now)
				got, revoked := s.view.Revoked(k, issuer, id, issuedAt, now)
				if got != want || revoked != wanted {
					t.Fatalf("seed %d, %d entries: %s %s %s issued %v at %v: %+v %t, want %+v %t", seed, s.n, k, issuer, id, issuedAt, now, got, revoked, want, wanted)
				}
				got, _ = s.view.Revoked(k, issuer, id, issuedAt, time.Time{})
				if want, _ = whole.Revoked(k, issuer, id, issuedAt, time.Time{}); got != want {
					t.Fatalf("seed %d: without a clock %+v, want %+v", seed, got, want)
				}
			})
			i := 0
			for e := range s.view.Entries(0) {
				if e.Sequence != uint64(i+1) || e.Reason != log[i].Reason {
					t.Fatalf("entry %d is %+v", i, e)
				}
				i++
			}
			if i != s.n {
				t.Fatalf("%d entries, want %d", i, s.n)
			}
		}
	}
}

// InForce and Stands agree with what Revoked answers: a name is revoked at an
// instant exactly if an entry that is in force then concerns it.
func TestInForceEqualsRevoked(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 12))
		v := mustNew(t, randomLog(random, random.IntN(30))...)
		everyQuestion(func(k revocation.Kind, issuer, id string, issuedAt, now time.Time) {
			want := false
			for e := range v.Entries(0) {
				named := e.Kind == k && e.ID == id && (k != revocation.Token || e.Issuer == issuer)
				concerns := e.IssuedBefore.IsZero() || issuedAt.IsZero() || issuedAt.Before(e.IssuedBefore)
				if v.InForce(&e, now) && !v.Stands(&e) {
					t.Fatal("in force, and lifted")
				}
				want = want || named && concerns && v.InForce(&e, now)
			}
			if _, got := v.Revoked(k, issuer, id, issuedAt, now); got != want {
				t.Fatalf("seed %d: %s %s %s at %v: revoked %t, in force %t", seed, k, issuer, id, now, got, want)
			}
		})
	}
}

func TestWithRefuses(t *testing.T) {
	v := mustNew(t, revocation.Entry{Kind: revocation.Server, ID: "a"}, revocation.Entry{Kind: revocation.Server, ID: "b"})
	for _, bad := range []revocation.Entry{
		{Kind: "nothing", ID: "x"}, {Kind: revocation.Server}, {Sequence: 2, Kind: revocation.Server, ID: "c"},
	} {
		next, err := v.With([]revocation.Entry{{Kind: revocation.Server, ID: "fine"}, bad})
		if errs, ok := err.(revocation.Errors); next != nil || !ok || errs[0].Index != 1 && bad.Sequence == 0 {
			t.Errorf("%+v: %v, %v", bad, next, err)
		}
	}
	if _, revoked := v.Revoked(revocation.Server, "", "fine", at(0), at(0)); revoked || v.Sequence() != 2 {
		t.Error("a refused addition is in force")
	}
	if same, err := v.With(nil); err != nil || same != v {
		t.Errorf("nothing added: %v, %v", same, err)
	}
}

// Two views of one are apart: neither sees what the other has.
func TestWithForks(t *testing.T) {
	base := mustNew(t, entries(300)...)
	add := func(id string) *revocation.View {
		v, err := base.With([]revocation.Entry{{Kind: revocation.Server, ID: id}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	left, right := add("left"), add("right")
	for view, has := range map[*revocation.View]string{left: "left", right: "right"} {
		for _, id := range []string{"left", "right"} {
			if _, revoked := view.Revoked(revocation.Server, "", id, at(0), at(0)); revoked != (id == has) {
				t.Errorf("%s: %s is revoked: %t", has, id, revoked)
			}
		}
		n := 0
		for e := range view.Entries(300) {
			if n++; e.ID != has {
				t.Errorf("%s lists %s", has, e.ID)
			}
		}
		if n != 1 {
			t.Errorf("%d entries after the 300th", n)
		}
	}
}

func TestEntriesAfter(t *testing.T) {
	v := mustNew(t,
		revocation.Entry{Sequence: 3, Kind: revocation.Server, ID: "a"}, revocation.Entry{Sequence: 7, Kind: revocation.Server, ID: "b"},
		revocation.Entry{Sequence: 9, Kind: revocation.Server, ID: "c"},
	)
	for after, want := range map[uint64]string{0: "abc", 2: "abc", 3: "bc", 6: "bc", 7: "c", 8: "c", 9: "", 10: ""} {
		got := ""
		for e := range v.Entries(after) {
			got += e.ID
		}
		if got != want {
			t.Errorf("after %d: %q, want %q", after, got, want)
		}
	}
	for range v.Entries(0) {
		break // a reader may stop
	}
	for range (*revocation.View)(nil).Entries(0) {
		t.Error("a nil view has entries")
	}
}

func BenchmarkWith(b *testing.B) {
	add := []revocation.Entry{{Kind: revocation.Principal, Issuer: iss, ID: "new", From: at(100), Until: at(200)}}
	for _, n := range []int{0, 1000, 100_000} {
		v := mustNew(b, entries(n)...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.With(add); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	one := mustNew(b, many(100_000)...)
	b.Run("OneName", func(b *testing.B) {
		add := []revocation.Entry{{Kind: revocation.Principal, Issuer: iss, ID: "ann", From: at(100), Until: at(200)}}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := one.With(add); err != nil {
				b.Fatal(err)
			}
		}
	})
}
