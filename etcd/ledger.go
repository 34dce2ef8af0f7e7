package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/grant"
)

// LedgerConfig says how long a [Ledger] remembers.
type LedgerConfig struct {
	// Retention is how long redemptions are remembered at least; 0:
	// grant.DefaultRetention. All replicas should have the same.
	Retention time.Duration
}

// Ledger is the grant.Ledger that replicas share in an etcd cluster.
//
// A claim is one transaction. It compares that neither the grant nor the
// proposal nor the redemption is there, that nothing has had its effect under the
// idempotency key, and that the revocation log ends where the claimant says: so
// nothing is claimed after a revocation, or an effect, was acknowledged, at any
// replica, whatever that replica has heard of. What was lost on the way
// is sent again: the transaction can take effect once, and says whose it was.
//
// Under ledger/ are
//
//	instance              names the ledger, written once
//	sources/INSTANCE      the source that it was made for
//	grants/JTI            by which redemption a grant was claimed
//	proposals/NAME        the same of a proposal, by its name in the log
//	redemptions/ID        what was claimed
//	settled/ID            what settled a redemption
//	effects/HEX           which redemption an effect settled, by a SHA-256 of its
//	                      observer and id
//	done/KEY              which redemption was the first to have its effect under
//	                      an idempotency key
//	due/HOUR/ID           what is to be forgotten of a redemption, and when
//	due/HOUR/ID/settled   the same of what settled it
//	due/HOUR/ID/done      the same of done/KEY, a retention after the effect, when
//	                      all is forgotten that was claimed under the key before
//	timers/HOUR           there while that hour has not ended, under a lease
//
// No entry is under a lease. What is due lies in buckets, one for each hour,
// and each bucket has a timer, a key under a lease. [Ledger.Sweep] forgets a
// bucket when its timer has run out and its own clock says so, too: neither a
// lease that is revoked early nor one clock that is wrong makes a ledger forget.
type Ledger struct {
	client    *Client
	retention time.Duration
	instance  string

	mu       sync.Mutex // guards the rest
	now      time.Time  // the latest that was passed in
	head     *head      // nil: it has not been read
	cluster  uint64
	revision int64 // of etcd: the greatest that an answer had
	fault    error // nothing is claimed any more; nil: none
	gone     bool  // etcd has gone back, and others may not know
}

// head is the end of the revocation log: its sequence, and the ModRevision of
// state/sequence; both 0 where nothing was ever revoked.
type head struct {
	sequence uint64
	at       int64
}

// OpenLedger opens the ledger under the client's prefix; where there is none, it
// makes one. The client stays the caller's, and must not be closed before. It
// fails when ctx ends first.
func OpenLedger(ctx context.Context, c *Client, cfg LedgerConfig) (*Ledger, error) {
	if cfg.Retention == 0 {
		cfg.Retention = grant.DefaultRetention
	}
	if cfg.Retention < time.Minute || cfg.Retention > grant.MaxRetention {
		return nil, fmt.Errorf("etcd: the ledger's retention of %v is not within 1m and %v", cfg.Retention, grant.MaxRetention)
	}
	key, id := c.keys.instance(), strings.ToLower(rand.Text())
	for {
		found, err := c.identifyOnce(ctx, key, id)
		if err == nil && !isSource(found) {
			return nil, damaged(key, "it names no ledger")
		}
		if err == nil {
			l := &Ledger{client: c, retention: cfg.Retention, instance: found}
			if err = l.belong(ctx); err == nil {
				return l, nil
			}
		}
		switch {
		case !lost(err) || ctx.Err() != nil:
			return nil, fmt.Errorf("etcd: opening the ledger under %s: %w", c.keys.ledger(), explain(err))
		}
		pause(ctx, leastPause)
	}
}

// belong compares the ledger with the source that is here now: where the store
// was brought back from a backup, and was given another, what was granted before
// must be void. What is asked from then on is not older than this.
func (l *Ledger) belong(ctx context.Context) error {
	k := l.client.keys
	got, err := l.ask(ctx, nil, []clientv3.Op{clientv3.OpGet(k.source())})
	if err != nil {
		return err
	}
	source := string(value(answersOf(got)[0]))
	if source == "" { // nobody has followed it yet
		return nil
	}
	first, err := l.client.identifyOnce(ctx, k.sourceOf(l.instance), source)
	if err == nil && first != source {
		return damage{fmt.Sprintf("it is the one of the source %q, and the source is %q now: was etcd brought back from a backup? "+
			"Then delete %s, so that grants of before are void: some may have been used", first, source, k.instance())}
	}
	return err
}

// Instance implements grant.Ledger. It is made at random when the ledger is
// opened for the first time, and kept in ledger/instance. Whoever brings etcd
// back from a backup deletes that key before replicas start: the grants of
// before, of which some may have been used since the backup, are void then. A
// replica that has run meanwhile, and finds etcd at an older revision, does so.
func (l *Ledger) Instance() string { return l.instance }

