package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/grant"
)

// spent is what a record tells of a redemption, or of an effect.
type spent struct {
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	ID         string    `json:"id"`
	Caller     string    `json:"caller"`
	Code       string    `json:"code"`
	Grant      string    `json:"grant"`
	Redemption string    `json:"redemption"`
	Proposal   string    `json:"proposal_digest"` // HMAC
	Call       string    `json:"call_digest"`     // HMAC
	Retries    string    `json:"retries_digest"`  // HMAC
	EffectID   string    `json:"effect_id"`
	Observer   string    `json:"observer"`
}

// tellEvery is how long a start is silent about reading the log.
const tellEvery = 5 * time.Second

// seed tells a ledger which proposals were redeemed before this start: as the
// log has it, since each redemption was on the disk before it was answered.
func seed(ctx context.Context, ledger *grant.Memory, retention time.Duration, records *audit.Log, log *slog.Logger) error {
	_, n := records.Size()
	now := time.Now()
	first, err := since(filepath.Join(records.Dir(), segment.Dir), n, now.Add(-retention-margin), now)
	if err != nil {
		return err
	}
	told := &spentBefore{now: now, retries: map[string]string{}, done: map[string]bool{}}
	cursor := records.Follow(first)
	defer func() { _ = cursor.Close() }()
	silent := now
	for cursor.Index() < n {
		index, leaf, err := cursor.Next(ctx)
		if err != nil {
			return fmt.Errorf("reading what was redeemed before, at record %d of the log: %w", cursor.Index(), err)
		}
		if time.Since(silent) > tellEvery {
			silent = time.Now()
			log.Info("reading from the log what was redeemed before", "record", index, "of", n)
		}
		if err := told.read(leaf); err != nil {
			return fmt.Errorf("record %d of the log: %w", index, err)
		}
	}
	for i := range told.claims {
		told.claims[i].DoneElsewhere = told.done[told.claims[i].Proposal]
	}
	if err := ledger.Seed(told.claims, told.effects); err != nil {
		return fmt.Errorf("what was redeemed before, by the log: %w", err)
	}
	return nil
}

// spentBefore gathers what the log tells a ledger.
type spentBefore struct {
	now     time.Time // of this start
	latest  time.Time // of the redemptions and effects so far, but for those to come
	claims  []grant.Claim
	effects []grant.Effect
	retries map[string]string // which proposal one retries, by its grant and by its own digest
	done    map[string]bool   // proposals of which a retry had its effect
}

// read adds what one record tells.
func (s *spentBefore) read(leaf []byte) error {
	if !bytes.Contains(leaf, []byte(`"kind":"redemption"`)) && !bytes.Contains(leaf, []byte(`"kind":"effect"`)) && !bytes.Contains(leaf, []byte(`"retries_digest":"`)) {
		return nil
	}
	var r spent
	if err := json.Unmarshal(leaf, &r); err != nil {
		return err
	}
	switch {
	case r.Kind == string(audit.KindDecision) && r.Grant != "" && r.Retries != "":
		s.retries[r.Grant] = r.Retries
	case r.Kind == string(audit.KindRedemption) && r.Code == string(writ.CodeRedeemed):
		at := s.at(r.Time)
		// One that repeats another may be the only one there is: the first time,
		// its caller or the disk gave up.
		c := grant.Claim{ID: cmp.Or(r.Redemption, r.ID), Grant: r.Grant, Proposal: r.Proposal, Call: r.Call, Caller: r.Caller, Now: at, Expires: at}
		if first := cmp.Or(r.Retries, s.retries[r.Grant]); first != "" {
			s.retries[r.Proposal] = first
			c.Call = "" // its idempotency key is not its own: nothing can retry it
		}
		s.claims = append(s.claims, c)
	case r.Kind == string(audit.KindEffect) && (r.Code == string(writ.CodeEffectVerified) || r.Code == string(writ.CodePostconditionFailed)):
		at := s.at(r.Time)
		if r.Proposal != "" { // whoever acted on a redemption that was not recorded: it is spent
			s.claims = append(s.claims, grant.Claim{ID: r.Redemption, Grant: r.Grant, Proposal: r.Proposal, Now: at, Expires: at})
		}
		if r.Code == string(writ.CodeEffectVerified) {
			for of := cmp.Or(s.retries[r.Proposal], s.retries[r.Grant]); of != "" && !s.done[of]; of = s.retries[of] {
				s.done[of] = true
			}
		}
		s.effects = append(s.effects, grant.Effect{
			Redemption: r.Redemption, Observer: r.Observer, ID: r.EffectID,
			Receipt: canon.Sum([]byte(r.ID)), Outcome: writ.Code(r.Code), Now: at, // a receipt that nobody sends again
		})
	}
	return nil
}

// at is from when on a record is remembered, whatever the clock was when it was
// written: not before the records before it, whose order is certain; and what is
// of a time to come is of now, so that it makes nothing else look old.
func (s *spentBefore) at(t time.Time) time.Time {
	if t.After(s.now) {
		return s.now
	}
	if t.After(s.latest) {
		s.latest = t
	}
	return s.latest
}

// margin is how much further than the ledger's retention the log is read: as
// long as a segment grows, so that what is left out ended before, even if the
// clock was set back within it.
const margin = 24*time.Hour + grant.MaxSkew

// since returns the index of a record before which, of n, all are older than t:
// the first of a segment. Every segment is looked at, at both of its ends, as
// when the log was opened. Where they show that the clock was set back, before
// now and by more than margin, no time in the log tells what is old: then it is
// 0, for all of it.
func since(dir string, n uint64, t, now time.Time) (uint64, error) {
	list, err := segment.List(dir)
	if err != nil {
		return 0, err
	}
	first, found := uint64(0), false
	var latest time.Time
	for i, s := range list {
		if s.First >= n {
			break
		}
		last := n - 1
		if i < len(list)-1 {
			last = min(last, list[i+1].First-1)
		}
		ends, err := endsOf(dir, s.First, last)
		if err != nil {
			return 0, err
		}
		for _, end := range ends {
			if end.Before(latest.Add(-margin)) {
				return 0, nil
			}
			if end.After(latest) && !end.After(now) {
				latest = end
			}
			if !found && !end.Before(t) {
				first, found = s.First, true
			}
		}
		if !found && last == n-1 {
			return s.First, nil
		}
	}
	return first, nil
}

// endsOf returns the times of the first and the last record of a segment.
func endsOf(dir string, first, last uint64) (ends [2]time.Time, err error) {
	f, err := segment.Open(dir, first)
	if err != nil {
		return ends, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for i, index := range [...]uint64{first, last} {
		if err := f.Seek(index); err != nil {
			return ends, fmt.Errorf("record %d of the log: %w", index, err)
		}
		leaf, err := f.Next()
		if err != nil {
			return ends, fmt.Errorf("record %d of the log: %w", index, err)
		}
		var r spent
		if err := json.Unmarshal(leaf, &r); err != nil {
			return ends, fmt.Errorf("record %d of the log: %w", index, err)
		}
		ends[i] = r.Time
	}
	return ends, nil
}
