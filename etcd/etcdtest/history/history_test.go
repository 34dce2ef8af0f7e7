package history_test

import (
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest/history"
)

// at is an operation between two times, in milliseconds.
func at(call, back int, o history.Operation) history.Operation {
	o.Call, o.Back = time.Duration(call)*time.Millisecond, time.Duration(back)*time.Millisecond
	return o
}

func mint(grant, proposal string) history.Operation {
	return history.Operation{Kind: history.Mint, Grant: grant, Proposal: proposal, Result: history.Done}
}

func redeem(grant, proposal, attempt string, counts uint64, r history.Result) history.Operation {
	return history.Operation{Kind: history.Redeem, Grant: grant, Proposal: proposal, Attempt: attempt, Counts: counts, Result: r}
}

func revoke(counts uint64, r history.Result) history.Operation {
	return history.Operation{Kind: history.Revoke, Counts: counts, Result: r}
}

func lift(r history.Result) history.Operation {
	return history.Operation{Kind: history.Lift, Result: r}
}

func of(subject string, o history.Operation) history.Operation {
	o.Subject = subject
	return o
}

func TestCheck(t *testing.T) {
	minted := at(0, 1, mint("g", "p"))
	claimed := at(2, 3, redeem("g", "p", "a", 0, history.Claimed))
	for _, test := range []struct {
		name string
		ok   bool
		all  []history.Operation
	}{
		{"nothing", true, nil},
		{"once", true, []history.Operation{minted, claimed}},
		{"repeated", true, []history.Operation{minted, claimed, at(4, 5, redeem("g", "p", "a", 0, history.Again))}},
		{"redeemed twice by one", true, []history.Operation{minted, at(2, 3, redeem("g", "p", "a", 0, history.Redeemed)), at(4, 5, redeem("g", "p", "a", 0, history.Redeemed))}},
		{"redeemed by two", false, []history.Operation{minted, at(2, 3, redeem("g", "p", "a", 0, history.Redeemed)), at(4, 5, redeem("g", "p", "b", 0, history.Redeemed))}},
		{"not minted", false, []history.Operation{claimed}},
		{"minted for another", false, []history.Operation{at(0, 1, mint("g", "q")), claimed}},
		{"minted later", false, []history.Operation{claimed, at(4, 5, mint("g", "p"))}},
		{"claimed twice", false, []history.Operation{minted, claimed, at(2, 3, redeem("g", "p", "b", 0, history.Claimed))}},
		{"claimed twice by one", false, []history.Operation{minted, claimed, at(2, 3, redeem("g", "p", "a", 0, history.Claimed))}},
		{"proposal claimed twice", false, []history.Operation{minted, at(0, 1, mint("h", "p")), claimed, at(4, 5, redeem("h", "p", "b", 0, history.Claimed))}},
		{"proposal redeemed twice", false, []history.Operation{minted, at(0, 1, mint("h", "p")), claimed, at(4, 5, redeem("h", "p", "a", 0, history.Redeemed))}},
		{"taken", true, []history.Operation{minted, claimed, at(2, 3, redeem("g", "p", "b", 0, history.Taken))}},
		{"taken from oneself", false, []history.Operation{minted, claimed, at(4, 5, redeem("g", "p", "a", 0, history.Taken))}},
		{"taken by nobody", false, []history.Operation{minted, at(2, 3, redeem("g", "p", "b", 0, history.Taken)), at(4, 5, redeem("g", "p", "a", 0, history.Claimed))}},
		{"repeated by nobody", false, []history.Operation{minted, at(2, 3, redeem("g", "p", "a", 0, history.Again)), at(4, 5, redeem("g", "p", "a", 0, history.Claimed))}},
		{"lost, then taken", true, []history.Operation{minted, at(2, 3, redeem("g", "p", "a", 0, history.Lost)), at(9, 10, redeem("g", "p", "b", 0, history.Taken))}},
		{"lost, then claimed by another", true, []history.Operation{minted, at(2, 3, redeem("g", "p", "a", 0, history.Lost)), at(9, 10, redeem("g", "p", "b", 0, history.Claimed))}},
		{"lost, then repeated", true, []history.Operation{minted, at(2, 3, redeem("g", "p", "a", 0, history.Lost)), at(9, 10, redeem("g", "p", "a", 0, history.Again))}},
		{"taken before what was lost was called", false, []history.Operation{minted, at(5, 6, redeem("g", "p", "a", 0, history.Lost)), at(2, 3, redeem("g", "p", "b", 0, history.Taken))}},
		{"refused", true, []history.Operation{minted, at(2, 3, redeem("g", "p", "a", 0, history.Refused)), at(4, 5, redeem("g", "p", "b", 0, history.Claimed))}},

		{"claimed after a revocation", false, []history.Operation{minted, at(1, 2, revoke(1, history.Done)), at(3, 4, redeem("g", "p", "a", 0, history.Claimed))}},
		{"claimed beside a revocation", true, []history.Operation{minted, at(1, 9, revoke(1, history.Done)), at(3, 4, redeem("g", "p", "a", 0, history.Claimed))}},
		{"claimed knowing of it", true, []history.Operation{minted, at(1, 2, revoke(1, history.Done)), at(3, 4, redeem("g", "p", "a", 1, history.Claimed))}},
		{"claimed after what was before all", false, []history.Operation{at(0, 1, revoke(7, history.Done)), at(2, 3, mint("g", "p")), at(4, 5, redeem("g", "p", "a", 6, history.Claimed))}},
		{"repeated after a revocation", false, []history.Operation{minted, claimed, at(4, 5, revoke(1, history.Done)), at(6, 7, redeem("g", "p", "a", 0, history.Again))}},
		{"taken after a revocation", false, []history.Operation{minted, claimed, at(4, 5, revoke(1, history.Done)), at(6, 7, redeem("g", "p", "b", 0, history.Taken))}},
		{"overtaken", true, []history.Operation{minted, at(1, 2, revoke(1, history.Done)), at(3, 4, redeem("g", "p", "a", 0, history.Overtaken))}},
		{"overtaken by nothing", false, []history.Operation{minted, at(3, 4, redeem("g", "p", "a", 0, history.Overtaken))}},
		{"overtaken by what came later", false, []history.Operation{minted, at(3, 4, redeem("g", "p", "a", 0, history.Overtaken)), at(5, 6, revoke(1, history.Done)), at(7, 8, redeem("g", "p", "a", 1, history.Claimed))}},
		{"overtaken by what was lost", true, []history.Operation{minted, at(1, 2, revoke(0, history.Lost)), at(3, 4, redeem("g", "p", "a", 0, history.Overtaken))}},
		{"claimed, then overtaken", true, []history.Operation{minted, at(2, 9, revoke(1, history.Done)), at(2, 12, redeem("g", "p", "a", 0, history.Overtaken)), at(5, 6, redeem("g", "p", "b", 0, history.Taken)), at(14, 15, redeem("g", "p", "a", 1, history.Again))}},
		{"overtaken, then claimed", false, []history.Operation{minted, at(2, 3, revoke(1, history.Done)), at(4, 5, redeem("g", "p", "a", 0, history.Overtaken)), at(6, 7, redeem("g", "p", "a", 1, history.Again))}},

		{"subject revoked", false, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 5, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"subject revoked long ago", false, []history.Operation{at(0, 1, of("s", revoke(0, history.Done))), at(2, 3, of("s", mint("g", "p"))), at(4, 5, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"another revoked", true, []history.Operation{of("s", minted), at(2, 3, of("r", revoke(0, history.Done))), at(4, 5, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"denied as revoked", true, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 5, of("s", redeem("g", "p", "a", 0, history.Revoked)))}},
		{"denied as revoked, but was not", false, []history.Operation{of("s", minted), at(4, 5, of("s", redeem("g", "p", "a", 0, history.Revoked)))}},

		{"one of two subjects revoked", false, []history.Operation{of("s t", minted), at(2, 3, of("t", revoke(0, history.Done))), at(4, 5, of("s t", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"one of two subjects revoked long ago", false, []history.Operation{at(0, 1, of("t", revoke(0, history.Done))), at(2, 3, of("s t", mint("g", "p"))), at(4, 5, of("s t", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"neither of two subjects revoked", true, []history.Operation{of("s t", minted), at(2, 3, of("r", revoke(0, history.Done))), at(4, 5, of("s t", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"revoked and given back", true, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 5, of("s", lift(history.Done))), at(6, 7, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"revoked and given back long ago", true, []history.Operation{at(0, 1, of("s", revoke(0, history.Done))), at(2, 3, of("s", lift(history.Done))), at(4, 5, of("s", mint("g", "p"))), at(6, 7, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"given back meanwhile", true, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 9, of("s", lift(history.Done))), at(6, 7, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"given back later", false, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(6, 7, of("s", redeem("g", "p", "a", 0, history.Redeemed))), at(8, 9, of("s", lift(history.Done)))}},
		{"another given back", false, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 5, of("r", lift(history.Done))), at(6, 7, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"given back and revoked again", false, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 5, of("s", lift(history.Done))), at(6, 7, of("s", revoke(0, history.Done))), at(8, 9, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"perhaps given back", true, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 5, of("s", lift(history.Lost))), at(6, 7, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
		{"perhaps given back once", false, []history.Operation{of("s", minted), at(2, 3, of("s", revoke(0, history.Done))), at(4, 5, of("s", lift(history.Lost))), at(6, 7, of("s", redeem("g", "p", "a", 0, history.Redeemed))), at(8, 9, of("s", revoke(0, history.Done))), at(10, 11, of("s", redeem("g", "p", "a", 0, history.Redeemed)))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := history.Check(test.all, 0); (err == nil) != test.ok {
				t.Errorf("ok should be %v: %v", test.ok, err)
			}
		})
	}
}

// What is recorded is what is checked.
func TestRecorder(t *testing.T) {
	r := history.NewRecorder()
	r.Begin(history.Operation{Kind: history.Mint, Grant: "g", Proposal: "p"})(history.Done, 0)
	done := r.Begin(history.Operation{Kind: history.Redeem, Grant: "g", Proposal: "p", Attempt: "a"})
	r.Begin(history.Operation{Kind: history.Revoke})(history.Done, 1)
	done(history.Claimed, 0)
	all := r.Operations()
	if len(all) != 3 || all[2].Call > all[1].Call || all[2].Back < all[1].Back || all[1].Counts != 1 {
		t.Fatalf("%v", all)
	}
	if err := history.Check(all, 0); err != nil {
		t.Error(err)
	}
	if got, want := history.Counts(all), "3 operations: mint done 1; redeem claimed 1; revoke done 1;"; got != want {
		t.Errorf("%q", got)
	}
}
