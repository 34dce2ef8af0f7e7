package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/grant"
)

// Redemption implements grant.Ledger.
func (l *Ledger) Redemption(ctx context.Context, id string) (grant.Claim, error) {
	if !grant.IsName(id) {
		return grant.Claim{}, grant.ErrNotFound
	}
	found, err := l.find(ctx, id)
	switch {
	case err != nil:
		return grant.Claim{}, err
	case found.at == 0:
		return grant.Claim{}, grant.ErrNotFound
	}
	return found.claim, nil
}

// Attempt implements grant.Ledger.
func (l *Ledger) Attempt(ctx context.Context, proposal string) (grant.Claim, error) {
	if !grant.IsName(proposal) {
		return grant.Claim{}, grant.ErrNotFound
	}
	key := l.client.keys.proposal(proposal)
	// Between two readings, all of it may be forgotten.
	for range attempts {
		answers, err := l.read(ctx, key)
		if err != nil {
			return grant.Claim{}, err
		}
		if len(answers[0]) == 0 {
			return grant.Claim{}, grant.ErrNotFound
		}
		held, ok := parseHolding(string(value(answers[0])))
		if !ok {
			return grant.Claim{}, damaged(key, "it does not say who has redeemed")
		}
		found, err := l.find(ctx, held.redemption)
		switch {
		case err != nil:
			return grant.Claim{}, err
		case found.at != 0 && found.claim.Proposal == proposal && found.claim.Attempt == held.attempt:
			return l.whether(ctx, found.claim)
		case found.at != 0:
			return grant.Claim{}, damaged(key, "it names the redemption of another proposal")
		}
	}
	return grant.Claim{}, damaged(key, "it names a redemption that is not there")
}

// whether adds to a claim whether its effect was had elsewhere. That comes after
// the claim was read, and never ends: so there was an instant when both were so.
func (l *Ledger) whether(ctx context.Context, c grant.Claim) (grant.Claim, error) {
	if c.Plan.IdempotencyKey == "" {
		return c, nil
	}
	answers, err := l.read(ctx, l.client.keys.done(c.Plan.IdempotencyKey))
	if err != nil {
		return grant.Claim{}, err
	}
	done, err := parseDone(answers[0])
	if err != nil {
		return grant.Claim{}, err
	}
	c.DoneElsewhere = done != "" && done != c.ID
	return c, nil
}

// found is a redemption as it stands.
type found struct {
	claim   grant.Claim // with its outcome
	at      int64       // ModRevision; 0: there is none
	bucket  bucket
	settled *grant.Effect // nil: it is not
	call    string        // that settled it
}

// find reads a redemption.
func (l *Ledger) find(ctx context.Context, id string) (found, error) {
	k := l.client.keys
	answers, err := l.read(ctx, k.redemption(id), k.settled(id))
	if err != nil {
		return found{}, err
	}
	return l.parseFound(id, answers[0], answers[1])
}

func (l *Ledger) parseFound(id string, redemptions, settlements []*mvccpb.KeyValue) (found, error) {
	k := l.client.keys
	f := found{at: modified(redemptions)}
	if f.at == 0 {
		if len(settlements) > 0 {
			return found{}, damaged(k.redemption(id), "it is missing, but was settled")
		}
		return f, nil
	}
	var err error
	if f.claim, f.bucket, err = parseRedemption(id, value(redemptions)); err != nil {
		return found{}, damaged(k.redemption(id), "%v", err)
	}
	if len(settlements) > 0 {
		e, call, err := parseSettlement(id, value(settlements))
		if err != nil {
			return found{}, damaged(k.settled(id), "%v", err)
		}
		f.settled, f.call, f.claim.Outcome = &e, call, e.Outcome
	}
	return f, nil
}

// read reads keys at one revision of this ledger.
func (l *Ledger) read(ctx context.Context, all ...string) ([][]*mvccpb.KeyValue, error) {
	ops := []clientv3.Op{clientv3.OpGet(l.client.keys.instance())}
	for _, key := range all {
		ops = append(ops, clientv3.OpGet(key))
	}
	for n := 1; ; n++ {
		got, err := l.ask(ctx, nil, ops)
		switch {
		case err == nil:
			answers := answersOf(got)
			return answers[1:], l.isSame(answers[0])
		case !lost(err) || ctx.Err() != nil || n == attempts:
			return nil, fmt.Errorf("etcd: asking the ledger: %w", explain(err))
		}
		pause(ctx, leastPause)
	}
}

