// Package history records what callers asked of a decision point and what they
// were told, and checks that it could have happened one thing after another: no
// grant and no proposal redeemed twice, and none after a revocation that was
// acknowledged. It knows neither ledgers nor servers, so both can be held to it.
package history

import (
	"fmt"
	"sync"
	"time"
)

// Kind is what was asked for.
type Kind uint8

// Kinds.
const (
	_      Kind = iota
	Mint        // a grant, for a proposal
	Redeem      // a grant and its proposal, by an attempt
	Repeat      // as Redeem, by an attempt that was made before
	Revoke      // everything of a subject
	Lift        // the revocations of a subject
)

// Result is what the caller was told.
type Result uint8

// Results.
const (
	// Lost: nothing was told. What was asked for may happen at any time, or not.
	Lost Result = iota
	// Done: minted, or the revocation, or its lift, is acknowledged.
	Done
	// Claimed: it is the attempt's now, and was nobody's.
	Claimed
	// Again: it was the attempt's already.
	Again
	// Redeemed: Claimed or Again, where callers can't tell.
	Redeemed
	// Taken: the grant or the proposal is another attempt's.
	Taken
	// Overtaken: there are more revocations than Operation.Counts. It may have
	// been claimed before that.
	Overtaken
	// Revoked: something that this call depends on has been revoked.
	Revoked
	// Refused: nothing has changed, for another reason.
	Refused
)

var (
	kinds   = [...]string{"?", "mint", "redeem", "repeat", "revoke", "lift"}
	results = [...]string{"lost", "done", "claimed", "again", "redeemed", "taken", "overtaken", "revoked", "refused"}
)

// Operation is one call and its answer.
type Operation struct {
	Client int
	Kind   Kind

	Grant, Proposal string // of a Mint, Redeem and Repeat
	Attempt         string // of a Redeem and Repeat
	// Subject is whom a revocation or a lift is about. A redemption may depend on
	// several, with spaces between. Empty: nobody in particular; such a revocation
	// only counts. Of one subject, a revocation or lift begins only when what came
	// before it was answered.
	Subject string
	// Counts is how many revocations a redemption was held against, and which
	// one, from 1, a revocation that was Done became. 0 of a Done revocation: it is
	// not counted.
	Counts uint64

	Result     Result
	Call, Back time.Duration // since the recorder was made
}

func (o Operation) String() string {
	return fmt.Sprintf("%v–%v client %d: %s grant=%s proposal=%s attempt=%s subject=%s counts=%d: %s",
		o.Call, o.Back, o.Client, kinds[o.Kind], o.Grant, o.Proposal, o.Attempt, o.Subject, o.Counts, results[o.Result])
}

// Recorder records operations of many clients.
type Recorder struct {
	began time.Time
	mu    sync.Mutex
	all   []Operation // guarded by mu
}

// NewRecorder makes a recorder.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Begin notes that a call begins, and returns what notes its answer. A call that
// is never answered is not recorded: have it answered with Lost.
func (r *Recorder) Begin(o Operation) func(result Result, counts uint64) {
	o.Call = r.Now()
	return func(result Result, counts uint64) {
		o.Result, o.Counts, o.Back = result, counts, r.Now()
		r.Add(o)
	}
}

// Now is the time since the recorder was made.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Add records an operation of which not everything was known when it began; its
// Call and Back are times of Now.
func (r *Recorder) Add(o Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
}

// Operations returns what was recorded so far.
func (r *Recorder) Operations() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Operation(nil), r.all...)
}

// Counts is how often each kind had each result.
func Counts(all []Operation) string {
	var n [len(kinds)][len(results)]int
	for _, o := range all {
		n[o.Kind][o.Result]++
	}
	text := fmt.Sprintf("%d operations:", len(all))
	for k, row := range n {
		for r, count := range row {
			if count > 0 {
				text += fmt.Sprintf(" %s %s %d;", kinds[k], results[r], count)
			}
		}
	}
	return text
}
