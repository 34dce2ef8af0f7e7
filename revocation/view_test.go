package revocation_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/writ-pdp/writ/revocation"
)

// at returns an instant n seconds after some beginning; -1 is the zero time.
func at(n int) time.Time {
	if n < 0 {
		return time.Time{}
	}
	return time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC)
}

func mustNew(t testing.TB, entries ...revocation.Entry) *revocation.View {
	t.Helper()
	v, err := revocation.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const iss = "https://login.acme.example"

func TestNames(t *testing.T) {
	for _, k := range revocation.Kinds {
		e := revocation.Entry{Kind: k, ID: "x", Reason: "r"}
		named := k == revocation.Principal || k == revocation.Token || k == revocation.Key
		if named {
			e.Issuer = iss
		}
		if k == revocation.Tool {
			e.ID = "s/x"
		}
		v := mustNew(t, e)
		for _, other := range revocation.Kinds {
			if _, got := v.Revoked(other, iss, e.ID, at(0), at(0)); got != (other == k) {
				t.Errorf("a revoked %s: %s is revoked: %v", k, other, got)
			}
		}
		if _, got := v.Revoked(k, iss, e.ID+"x", at(0), at(0)); got {
			t.Errorf("%s: another id is revoked", k)
		}
		if _, got := v.Revoked(k, "https://elsewhere.example", e.ID, at(0), at(0)); got == named {
			t.Errorf("%s of another issuer is revoked: %v", k, got)
		}
		if _, got := v.Revoked(k, "", e.ID, at(0), at(0)); got == named {
			t.Errorf("%s of no issuer is revoked: %v", k, got)
		}
		if _, got := v.Revoked(k, iss, "", at(0), at(0)); got {
			t.Errorf("%s without an id is revoked", k)
		}
		got, _ := v.Revoked(k, iss, e.ID, at(0), at(0))
		if e.Sequence = 1; got != e {
			t.Errorf("%s: %+v, want %+v", k, got, e)
		}
	}
	if len(revocation.Kinds) != 11 {
		t.Errorf("%d kinds", len(revocation.Kinds))
	}
}

func TestRevoked(t *testing.T) {
	// Entries of one name, with the sequence numbers 1, 2, …
	type entry struct {
		issuedBefore, from, until int
		lift                      bool
	}
	everything := entry{-1, -1, -1, false}
	before := func(n int) entry { return entry{n, -1, -1, false} }
	lift := entry{-1, -1, -1, true}
	for _, c := range []struct {
		name          string
		log           []entry
		issuedAt, now int
		want          uint64 // the entry that answers; 0: not revoked
	}{
		{"nothing", nil, 0, 0, 0},
		{"everything", []entry{everything}, 9, 9, 1},
		{"everything, whatever was issued later", []entry{everything}, 99, 9, 1},

		{"issued before", []entry{before(5)}, 4, 9, 1},
		{"issued then", []entry{before(5)}, 5, 9, 0},
		{"issued after", []entry{before(5)}, 6, 9, 0},
		{"issued nobody knows when", []entry{before(5)}, -1, 9, 1},
		{"in force at once, also for a future instant", []entry{before(50)}, 9, 9, 1},
		{"any that matches", []entry{before(5), before(3)}, 4, 9, 1},
		{"neither matches", []entry{before(5), before(3)}, 5, 9, 0},
		{"the furthest answers", []entry{before(3), before(5)}, 2, 9, 2},
		{"everything outreaches", []entry{everything, before(5)}, 2, 9, 1},
		{"of equals the last", []entry{before(5), before(5)}, 2, 9, 2},

		{"not yet", []entry{{-1, 5, -1, false}}, 0, 4, 0},
		{"from its first instant", []entry{{-1, 5, -1, false}}, 0, 5, 1},
		{"until its last instant", []entry{{-1, -1, 5, false}}, 0, 4, 1},
		{"not any more", []entry{{-1, -1, 5, false}}, 0, 5, 0},
		{"between two windows", []entry{{-1, 1, 2, false}, {-1, 4, 5, false}}, 0, 3, 0},
		{"in the second window", []entry{{-1, 1, 2, false}, {-1, 4, 5, false}}, 0, 4, 2},
		{"under a window that ended", []entry{before(5), {-1, 1, 3, false}}, 2, 3, 1},
		{"beyond a window that ended", []entry{before(5), {-1, 1, 3, false}}, 5, 3, 0},
		{"in a window that reaches further", []entry{before(5), {-1, 1, 3, false}}, 5, 2, 2},
		{"a window that reaches less", []entry{before(5), {3, 1, 9, false}}, 4, 2, 1},
		{"no clock", []entry{{-1, 5, 6, false}}, 0, -1, 1},
		{"no clock and issued after", []entry{{3, 5, 6, false}}, 4, -1, 0},

		{"lifted", []entry{everything, lift}, 0, 9, 0},
		{"all lifted", []entry{everything, before(5), {-1, 1, 99, false}, lift}, 0, 9, 0},
		{"revoked anew", []entry{everything, lift, before(5)}, 4, 9, 3},
		{"revoked anew, but issued after", []entry{everything, lift, before(5)}, 6, 9, 0},
		{"lifted twice", []entry{everything, lift, lift}, 0, 9, 0},
		{"a lift of nothing doesn't wait", []entry{lift, everything}, 0, 9, 2},
		{"a lift of what is yet to begin", []entry{{-1, 50, -1, false}, lift}, 0, 60, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var entries []revocation.Entry
			for _, e := range c.log {
				entries = append(entries, revocation.Entry{
					Kind: revocation.Principal, Issuer: iss, ID: "ann",
					IssuedBefore: at(e.issuedBefore), From: at(e.from), Until: at(e.until), Lift: e.lift,
				})
			}
			v := mustNew(t, entries...)
			got, revoked := v.Revoked(revocation.Principal, iss, "ann", at(c.issuedAt), at(c.now))
			if got.Sequence != c.want || revoked != (c.want != 0) {
				t.Errorf("entry %d, %v; want %d", got.Sequence, revoked, c.want)
			}
			if v.Sequence() != uint64(len(c.log)) {
				t.Errorf("sequence %d", v.Sequence())
			}
		})
	}
}

