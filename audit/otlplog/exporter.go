package otlplog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// What one batch holds at most. A collector takes 4 MiB unless told otherwise,
// and beside its text a record needs little.
const (
	maxBatch      = 512
	maxBatchBytes = 1 << 20
)

// Cursor reads the log's records in order, from a place on. Next waits for the
// next one to be on the disk; the leaf is good until the next call.
type Cursor interface {
	Next(ctx context.Context) (index uint64, leaf []byte, err error)
	Close() error
}

// Config says what is sent, and as whose.
type Config struct {
	// Verifier is the log's verifier key (C2SP signed-note): it names the log,
	// as another log has another. Required.
	Verifier string
	// Follow opens a cursor at an index. Required.
	Follow func(from uint64) Cursor
	// Synced returns how many records are on the disk. Required.
	Synced func() uint64
	// File keeps the exporter's cursor, in a directory that exists. Required.
	File string
	// Service and Version name the process: service.name and service.version.
	// The environment's names come before them. Service is required.
	Service, Version string
	// Log receives failures, at most one a minute, rejections and recoveries;
	// nil: nobody.
	Log *slog.Logger

	// Gather is how long records gather into a batch: 200 ms if 0.
	Gather time.Duration
	// Backoff is the wait after a first failure, and MaxBackoff after many: 1 s
	// and 1 min if 0.
	Backoff, MaxBackoff time.Duration
}

// Exporter sends the records of one log. See [Exporter.Run].
type Exporter struct {
	cfg    Config
	sender *sender

	// These belong to Run, and to Close after it.
	cursor  Cursor    // nil: to be opened
	read    uint64    // the index that cursor gives next
	pending []entry   // read and not acknowledged
	most    int       // records in the next batch
	failing int       // attempts that have failed in a row
	said    time.Time // of the last line about a failure

	mu     sync.Mutex
	status Status // guarded by mu; Lag is made when asked for
}

// entry is one record of a batch.
type entry struct {
	index uint64
	leaf  []byte
}

// Status is how far an exporter has come.
type Status struct {
	// Exported is how many records of the log the collector has acknowledged:
	// the index of the next.
	Exported uint64
	// Lag is how many records are on the disk and not acknowledged.
	Lag uint64
	// Rejected is how many records the collector has refused in batches that it
	// acknowledged, since the process began.
	Rejected uint64
	// LastExported is when the collector last acknowledged; zero: not yet.
	LastExported time.Time
	// Err is why the last attempt failed, and Since when the first of its row
	// did; nil and zero: it didn't fail.
	Err   error
	Since time.Time
}

// New reads the cursor. It does not wait for the collector, nor fail for the
// lack of it. A cursor of another log, or one beyond the end of this, is an
// error; one that is torn begins again with the first record. Where to send to
// is the environment's to say: ask [Wanted] first. Close the exporter.
func New(ctx context.Context, cfg Config) (*Exporter, error) {
	if cfg.Verifier == "" || cfg.Follow == nil || cfg.Synced == nil || cfg.File == "" || cfg.Service == "" {
		return nil, errors.New("otlplog: Verifier, Follow, Synced, File and Service are required")
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&cfg.Gather, 200 * time.Millisecond}, {&cfg.Backoff, time.Second}, {&cfg.MaxBackoff, time.Minute}} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	next, err := readCursor(cfg.File, cfg.Verifier)
	switch {
	case errors.Is(err, errTorn):
		cfg.Log.Warn("the OTLP exporter's cursor is torn or damaged: the whole log is sent again", "file", cfg.File)
		next = 0
	case err != nil:
		return nil, fmt.Errorf("otlplog: the cursor: %w", err)
	}
	if synced := cfg.Synced(); next > synced {
		return nil, fmt.Errorf("otlplog: the cursor %s says that %d records were sent, and the log has %d: records are missing, or the log is an older copy; find out which, then remove the file, and the whole log is sent", cfg.File, next, synced)
	}
	s, err := newSender(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("otlplog: %w", err)
	}
	return &Exporter{cfg: cfg, sender: s, read: next, most: maxBatch, status: Status{Exported: next}}, nil
}

// Status returns how far the exporter has come. It may be called at any time.
func (e *Exporter) Status() Status {
	synced := e.cfg.Synced()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	s.Lag = synced - min(s.Exported, synced)
	return s
}

