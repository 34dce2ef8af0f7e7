package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// lookAtKeys is how often a replica looks whether it has been given another key.
const lookAtKeys = 5 * time.Second

// replica is the authority of one of several: its own key, certified by the
// deployment's root, and the ledger, reviews and keys that all keep in etcd.
type replica struct {
	dir    string
	log    *slog.Logger
	client *etcd.Client
	ledger *etcd.Ledger
	ring   *keyring.Ring
	keys   *etcd.Keys

	learning chan reading // holds the last reading; whoever has taken it out may read

	until atomic.Int64 // when its key is no longer certified, in Unix nanoseconds

	mu    sync.Mutex
	using string    // guarded by mu: the statement of the key that is signed with
	fault error     // guarded by mu: why the files cannot be used
	since time.Time // guarded by mu: when that began
}

// credential is what the files of a replica say.
type credential struct {
	key       *keyring.Key
	statement string
	root      ed25519.PublicKey
	replica   keyring.Replica
}

// readCredential reads the files of a replica. The statement must be of the key.
func readCredential(dir string, now time.Time) (*credential, error) {
	public, err := os.ReadFile(filepath.Join(dir, rootPublicFile))
	if err != nil {
		return nil, fmt.Errorf("the root's public key: %w: pdp keys replica makes these files", err)
	}
	c := &credential{}
	if c.root, err = keyring.ParsePublic(public); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, rootPublicFile), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, statementFile))
	if err != nil {
		return nil, fmt.Errorf("the root's statement: %w", err)
	}
	c.statement = strings.TrimSuffix(string(text), "\n")
	if c.replica, err = keyring.OpenReplica(c.root, c.statement, now); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, statementFile), err)
	}
	if c.key, err = keyring.ReadKey(filepath.Join(dir, replicaFile)); err != nil {
		return nil, err
	}
	if c.key.ID() != c.replica.ID() {
		return nil, fmt.Errorf("%s is the statement of another key than %s", filepath.Join(dir, statementFile), filepath.Join(dir, replicaFile))
	}
	return c, nil
}

// openReplica opens what replicas share.
func openReplica(ctx context.Context, cfg etcd.Config, dir string, remember ledgerFlags, log *slog.Logger) (_ *replica, _ *authority, err error) {
	now := time.Now()
	c, err := readCredential(dir, now)
	if err != nil {
		return nil, nil, err
	}
	r := &replica{dir: dir, log: log, learning: make(chan reading, 1)}
	r.learning <- reading{}
	if r.client, err = etcd.Dial(cfg); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, reachEtcd)
	defer cancel()
	if r.ledger, err = etcd.OpenLedger(ctx, r.client, etcd.LedgerConfig{Retention: remember.Remember}); err != nil {
		return nil, nil, err
	}
	reviews, err := etcd.OpenReviews(r.client, etcd.ReviewsConfig{})
	if err != nil {
		return nil, nil, err
	}
	if of := c.replica.Instance; of != "" && of != r.ledger.Instance() {
		return nil, nil, fmt.Errorf("%s is for the decision point %s, and this one is %s: certify the key again", filepath.Join(dir, statementFile), of, r.ledger.Instance())
	}
	if r.ring, err = keyring.New(keyring.Config{Key: c.key}, now); err != nil {
		return nil, nil, err
	}
	if r.keys, err = etcd.OpenKeys(ctx, r.client, etcd.KeysConfig{Root: c.root, Instance: r.ledger.Instance(), Ring: r.ring}); err != nil {
		return nil, nil, err
	}
	if err = r.keys.Publish(ctx, c.statement); err != nil {
		return nil, nil, err
	}
	r.using = c.statement
	r.until.Store(c.replica.ExpiresAt.UnixNano())
	return r, &authority{
		keys: r.ring, ledger: r.ledger, reviews: reviews, shared: true, certified: r.certified, learn: r.learn,
		name: func(digest string) string { return digest }, // each replica's log has a key of its own
	}, nil
}