// same is true while this is the ledger that was opened.
func (l *Ledger) same() clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(l.client.keys.instance()), "=", l.instance)
}

// Claim implements grant.Ledger.
func (l *Ledger) Claim(ctx context.Context, c grant.Claim) (grant.Standing, error) {
	if err := c.Check(); err != nil {
		return grant.Unknown, err
	}
	if late := c.Expires.Add(grant.MaxSkew); !l.pass(c.Now).Before(late) {
		return grant.Unknown, grant.ErrForgotten
	}
	w, err := l.prepare(&c)
	if err != nil {
		return grant.Unknown, err
	}
	for open, n := false, 1; ; n++ {
		standing, err := l.claim(ctx, &c, w)
		switch {
		case err == nil && standing != grant.Unknown:
			return standing, nil
		case err == nil && ctx.Err() == nil: // something changed meanwhile
			pause(ctx, leastPause*time.Duration(min(n-1, 10))/10)
			continue
		case err == nil:
			err = ctx.Err()
		case errors.Is(err, rpctypes.ErrNoSpace):
			return grant.Unknown, fmt.Errorf("%w: %w", grant.ErrFull, explain(err))
		}
		switch {
		case !lost(err) && !open:
			return grant.Unknown, fmt.Errorf("etcd: claiming: %w", explain(err))
		case !lost(err) || ctx.Err() != nil:
			return grant.Unknown, fmt.Errorf("%w: %w", errUnknown, explain(err))
		}
		open = true
		pause(ctx, leastPause)
	}
}

// claiming is a claim as it is written.
type claiming struct {
	holder             holding
	bucket             bucket
	grant, proposal    string // keys
	redemption, done   string // keys; done of no idempotency key is never there
	record, due, names string // values
}

func (l *Ledger) prepare(c *grant.Claim) (*claiming, error) {
	k := l.client.keys
	w := &claiming{
		holder: holding{c.ID, c.Attempt, rand.Text()},
		bucket: bucketOf(laterOf(c.Now.Add(l.retention), c.Expires.Add(3*grant.MaxSkew))),
		grant:  k.granted(c.Grant), proposal: k.proposal(c.Proposal), redemption: k.redemption(c.ID), done: k.done(c.Plan.IdempotencyKey),
	}
	w.due = k.due(w.bucket, c.ID)
	var err error
	if w.record, err = encodeRedemption(c, w.bucket); err != nil {
		return nil, err
	}
	w.names, err = k.encodeNames(w.grant, w.proposal, w.redemption)
	return w, err
}

// claim tries once. Without an error, Unknown says that something has changed
// and it may be tried again.
func (l *Ledger) claim(ctx context.Context, c *grant.Claim, w *claiming) (grant.Standing, error) {
	k := l.client.keys
	at, err := l.standing(ctx, c.Revocations)
	if err != nil {
		return grant.Unknown, err
	}
	if at.sequence > c.Revocations {
		return grant.Overtaken, nil
	}
	got, err := l.ask(ctx, []clientv3.Cmp{
		l.same(), unchanged(k.sequence(), at.at), there(k.timer(w.bucket)),
		absent(w.grant), absent(w.proposal), absent(w.redemption), absent(w.done),
	}, []clientv3.Op{
		clientv3.OpPut(w.grant, w.holder.String()), clientv3.OpPut(w.proposal, w.holder.String()),
		clientv3.OpPut(w.redemption, w.record), clientv3.OpPut(w.due, w.names),
	}, clientv3.OpGet(k.instance()), clientv3.OpGet(k.sequence()), clientv3.OpGet(k.timer(w.bucket)),
		clientv3.OpGet(w.grant), clientv3.OpGet(w.proposal), clientv3.OpGet(w.redemption), clientv3.OpGet(w.done))
	if err != nil {
		return grant.Unknown, err
	}
	if got.Succeeded {
		return grant.Claimed, nil
	}
	answers := answersOf(got)
	if err := l.isSame(answers[0]); err != nil {
		return grant.Unknown, err
	}
	if at, err = l.moved(answers[1]); err != nil {
		return grant.Unknown, err
	}
	switch {
	case at.sequence > c.Revocations:
		return grant.Overtaken, nil
	case at.sequence < c.Revocations:
		return grant.Unknown, l.ahead(c.Revocations, at)
	}
	standing, err := w.resolve(answers[3], answers[4], answers[5], answers[6])
	if err == nil && standing == grant.Unknown && len(answers[2]) == 0 {
		err = l.setTimer(ctx, w.bucket, c.Now)
	}
	return standing, err
}

