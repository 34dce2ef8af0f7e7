package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/audit"
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

	certified func(time.Time) bool // see pdp.Config.MaySign; nil: always
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
	cfg.Keys, cfg.Ledger, cfg.Reviews, cfg.Shared, cfg.Name, cfg.MaySign = a.keys, a.ledger, a.reviews, a.shared, a.name, a.certified
	return cfg
}