// certified reports whether this replica's key may sign.
func (r *replica) certified(now time.Time) bool { return now.UnixNano() < r.until.Load() }

// Reading the others' keys because of a grant or an approval.
const (
	learnEvery = 100 * time.Millisecond // at most, whatever strangers bring
	learnTime  = 2 * time.Second        // for that and what is before it
)

// reading is one of the others' keys.
type reading struct {
	began time.Time
	done  bool // without a fault
}

// learn has the ring know the keys that others had published when it was
// called. One reading serves all who came before it began.
func (r *replica) learn(ctx context.Context) error {
	came := time.Now()
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	var last reading
	select {
	case last = <-r.learning:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.learning <- last }()
	if last.done && last.began.After(came) {
		return nil
	}
	select {
	case <-time.After(learnEvery - time.Since(last.began)):
	case <-ctx.Done():
		return ctx.Err()
	}
	last.began = time.Now()
	err := r.keys.Refresh(ctx)
	last.done = err == nil
	return err
}

// run keeps what replicas share, and takes up new keys, until ctx ends.
func (r *replica) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.ledger.Run(ctx) })
	group.Go(func() error { return r.keys.Run(ctx) })
	group.Go(func() error {
		tick := time.NewTicker(lookAtKeys)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				r.noted(r.look(ctx))
			}
		}
	})
	return group.Wait()
}

// look takes up the key in the files, if it is another one: the others know it
// before anything is signed with it.
func (r *replica) look(ctx context.Context) error {
	now := time.Now()
	c, err := readCredential(r.dir, now)
	if err != nil {
		return err
	}
	r.mu.Lock()
	same := c.statement == r.using
	r.mu.Unlock()
	if same {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachEtcd)
	defer cancel()
	if err := r.keys.Publish(ctx, c.statement); err != nil {
		return err
	}
	if c.key.ID() != r.ring.Current(now).ID() {
		r.ring.Use(c.key, now)
	}
	r.until.Store(c.replica.ExpiresAt.UnixNano())
	r.mu.Lock()
	r.using = c.statement
	r.mu.Unlock()
	r.log.Info("this replica signs with the key in its files", "key", c.key.ID(), "certified_until", c.replica.ExpiresAt)
	return nil
}

// noted remembers why the files cannot be used, and logs each reason once.
func (r *replica) noted(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if (err == nil) != (r.fault == nil) {
		r.since = time.Now()
	}
	if err != nil && (r.fault == nil || err.Error() != r.fault.Error()) {
		r.log.Error("the key in this replica's files cannot be used, and the one before stays for as long as it is certified", "error", err)
	}
	r.fault = err
}

// troubles are what /readyz tells.
func (r *replica) troubles(world *snapshot.Snapshot) []server.Trouble {
	r.mu.Lock()
	fault, since := r.fault, r.since
	r.mu.Unlock()
	var out []server.Trouble
	if until := time.Unix(0, r.until.Load()); !time.Now().Before(until) {
		out = append(out, server.Trouble{Part: "keys", Since: until, Message: "this replica's key is no longer certified, so it mints no grants: certify another with pdp keys replica"})
	}
	if world != nil {
		now := time.Now()
		if _, revoked := world.Revocations.Revoked(revocation.Key, pdp.DefaultIssuer, r.ring.Current(now).ID(), now, now); revoked {
			out = append(out, server.Trouble{Part: "keys", Message: "this replica's key is revoked, so it signs nothing: certify another with pdp keys replica"})
		}
	}
	if fault != nil {
		out = append(out, server.Trouble{Part: "keys", Since: since, Message: "the key in this replica's files cannot be used: the server's log says why"})
	}
	if s := r.keys.Status(); s.Fault != nil || len(s.Refused) > 0 {
		out = append(out, server.Trouble{Part: "keys", Message: "keys of other replicas are not followed, or are refused: the server's log says why"})
	}
	return out
}

func (r *replica) close() error { return r.client.Close() }