// A lift concerns its own name only.
func TestLiftOfOthers(t *testing.T) {
	other := func(k revocation.Kind, issuer, id string) revocation.Entry {
		return revocation.Entry{Kind: k, Issuer: issuer, ID: id, Lift: true}
	}
	v := mustNew(t,
		revocation.Entry{Kind: revocation.Principal, Issuer: iss, ID: "ann"},
		other(revocation.Principal, iss, "bob"),
		other(revocation.Principal, "https://elsewhere.example", "ann"),
		other(revocation.Token, iss, "ann"),
		other(revocation.Actor, "", "ann"),
	)
	if _, revoked := v.Revoked(revocation.Principal, iss, "ann", at(0), at(0)); !revoked {
		t.Error("lifted by another's lift")
	}
}

func TestNilAndEmpty(t *testing.T) {
	var none *revocation.View
	for _, v := range []*revocation.View{none, mustNew(t)} {
		for _, k := range revocation.Kinds {
			if e, revoked := v.Revoked(k, iss, "x", time.Time{}, time.Time{}); revoked || e != (revocation.Entry{}) {
				t.Errorf("%s: %+v", k, e)
			}
		}
		if v.Sequence() != 0 {
			t.Errorf("sequence %d", v.Sequence())
		}
	}
}

func TestUnknownKindIsRevoked(t *testing.T) {
	if _, revoked := mustNew(t).Revoked("principle", iss, "ann", at(0), at(0)); !revoked {
		t.Error("an unknown kind is let through")
	}
}

func TestNewCopies(t *testing.T) {
	entries := []revocation.Entry{{Kind: revocation.Server, ID: "payments"}}
	v := mustNew(t, entries...)
	if entries[0].Sequence != 0 {
		t.Error("New changed its argument")
	}
	entries[0] = revocation.Entry{Kind: revocation.Server, ID: "payments", Until: at(1)}
	if _, revoked := v.Revoked(revocation.Server, "", "payments", at(0), at(9)); !revoked {
		t.Error("the view changed with the argument")
	}
}

// randomLog makes a log of few names and few instants, so that entries meet.
func randomLog(random *rand.Rand, n int) []revocation.Entry {
	log := make([]revocation.Entry, n)
	for i := range log {
		log[i] = randomEntry(random)
		if random.IntN(8) == 0 {
			log[i] = revocation.Entry{Kind: log[i].Kind, Issuer: log[i].Issuer, ID: log[i].ID, Lift: true}
		}
	}
	return log
}

func randomEntry(random *rand.Rand) revocation.Entry {
	e := revocation.Entry{
		Kind: revocation.Token, Issuer: fmt.Sprintf("https://%d.example", random.IntN(2)), ID: fmt.Sprint(random.IntN(2)),
		IssuedBefore: at(random.IntN(7) - 1), From: at(random.IntN(7) - 1), Until: at(random.IntN(7) - 1),
		Reason: fmt.Sprint(random.Uint64()),
	}
	if random.IntN(2) == 0 {
		e.Kind, e.Issuer = revocation.Intent, ""
	}
	if !e.From.IsZero() && !e.Until.IsZero() && !e.From.Before(e.Until) {
		e.Until = time.Time{}
	}
	return e
}

// naive is the rule of the package's documentation and nothing else.
func naive(log []revocation.Entry, k revocation.Kind, issuer, id string, issuedAt, now time.Time) bool {
	revoked := false
	for _, e := range log {
		switch {
		case e.Kind != k || e.ID != id || k == revocation.Token && e.Issuer != issuer:
		case e.Lift:
			revoked = false
		case !e.From.IsZero() && now.Before(e.From), !e.Until.IsZero() && !now.Before(e.Until):
		case e.IssuedBefore.IsZero() || issuedAt.IsZero() || issuedAt.Before(e.IssuedBefore):
			revoked = true
		}
	}
	return revoked
}

