package etcd

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/keyring"
)

// KeysConfig says whose keys a replica trusts.
type KeysConfig struct {
	// Root verifies the replicas' statements. Required.
	Root ed25519.PublicKey
	// Instance is the decision point that this is a replica of. Statements that
	// name another are refused; those that name none are not.
	Instance string
	// Ring is told whom to trust. Required.
	Ring *keyring.Ring
	// Keep is how long a key stays when its replica has gone: as long as what it
	// signed may be used. 0: keyring.DefaultKeep. At least a minute.
	Keep time.Duration
}

// Keys are the public keys of the replicas, under keys/ in etcd. Each replica
// publishes the root's statement of its own key, under a lease that it refreshes
// while it runs, and trusts those of the others that are as they should be.
//
// Whoever may write to etcd can take a replica's trust away, but can't make a
// key trusted that the root did not certify. Where etcd can't be reached, those
// that were trusted stay so until their statements end.
type Keys struct {
	client *Client
	cfg    KeysConfig

	// reading is held while keys are read and trusted, so that an older reading
	// never comes after a newer one. It is taken before mu.
	reading sync.Mutex

	mu     sync.Mutex // guards the rest
	own    published
	status KeysStatus
}

// published is what this replica has published.
type published struct {
	id, statement string // both empty: nothing
}

// KeysStatus is how a replica stands with the keys of the others.
type KeysStatus struct {
	Trusted int // replicas, without this one
	// Refused says what was found under keys/ and is not trusted, and why.
	Refused []string
	// Fault says why keys are not followed or published right now; nil: they are.
	Fault error
}

