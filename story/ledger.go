package story

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Ledger is where payments are written: a SQLite database. One key is one
// payment.
type Ledger struct{ db *sql.DB }

// Payment is one row.
type Payment struct {
	ID       string // the bank's name for it
	Key      string // the idempotency key
	Invoice  string
	Supplier string
	Account  string
	Pence    int64 // of pounds
	Currency string
	Reason   string
	State    string // accepted
}

// Redemption is a permission that has been spent, and what is known of its
// effect.
type Redemption struct {
	ID             string // decision_id of the answer
	ProposalDigest string
	Key            string // the idempotency key
	Outcome        string // code; empty: nobody has been told yet
}

// Errors of a ledger.
var (
	// ErrNotFound says that there is no such payment.
	ErrNotFound = errors.New("there is no such payment")
	// ErrOther says that the key is that of another payment.
	ErrOther = errors.New("the idempotency key is that of another payment")
)

const schema = `
CREATE TABLE IF NOT EXISTS payments (
  id              TEXT PRIMARY KEY,
  idempotency_key TEXT NOT NULL UNIQUE,
  invoice         TEXT NOT NULL,
  supplier        TEXT NOT NULL,
  account         TEXT NOT NULL,
  pence           INTEGER NOT NULL CHECK (pence > 0),
  currency        TEXT NOT NULL,
  reason          TEXT NOT NULL,
  state           TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS redemptions (
  id              TEXT PRIMARY KEY,
  proposal_digest TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  outcome         TEXT NOT NULL DEFAULT ''
) STRICT;`

// OpenLedger opens the database at path, and makes it where it is missing. What
// is written is on the disk when it is written.
func OpenLedger(ctx context.Context, path string) (*Ledger, error) {
	source := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"},
	}.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("making the tables of %s: %w", path, err), db.Close())
	}
	return &Ledger{db}, nil
}

// Close closes the database.
func (l *Ledger) Close() error { return l.db.Close() }

// Pay writes a payment and returns the one that is there under its key: a key
// that is there already pays nothing again. The error is [ErrOther] where that
// one is another payment.
func (l *Ledger) Pay(ctx context.Context, p Payment) (Payment, error) {
	if _, err := l.db.ExecContext(ctx, `
INSERT INTO payments (id, idempotency_key, invoice, supplier, account, pence, currency, reason, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'accepted') ON CONFLICT (idempotency_key) DO NOTHING`,
		p.ID, p.Key, p.Invoice, p.Supplier, p.Account, p.Pence, p.Currency, p.Reason); err != nil {
		return Payment{}, err
	}
	held, err := l.ByKey(ctx, p.Key)
	if err != nil {
		return Payment{}, err
	}
	same := p
	same.ID, same.State = held.ID, held.State
	if held != same {
		return Payment{}, ErrOther
	}
	return held, nil
}

const paymentColumns = `SELECT id, idempotency_key, invoice, supplier, account, pence, currency, reason, state FROM payments `

// ByID reads one payment back. The error is [ErrNotFound] where there is none.
func (l *Ledger) ByID(ctx context.Context, id string) (Payment, error) {
	return scan(l.db.QueryRowContext(ctx, paymentColumns+`WHERE id = ?`, id))
}

// ByKey reads the payment with an idempotency key back, as ByID does.
func (l *Ledger) ByKey(ctx context.Context, key string) (Payment, error) {
	return scan(l.db.QueryRowContext(ctx, paymentColumns+`WHERE idempotency_key = ?`, key))
}

func scan(row *sql.Row) (Payment, error) {
	var p Payment
	err := row.Scan(&p.ID, &p.Key, &p.Invoice, &p.Supplier, &p.Account, &p.Pence, &p.Currency, &p.Reason, &p.State)
	if errors.Is(err, sql.ErrNoRows) {
		return Payment{}, ErrNotFound
	}
	return p, err
}

// Note remembers a redemption before anything is done under it, so that a
// server that is started again knows what it owes an answer about.
func (l *Ledger) Note(ctx context.Context, r Redemption) error {
	_, err := l.db.ExecContext(ctx, `
INSERT INTO redemptions (id, proposal_digest, idempotency_key, outcome) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome`, r.ID, r.ProposalDigest, r.Key, r.Outcome)
	return err
}

// Open returns the redemptions of whose effect nobody has been told yet.
func (l *Ledger) Open(ctx context.Context) (_ []Redemption, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT id, proposal_digest, idempotency_key FROM redemptions WHERE outcome = '' ORDER BY rowid`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []Redemption
	for rows.Next() {
		var r Redemption
		if err := rows.Scan(&r.ID, &r.ProposalDigest, &r.Key); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