// everyQuestion asks for every name of randomLog, at every instant and near it.
func everyQuestion(ask func(k revocation.Kind, issuer, id string, issuedAt, now time.Time)) {
	for _, k := range []revocation.Kind{revocation.Token, revocation.Intent} {
		for _, issuer := range []string{"https://0.example", "https://1.example"} {
			for _, id := range []string{"0", "1"} {
				for issued := -1; issued < 6; issued++ {
					for now := range 7 {
						ask(k, issuer, id, at(issued), at(now))
						ask(k, issuer, id, at(issued), at(now).Add(-1))
					}
				}
			}
		}
	}
}

func TestRevokedEqualsNaive(t *testing.T) {
	var revoked, not int
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		log := randomLog(random, random.IntN(30))
		v := mustNew(t, log...)
		everyQuestion(func(k revocation.Kind, issuer, id string, issuedAt, now time.Time) {
			want := naive(log, k, issuer, id, issuedAt, now)
			e, got := v.Revoked(k, issuer, id, issuedAt, now)
			if got != want {
				t.Fatalf("seed %d: %s %s %s issued %v at %v: %v, want %v", seed, k, issuer, id, issuedAt, now, got, want)
			}
			if !got {
				not++
				return
			}
			revoked++
			// The entry that answers revokes by itself.
			if !naive([]revocation.Entry{e}, k, issuer, id, issuedAt, now) {
				t.Fatalf("seed %d: the answer is %+v", seed, e)
			}
		})
	}
	if revoked < 10_000 || not < 10_000 {
		t.Errorf("%d revoked, %d not: too few of a kind", revoked, not)
	}
}

// Adding a revocation, at whatever place of the log, never turns revoked into
// not revoked.
func TestRevokingIsMonotonic(t *testing.T) {
	added := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 4))
		log := randomLog(random, random.IntN(20))
		place := len(log)
		if seed%2 == 0 {
			place = random.IntN(len(log) + 1)
		}
		more := append(append(append([]revocation.Entry(nil), log[:place]...), randomEntry(random)), log[place:]...)
		before, after := mustNew(t, log...), mustNew(t, more...)
		everyQuestion(func(k revocation.Kind, issuer, id string, issuedAt, now time.Time) {
			_, was := before.Revoked(k, issuer, id, issuedAt, now)
			_, is := after.Revoked(k, issuer, id, issuedAt, now)
			if was && !is {
				t.Fatalf("seed %d: %s %s %s issued %v at %v was revoked until another entry came", seed, k, issuer, id, issuedAt, now)
			}
			if is && !was {
				added++
			}
		})
	}
	if added < 1000 {
		t.Errorf("only %d answers changed", added)
	}
}

// many makes a log of n entries of one name, each with its own window: one
// second of every two.
func many(n int) []revocation.Entry {
	log := make([]revocation.Entry, n)
	for i := range log {
		log[i] = revocation.Entry{
			Kind: revocation.Principal, Issuer: iss, ID: "ann", From: at(2 * i), Until: at(2*i + 1), IssuedBefore: at(n - i),
		}
	}
	return log
}

func TestRevokedAllocations(t *testing.T) {
	v := mustNew(t, many(1000)...)
	for _, now := range []int{-1, 0, 1, 1000, 1001} {
		if n := testing.AllocsPerRun(100, func() { v.Revoked(revocation.Principal, iss, "ann", at(0), at(now)) }); n != 0 {
			t.Errorf("allocates %v times", n)
		}
	}
}

// TestBegins: only what begins to revoke within the span counts, however the
// view was made.
func TestBegins(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 1, 12, 0, s, 0, time.UTC) }
	dated := func(id string, from time.Time) revocation.Entry {
		return revocation.Entry{Kind: revocation.Tool, ID: id, From: from}
	}
	whole := mustNew(t, dated("s/a", at(10)), dated("s/b", time.Time{}), dated("s/c", at(20)))
	lifted := mustNew(t, dated("s/a", at(10)), revocation.Entry{Kind: revocation.Tool, ID: "s/a", Lift: true})
	grown := mustNew(t, dated("s/b", time.Time{}))
	shared, err := grown.With([]revocation.Entry{dated("s/a", at(10))})
	if err != nil {
		t.Fatal(err)
	}
	other, err := grown.With([]revocation.Entry{dated("s/c", at(20))})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		view     *revocation.View
		from, to int
		want     bool
	}{
		{"before", whole, 0, 9, false},
		{"to the instant", whole, 0, 10, true},
		{"from the instant", whole, 10, 19, false},
		{"the later one", whole, 10, 20, true},
		{"both", whole, 0, 60, true},
		{"after", whole, 20, 60, false},
		{"nothing passes", whole, 10, 10, false},
		{"lifted", lifted, 0, 60, false},
		{"added", shared, 0, 10, true},
		{"added elsewhere", other, 0, 19, false},
		{"added there", other, 19, 20, true},
		{"the one that both came from", grown, 0, 60, false},
		{"no view", nil, 0, 60, false},
	} {
		if got := c.view.Begins(at(c.from), at(c.to)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