// OpenKeys reads the keys of the others and has the ring trust them. The client
// stays the caller's, and must not be closed before Run has returned.
func OpenKeys(ctx context.Context, c *Client, cfg KeysConfig) (*Keys, error) {
	if cfg.Keep == 0 {
		cfg.Keep = keyring.DefaultKeep
	}
	switch {
	case len(cfg.Root) != ed25519.PublicKeySize:
		return nil, errors.New("etcd: replicas trust each other by a root's statements: name its public key")
	case cfg.Ring == nil:
		return nil, errors.New("etcd: there is no ring to be told of keys")
	case cfg.Keep < time.Minute:
		return nil, fmt.Errorf("etcd: keys that stay for %v are gone before what they signed: give at least 1m", cfg.Keep)
	}
	k := &Keys{client: c, cfg: cfg}
	if err := k.Refresh(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// Status returns how the replica stands with the others' keys.
func (k *Keys) Status() KeysStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.status
	out.Refused = slices.Clone(out.Refused)
	return out
}

// Publish makes a statement of this replica's key known to the others, and keeps
// it so while Run runs. What was published before stays for Keep. Sign nothing
// with a key before this has returned.
func (k *Keys) Publish(ctx context.Context, statement string) error {
	replica, err := k.open(statement, time.Now())
	if err != nil {
		return fmt.Errorf("etcd: publishing this replica's key: %w", err)
	}
	own := published{id: replica.ID(), statement: statement}
	if err := k.put(ctx, own); err != nil {
		return fmt.Errorf("etcd: publishing this replica's key: %w", explain(err))
	}
	k.mu.Lock()
	k.own = own
	k.mu.Unlock()
	return nil
}

// open reads a statement of a replica of this decision point.
func (k *Keys) open(statement string, now time.Time) (keyring.Replica, error) {
	replica, err := keyring.OpenReplica(k.cfg.Root, statement, now)
	if err == nil && replica.Instance != "" && replica.Instance != k.cfg.Instance {
		err = fmt.Errorf("it is a replica of another decision point, %q", replica.Instance)
	}
	return replica, err
}

// put publishes under a new lease.
func (k *Keys) put(ctx context.Context, own published) error {
	for n := 1; ; n++ {
		once, cancel := context.WithTimeout(ctx, k.client.cfg.RequestTimeout)
		lease, err := k.client.etcd.Grant(once, int64((k.cfg.Keep+time.Second-1)/time.Second))
		if err == nil {
			_, err = k.client.etcd.Put(once, k.client.keys.published()+own.id, own.statement, clientv3.WithLease(lease.ID))
		}
		cancel()
		if err == nil || !lost(err) || ctx.Err() != nil || n == attempts {
			return err
		}
		pause(ctx, leastPause) // a lease whose answer was lost runs out
	}
}

// Refresh reads what is published now, and has the ring trust that and nothing
// else. Whoever meets a key that the ring does not know may ask for it.
func (k *Keys) Refresh(ctx context.Context) error {
	_, err := k.read(ctx)
	return err
}

// read returns the revision of etcd that it has read.
func (k *Keys) read(ctx context.Context) (revision int64, err error) {
	k.reading.Lock()
	defer k.reading.Unlock()
	place := k.client.keys.published()
	got, err := k.client.scan(ctx, place)
	if err != nil {
		return 0, fmt.Errorf("etcd: reading %s: %w", place, explain(err))
	}
	k.mu.Lock()
	own := k.own.id
	k.mu.Unlock()
	now := time.Now()
	var trusted []keyring.Replica
	var refused []string
	for _, kv := range got.Kvs {
		id := strings.TrimPrefix(string(kv.Key), place)
		replica, err := k.check(id, kv, now)
		switch {
		case err != nil:
			refused = append(refused, fmt.Sprintf("the key %q is not trusted: %v", kv.Key, err))
		case id != own:
			trusted = append(trusted, replica)
		}
	}
	if err := k.cfg.Ring.Trust(trusted); err != nil {
		return 0, fmt.Errorf("etcd: trusting what is under %s: %w", place, err)
	}
	k.tell(len(trusted), refused)
	return got.Header.Revision, nil
}

// check reads what is under a key.
func (k *Keys) check(id string, kv *mvccpb.KeyValue, now time.Time) (keyring.Replica, error) {
	replica, err := k.open(string(kv.Value), now)
	switch {
	case err != nil:
		return replica, err
	case replica.ID() != id:
		return replica, errors.New("the statement is of another key")
	case kv.Lease == 0:
		return replica, errors.New("it has no lease, so it was not published by a replica")
	}
	return replica, nil
}

// tell notes what was read, and says once what is refused.
func (k *Keys) tell(trusted int, refused []string) {
	k.mu.Lock()
	before := k.status
	k.status = KeysStatus{Trusted: trusted, Refused: refused, Fault: before.Fault}
	k.mu.Unlock()
	for _, what := range refused {
		if !slices.Contains(before.Refused, what) {
			k.client.cfg.Log.Warn("etcd: " + what)
		}
	}
	if trusted != before.Trusted {
		k.client.cfg.Log.Info("the keys of other replicas are trusted", "replicas", trusted, "before", before.Trusted)
	}
}

// All keys are read after so many probe intervals, whatever the watch says:
// statements end by themselves, and a watch does not say that etcd is gone.
const readEvery = 5

// keepEvery is how often the lease is refreshed at least.
const keepEvery = time.Minute

// Run refreshes what was published, and follows the keys of the others, until
// ctx ends; it returns nil then.
func (k *Keys) Run(ctx context.Context) error {
	wait := leastPause
	for {
		began := time.Now()
		err := k.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.mu.Lock()
		told := k.status.Fault != nil
		k.status.Fault = err
		k.mu.Unlock()
		if !told {
			k.client.cfg.Log.Warn("the keys of other replicas cannot be followed; those trusted stay, and it is tried again", "error", err)
		}
		if time.Since(began) > mostPause {
			wait = leastPause
		}
		pause(ctx, wait)
		wait = min(2*wait, mostPause)
	}
}

// session reads and watches until something fails.
func (k *Keys) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := k.keep(ctx); err != nil {
		return err
	}
	revision, err := k.read(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.status.Fault = nil
	k.mu.Unlock()
	changes := k.client.etcd.Watch(clientv3.WithRequireLeader(ctx), k.client.keys.published(), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	keeping, reading := time.NewTicker(min(k.cfg.Keep/4, keepEvery)), time.NewTicker(readEvery*k.client.cfg.Probe)
	defer keeping.Stop()
	defer reading.Stop()
	for {
		keep := true
		select {
		case change, ok := <-changes:
			if !ok {
				return errors.New("etcd: the watch of keys has ended")
			}
			if err := change.Err(); err != nil {
				return fmt.Errorf("etcd: watching keys: %w", explain(err))
			}
		case <-keeping.C:
		case <-reading.C:
			keep = false
		case <-ctx.Done():
			return ctx.Err()
		}
		if keep {
			if err := k.keep(ctx); err != nil {
				return err
			}
		}
		if _, err := k.read(ctx); err != nil {
			return err
		}
	}
}

// keep refreshes the lease of what was published, and publishes it again where
// somebody has taken it away, or its lease.
func (k *Keys) keep(ctx context.Context) error {
	k.mu.Lock()
	own := k.own
	k.mu.Unlock()
	if own.id == "" {
		return nil
	}
	key := k.client.keys.published() + own.id
	got, err := k.client.get(ctx, key)
	if err != nil {
		return fmt.Errorf("etcd: looking for this replica's key: %w", explain(err))
	}
	// The lease may be of another replica that was given the same key: if each put
	// its own in the place, they would never end.
	if string(value(got.Kvs)) == own.statement && got.Kvs[0].Lease != 0 {
		once, cancel := context.WithTimeout(ctx, k.client.cfg.RequestTimeout)
		_, err = k.client.etcd.KeepAliveOnce(once, clientv3.LeaseID(got.Kvs[0].Lease))
		cancel()
		if err == nil {
			return nil
		}
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("etcd: refreshing this replica's key: %w", explain(err))
		}
	}
	k.client.cfg.Log.Warn("this replica's key was removed or changed in etcd by somebody else, and is published again", "key", key)
	if err := k.put(ctx, own); err != nil {
		return fmt.Errorf("etcd: publishing this replica's key again: %w", explain(err))
	}
	return nil
}
