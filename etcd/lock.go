package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrConcurrent is the error of a push that another one came before, or is
// under way beside.
var ErrConcurrent = errors.New("etcd: another push came first: nothing was put in force")

// errLockLost is the error of a push whose lease has run out.
var errLockLost = fmt.Errorf("%w: this push took too long and lost its lock: push again", ErrConcurrent)

// lockTTL is after how many seconds a push that has died no longer keeps
// others from pushing.
const lockTTL = 15

// lock lets one push at a time write under the prefix. Whatever it writes
// compares held, so that one whose lease has run out writes nothing more.
type lock struct {
	held     clientv3.Cmp
	revision int64 // ModRevision of its key
	stop     func()
}

// holder says who pushes.
type holder struct {
	ID    string    `json:"id"`
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since"`
}

// grant asks for a lease. One whose answer is lost runs out.
func (c *Client) grant(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
	for n := 1; ; n++ {
		once, done := context.WithTimeout(ctx, c.cfg.RequestTimeout)
		got, err := c.etcd.Grant(once, lockTTL)
		done()
		if err == nil || !lost(err) || ctx.Err() != nil || n == attempts {
			return got, err
		}
		pause(ctx, leastPause)
	}
}

// lock takes the lock, or says who has it. Call stop.
func (c *Client) lock(ctx context.Context, by string) (*lock, error) {
	key := c.keys.pushing()
	grant, err := c.grant(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd: asking for a lease: %w", explain(err))
	}
	keeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	release := func() {
		cancel()
		group.Wait()
		for range attempts {
			last, done := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.RequestTimeout)
			_, err := c.etcd.Revoke(last, grant.ID)
			done()
			if err == nil || !lost(err) {
				return
			}
		}
		// It runs out.
	}
	kept, err := c.etcd.KeepAlive(keeping, grant.ID)
	if err != nil {
		release()
		return nil, fmt.Errorf("etcd: keeping a lease: %w", explain(err))
	}
	group.Go(func() {
		for range kept { // whoever asks for them must take them
		}
	})
	text, err := json.Marshal(&holder{rand.Text(), by, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		release()
		return nil, fmt.Errorf("etcd: locking: %w", err)
	}
	done, revision, answers, err := c.commit(ctx, write{
		key: key, value: string(text), with: []clientv3.OpOption{clientv3.WithLease(grant.ID)}, ask: []clientv3.Op{clientv3.OpGet(key)},
	})
	if err == nil && !done {
		var other holder
		_ = decode(value(answers[0]), &other) // for people
		err = fmt.Errorf("%w: %q pushes since %s: wait for it, or at most %d s if it has died, then look with --list and push again",
			ErrConcurrent, other.By, other.Since.Format(time.RFC3339), lockTTL)
	}
	if err != nil {
		release()
		return nil, err
	}
	return &lock{held: unchanged(key, revision), revision: revision, stop: release}, nil
}
