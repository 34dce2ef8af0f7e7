package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sort"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
)

// authority is what a service signs with, and where it keeps what has been
// redeemed and what people are asked.
type authority struct {
	keys    *keyring.Ring
	ledger  grant.Ledger
	reviews approval.Store
	shared  bool                // with other replicas
	name    func(string) string // see pdp.Config.Name
}

// openAuthority makes the authority of the only replica: its keys are in
// memory, so that a restart voids what is open instead of forgetting what is
// used, and what was redeemed before is learnt from the log.
func openAuthority(ctx context.Context, w *worlds, records *audit.Log, log *slog.Logger) (*authority, error) {
	a := &authority{name: records.HMAC}
	var err error
	if a.keys, err = keyring.New(keyring.Config{}, time.Now()); err != nil {
		return nil, err
	}
	ledger, err := grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return w.journal.View().Sequence() }})
	if err != nil {
		return nil, err
	}
	if err := seed(ctx, ledger, records, log); err != nil {
		return nil, err
	}
	a.ledger = ledger
	if a.reviews, err = approval.NewMemory(approval.MemoryConfig{}); err != nil {
		return nil, err
	}
	return a, nil
}

// config adds the authority to what a PDP is made of.
func (a *authority) config(cfg pdp.Config) pdp.Config {
	cfg.Keys, cfg.Ledger, cfg.Reviews, cfg.Shared, cfg.Name = a.keys, a.ledger, a.reviews, a.shared, a.name
	return cfg
}

// spent is what a record tells of a redemption, or of an effect.
type spent struct {
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	ID         string    `json:"id"`
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
func seed(ctx context.Context, ledger *grant.Memory, records *audit.Log, log *slog.Logger) error {
	_, n := records.Size()
	first, err := since(records, n, time.Now().Add(-grant.DefaultRetention-grant.MaxSkew))
	if err != nil {
		return err
	}
	var claims []grant.Claim
	var effects []grant.Effect
	cursor := records.Follow(first)
	defer func() { _ = cursor.Close() }()
	told := time.Now()
	for cursor.Index() < n {
		index, leaf, err := cursor.Next(ctx)
		if err != nil {
			return fmt.Errorf("reading what was redeemed before, at record %d of the log: %w", cursor.Index(), err)
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			log.Info("reading from the log what was redeemed before", "record", index, "of", n)
		}
		if !bytes.Contains(leaf, []byte(`"kind":"redemption"`)) && !bytes.Contains(leaf, []byte(`"kind":"effect"`)) {
			continue
		}
		var r spent
		if err := json.Unmarshal(leaf, &r); err != nil {
			return fmt.Errorf("record %d of the log: %w", index, err)
		}
		switch {
		case r.Kind == string(audit.KindRedemption) && r.Code == string(writ.CodeRedeemed) && r.Redemption == "":
			c := grant.Claim{ID: r.ID, Grant: r.Grant, Proposal: r.Proposal, Call: r.Call, Now: r.Time, Expires: r.Time}
			if r.Retries != "" {
				c.Call = "" // its idempotency key is not its own: nothing can retry it
			}
			claims = append(claims, c)
		case r.Kind == string(audit.KindEffect) && (r.Code == string(writ.CodeEffectVerified) || r.Code == string(writ.CodePostconditionFailed)):
			effects = append(effects, grant.Effect{
				Redemption: r.Redemption, Observer: r.Observer, ID: r.EffectID,
				Receipt: canon.Sum([]byte(r.ID)), Outcome: writ.Code(r.Code), Now: r.Time, // a receipt that nobody sends again
			})
		}
	}
	if err := ledger.Seed(claims, effects); err != nil {
		return fmt.Errorf("what was redeemed before, by the log: %w", err)
	}
	return nil
}

// since returns the index of the first of n records that is of this time or
// later. They are in the order of their times, nearly.
func since(records *audit.Log, n uint64, t time.Time) (uint64, error) {
	dir := filepath.Join(records.Dir(), segment.Dir)
	var failed error
	first := sort.Search(int(n), func(i int) bool {
		leaf, err := segment.ReadRecord(dir, uint64(i))
		var r spent
		if err == nil {
			err = json.Unmarshal(leaf, &r)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("record %d of the log: %w", i, err))
			return true
		}
		return !r.Time.Before(t)
	})
	return uint64(first), failed
}