// resolve says whose the keys are. Unknown: nobody's.
func (w *claiming) resolve(grants, proposals, redemptions, dones []*mvccpb.KeyValue) (grant.Standing, error) {
	var held [2]holding
	for i, kvs := range [][]*mvccpb.KeyValue{grants, proposals} {
		if len(kvs) == 0 {
			continue
		}
		var ok bool
		if held[i], ok = parseHolding(string(kvs[0].Value)); !ok || kvs[0].Version != 1 {
			return grant.Unknown, damaged(string(kvs[0].Key), "it does not say who has redeemed")
		}
	}
	done, err := parseDone(dones)
	switch {
	case err != nil:
		return grant.Unknown, err
	case held[0] == w.holder && held[1] == w.holder: // an answer was lost
		return grant.Claimed, nil
	case done != "" && done != held[0].redemption:
		return grant.AlreadyClaimed, nil
	case len(grants)+len(proposals)+len(redemptions) == 0:
		return grant.Unknown, nil
	case held[0] != held[1]:
		return grant.AlreadyClaimed, nil
	case len(grants) == 1 && held[0].attempt == w.holder.attempt:
		return grant.Repeated, nil
	}
	return grant.AlreadyClaimed, nil
}

// standing returns where the revocation log ends, as far as is known: not before
// a claim that counts so many entries was judged.
func (l *Ledger) standing(ctx context.Context, counted uint64) (head, error) {
	l.mu.Lock()
	at := l.head
	l.mu.Unlock()
	if at != nil && at.sequence >= counted {
		return *at, nil
	}
	key := l.client.keys.sequence()
	got, err := l.ask(ctx, nil, []clientv3.Op{clientv3.OpGet(key)})
	if err != nil {
		return head{}, err
	}
	now, err := l.moved(answersOf(got)[0])
	if err == nil && now.sequence < counted {
		err = l.ahead(counted, now)
	}
	return now, err
}

func (l *Ledger) ahead(counted uint64, at head) error {
	return damaged(l.client.keys.sequence(), "a claim was held against %d revocations, but etcd has %d: was it brought back from a backup?", counted, at.sequence)
}

// moved notes where the revocation log ends.
func (l *Ledger) moved(kvs []*mvccpb.KeyValue) (head, error) {
	at := head{at: modified(kvs)}
	if at.at != 0 {
		t, ok := parseTail(string(value(kvs)))
		if !ok {
			return head{}, damaged(l.client.keys.sequence(), "it is no end of a log")
		}
		at.sequence = t.sequence
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head == nil || at.at > l.head.at {
		l.head = &at
	}
	return at, nil
}

func (l *Ledger) isSame(kvs []*mvccpb.KeyValue) error {
	if found := string(value(kvs)); found != l.instance {
		return damaged(l.client.keys.instance(), "the ledger is %q and was %q: restart this server", found, l.instance)
	}
	return nil
}

// pass notes the time, which never goes back, and returns it.
func (l *Ledger) pass(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = laterOf(l.now, now)
	return l.now
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// there is true while a key is there.
func there(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), ">", 0)
}

// ask sends a transaction once, and believes no answer of an etcd that has gone
// back: what it has forgotten could be redeemed again.
func (l *Ledger) ask(ctx context.Context, when []clientv3.Cmp, then []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	l.mu.Lock()
	least, fault := l.revision, l.fault
	l.mu.Unlock()
	if fault != nil {
		return nil, l.void(ctx, fault)
	}
	got, err := l.client.try(ctx, when, then, otherwise...)
	if err != nil {
		return nil, err
	}
	if fault = l.believe(got.Header, least); fault != nil {
		return nil, l.void(ctx, fault)
	}
	return got, nil
}

func (l *Ledger) believe(h *etcdserverpb.ResponseHeader, least int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cluster != 0 && h.ClusterId != l.cluster:
		l.fault = damage{fmt.Sprintf("etcd: another cluster answers (%x) than before (%x): nothing is redeemed until this server is restarted", h.ClusterId, l.cluster)}
	case h.Revision < least:
		l.gone = true
		l.fault = damage{fmt.Sprintf("etcd: it is at revision %d and was at %d: was it brought back from a backup? Then see docs/etcd.md. "+
			"What was granted before is void, and nothing is redeemed until all servers are restarted", h.Revision, least)}
	}
	l.cluster, l.revision = h.ClusterId, max(l.revision, h.Revision)
	return l.fault
}

// void takes the instance away if etcd has gone back, so that those of the
// replicas who can't know of it redeem nothing that was forgotten: what is
// granted from then on is of another. It returns the fault.
func (l *Ledger) void(ctx context.Context, fault error) error {
	l.mu.Lock()
	gone := l.gone
	l.mu.Unlock()
	if !gone {
		return fault
	}
	if _, err := l.client.insist(ctx, []clientv3.Cmp{l.same()}, []clientv3.Op{clientv3.OpDelete(l.client.keys.instance())}); err != nil {
		return fmt.Errorf("%w; but others may not know of it: delete %s (%w)", fault, l.client.keys.instance(), err)
	}
	l.mu.Lock()
	l.gone = false
	l.mu.Unlock()
	return fault
}
