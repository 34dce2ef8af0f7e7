package main

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

// authority is what a service signs with, and where it keeps what has been
// redeemed and what people are asked.
type authority struct {
	keys    *keyring.Ring
	ledger  grant.Ledger
	reviews approval.Store
	most    int                 // redemptions that a ledger in memory keeps
	shared  bool                // with other replicas
	name    func(string) string // see pdp.Config.Name

	certified func(time.Time) bool        // see pdp.Config.MaySign; nil: always
	learn     func(context.Context) error // see pdp.Config.LearnKeys; nil: nobody else signs
}

// ledgerFlags say how long it is remembered what has been redeemed. What is
// zero is the ledger's default.
type ledgerFlags struct {
	Remember     time.Duration `help:"How long to remember what was redeemed: for so long no proposal is redeemed twice." default:"168h" env:"WRIT_REMEMBER" group:"Grants"`
	RememberMost int           `help:"How many redemptions to remember, at about 600 bytes each; of which one caller alone can take seven eighths; with one more, calls that need a grant are denied. With --etcd its size is the limit." default:"1000000" env:"WRIT_REMEMBER_MOST" group:"Grants"`
}

func (f *ledgerFlags) check() error {
	if f.Remember < 2*time.Hour || f.Remember > grant.MaxRetention || f.RememberMost < 1 {
		return usage("--remember is from 2h to 10 years, and --remember-most at least 1")
	}
	return nil
}

// nearlyFull is from where on a ledger's room is told to be short, in percent:
// before one caller has all of its share, see [grant.MaxShare].
const nearlyFull = 80

// troubles are what /readyz tells.
func (a *authority) troubles() []server.Trouble {
	memory, ok := a.ledger.(*grant.Memory)
	if !ok || memory.Len() < a.most/100*nearlyFull {
		return nil
	}
	return []server.Trouble{{Part: "grants", Message: "the ledger of redemptions is nearly full, and then calls that need a grant are denied: give --remember-most more, or --remember less"}}
}

// openAuthority makes the authority of the only replica: its keys are in
// memory, so that a restart voids what is open instead of forgetting what is
// used, and what was redeemed before is learnt from the log.
func openAuthority(ctx context.Context, w *worlds, records *audit.Log, remember ledgerFlags, log *slog.Logger) (*authority, error) {
	remember.Remember, remember.RememberMost = cmp.Or(remember.Remember, grant.DefaultRetention), cmp.Or(remember.RememberMost, grant.DefaultMaxEntries)
	a := &authority{name: records.HMAC, most: remember.RememberMost}
	var err error
	if a.keys, err = keyring.New(keyring.Config{}, time.Now()); err != nil {
		return nil, err
	}
	ledger, err := grant.NewMemory(grant.MemoryConfig{
		MaxEntries: remember.RememberMost, Retention: remember.Remember,
		Revocations: func() uint64 { return w.journal.View().Sequence() },
	})
	if err != nil {
		return nil, err
	}
	if err := seed(ctx, ledger, remember.Remember, records, log); err != nil {
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
	cfg.Keys, cfg.Ledger, cfg.Reviews, cfg.Shared, cfg.Name, cfg.MaySign, cfg.LearnKeys = a.keys, a.ledger, a.reviews, a.shared, a.name, a.certified, a.learn
	return cfg
}