// Run sends records until ctx ends, and then returns nil; nothing else ends it.
func (e *Exporter) Run(ctx context.Context) error {
	for {
		err := e.gather(ctx)
		if err == nil {
			err = e.deliver(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			pause(ctx, e.failed(err))
		}
	}
}

// Close sends what is on the disk, until ctx ends or an attempt fails, and
// closes the connection. Call it after Run has returned. An error says what
// was left; the next process sends it.
func (e *Exporter) Close(ctx context.Context) error {
	var err error
	for err == nil && (len(e.pending) > 0 || e.read < e.cfg.Synced()) {
		if err = e.fill(ctx); err == nil {
			err = e.deliver(ctx)
		}
	}
	if err != nil {
		err = fmt.Errorf("otlplog: %d records are left for the next start: %w", e.Status().Lag, err)
	}
	e.leave()
	return errors.Join(err, e.sender.close(context.WithoutCancel(ctx)))
}

// gather waits for records, and a little more if they don't fill a batch.
func (e *Exporter) gather(ctx context.Context) error {
	if len(e.pending) > 0 {
		return nil
	}
	if err := e.next(ctx); err != nil {
		return err
	}
	if synced := e.cfg.Synced(); synced-min(e.read, synced) < maxBatch-1 {
		pause(ctx, e.cfg.Gather)
	}
	return e.fill(ctx)
}

// fill reads what is on the disk, up to a whole batch.
func (e *Exporter) fill(ctx context.Context) error {
	size := 0
	for _, p := range e.pending {
		size += len(p.leaf)
	}
	for len(e.pending) < maxBatch && size < maxBatchBytes && e.read < e.cfg.Synced() {
		if err := e.next(ctx); err != nil {
			return err
		}
		size += len(e.pending[len(e.pending)-1].leaf)
	}
	return nil
}

// next reads one record.
func (e *Exporter) next(ctx context.Context) error {
	if e.cursor == nil {
		e.cursor = e.cfg.Follow(e.read)
	}
	index, leaf, err := e.cursor.Next(ctx)
	if err == nil && index != e.read {
		err = fmt.Errorf("the log gave record %d in place of %d", index, e.read)
	}
	if err != nil {
		e.leave()
		return fmt.Errorf("reading record %d: %w", e.read, err)
	}
	e.pending = append(e.pending, entry{index, append([]byte(nil), leaf...)})
	e.read++
	return nil
}

// leave closes the cursor: the next record is read by another.
func (e *Exporter) leave() {
	if e.cursor == nil {
		return
	}
	if err := e.cursor.Close(); err != nil {
		e.cfg.Log.Warn("closing the cursor on the log", "error", err) // what was read is read
	}
	e.cursor = nil
}

// deliver makes one attempt with the first of the pending records.
func (e *Exporter) deliver(ctx context.Context) error {
	batch := e.pending[:min(e.most, len(e.pending))]
	first := batch[0].index
	answer, err := e.sender.send(ctx, batch)
	if err != nil {
		return &sendError{first, len(batch), err}
	}
	rejected := uint64(min(max(answer.rejected, 0), int64(len(batch))))
	if rejected > 0 || answer.message != "" {
		e.cfg.Log.Warn("the collector took records with reservations", "from", first, "records", len(batch), "rejected", rejected, "says", answer.message)
	}
	next := first + uint64(len(batch))
	e.pending = append(e.pending[:0], e.pending[len(batch):]...)
	e.most = min(2*e.most, maxBatch)
	return e.acknowledged(next, rejected)
}

// acknowledged moves the cursor. Where it can't be written sending goes on:
// after a restart some records are sent again.
func (e *Exporter) acknowledged(next, rejected uint64) error {
	err := writeCursor(e.cfg.File, e.cfg.Verifier, next)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Exported = next
	e.status.Rejected += rejected
	e.status.LastExported = time.Now()
	if err != nil {
		return fmt.Errorf("the cursor can't be kept: %w", err)
	}
	if e.failing > 0 {
		e.cfg.Log.Info("records are sent again", "exported", next, "failed_attempts", e.failing)
	}
	e.failing, e.status.Err, e.status.Since = 0, nil, time.Time{}
	return nil
}

// sendError is an attempt that failed.
type sendError struct {
	first uint64
	count int
	err   error
}

func (s *sendError) Error() string {
	return fmt.Sprintf("sending %d records from %d on: %s", s.count, s.first, beginning(s.err.Error()))
}

func (s *sendError) Unwrap() error { return s.err }

// failed notes a failure and returns how long to wait.
func (e *Exporter) failed(err error) time.Duration {
	now, synced := time.Now(), e.cfg.Synced()
	e.failing++
	e.mu.Lock()
	e.status.Err = err
	if e.status.Since.IsZero() {
		e.status.Since = now
	}
	lag := synced - min(e.status.Exported, synced)
	e.mu.Unlock()
	if now.Sub(e.said) >= time.Minute {
		e.said = now
		e.cfg.Log.Warn("records could not be sent", "error", err, "lag", lag, "failed_attempts", e.failing)
	}
	wait := e.cfg.MaxBackoff
	if shift := e.failing - 1; shift < 30 && e.cfg.Backoff<<shift < wait {
		wait = e.cfg.Backoff << shift
	}
	s, ok := errors.AsType[*sendError](err)
	if !ok {
		return jittered(wait)
	}
	v := judge(s.err)
	narrower := v.narrow && s.count > 1
	if narrower {
		e.most = s.count / 2
	}
	switch {
	case v.refused && narrower:
		wait = e.cfg.Backoff // what is to be found is which record, not when
	case v.refused:
		wait = e.cfg.MaxBackoff
	}
	return max(jittered(wait), v.asked)
}

// pause waits, or not as long if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