// Settle implements grant.Ledger.
func (l *Ledger) Settle(ctx context.Context, e grant.Effect) (grant.Standing, error) {
	if err := e.Check(); err != nil {
		return grant.Unknown, err
	}
	l.pass(e.Now)
	call := rand.Text()
	text, err := encodeSettlement(&e, call)
	if err != nil {
		return grant.Unknown, err
	}
	for open := false; ; {
		standing, err := l.settle(ctx, &e, call, text)
		switch {
		case err == nil && standing != grant.Unknown:
			return standing, nil
		case err == nil && ctx.Err() == nil: // something changed meanwhile
			pause(ctx, leastPause/10)
			continue
		case err == nil:
			err = ctx.Err()
		case errors.Is(err, grant.ErrNotFound):
			return grant.Unknown, err
		case errors.Is(err, rpctypes.ErrNoSpace):
			return grant.Unknown, fmt.Errorf("%w: %w", grant.ErrFull, explain(err))
		}
		switch {
		case !lost(err) && !open:
			return grant.Unknown, fmt.Errorf("etcd: settling: %w", explain(err))
		case !lost(err) || ctx.Err() != nil:
			return grant.Unknown, fmt.Errorf("%w: %w", errUnknown, explain(err))
		}
		open = true
		pause(ctx, leastPause)
	}
}

// settle tries once; see claim.
func (l *Ledger) settle(ctx context.Context, e *grant.Effect, call, text string) (grant.Standing, error) {
	k := l.client.keys
	effectKey, settledKey, redemptionKey := k.effect(effectDigest(e.Observer, e.ID)), k.settled(e.Redemption), k.redemption(e.Redemption)
	// Whoever claimed under the same key before is remembered for a retention from
	// now on at most, by whatever clock.
	until := bucketOf(l.pass(e.Now).Add(l.retention + grant.MaxSkew))
	got, err := l.ask(ctx, nil, []clientv3.Op{
		clientv3.OpGet(k.instance()), clientv3.OpGet(redemptionKey), clientv3.OpGet(settledKey), clientv3.OpGet(effectKey), clientv3.OpGet(k.timer(until)),
	})
	if err != nil {
		return grant.Unknown, err
	}
	answers := answersOf(got)
	if err := l.isSame(answers[0]); err != nil {
		return grant.Unknown, err
	}
	f, err := l.parseFound(e.Redemption, answers[1], answers[2])
	if err != nil {
		return grant.Unknown, err
	}
	switch {
	case f.at == 0:
		return grant.Unknown, grant.ErrNotFound
	case f.settled != nil && f.call == call: // an answer was lost
		return grant.Claimed, nil
	case f.settled != nil && f.settled.Same(e):
		return grant.Repeated, nil
	case f.settled != nil || e.ID != "" && len(answers[3]) > 0:
		return grant.AlreadyClaimed, nil
	}
	when := []clientv3.Cmp{l.same(), unchanged(redemptionKey, f.at), absent(settledKey)}
	then := []clientv3.Op{clientv3.OpPut(settledKey, text)}
	names := []string{settledKey}
	if e.ID != "" {
		when = append(when, absent(effectKey))
		then = append(then, clientv3.OpPut(effectKey, e.Redemption))
		names = append(names, effectKey)
	}
	due, err := k.encodeNames(names...)
	if err != nil {
		return grant.Unknown, err
	}
	then = append(then, clientv3.OpPut(k.due(f.bucket, e.Redemption)+"/settled", due))
	if key := f.claim.Plan.IdempotencyKey; e.Outcome == writ.CodeEffectVerified && key != "" {
		if len(answers[4]) == 0 {
			if err := l.setTimer(ctx, until, e.Now); err != nil {
				return grant.Unknown, err
			}
		}
		done := k.done(key)
		if due, err = k.encodeNames(done); err != nil {
			return grant.Unknown, err
		}
		when = append(when, there(k.timer(until)))
		then = append(then, clientv3.OpTxn([]clientv3.Cmp{absent(done)}, []clientv3.Op{
			clientv3.OpPut(done, e.Redemption), clientv3.OpPut(k.due(until, e.Redemption)+"/done", due),
		}, nil))
	}
	if got, err = l.ask(ctx, when, then); err != nil || !got.Succeeded {
		return grant.Unknown, err
	}
	return grant.Claimed, nil
}
