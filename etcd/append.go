package etcd

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/revocation"
)

// inForceWithin is how long Append waits until what it has recorded is in force
// at this server, which usually takes milliseconds.
const inForceWithin = 2 * time.Second

// Append adds entries to the log, all or none, and returns them with their
// Sequence and RecordedAt. When it returns they are durable in etcd. It waits
// until they are in force at this server, too, but no more than 2 s: etcd may
// not be followed right now, and a lift may wait for a bundle; the revision in
// force tells. A [revocation.Errors] says what is wrong with entries.
//
// When answers of etcd are lost it asks again, and adds the entries once; if
// ctx ends meanwhile, it is unknown whether they were added.
func (s *Source) Append(ctx context.Context, entries []revocation.Entry) ([]revocation.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	added, err := prepared(entries, false)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	var at position
	if s.state != nil {
		at = s.state.position()
	}
	s.mu.Unlock()
	if at.source == "" {
		if at, err = s.client.position(ctx); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		if at.source != s.id {
			return nil, damaged(s.client.keys.source(), "the source is %q and was %q", at.source, s.id)
		}
		done, next, err := s.client.append(ctx, at, added)
		if err != nil {
			return nil, err
		}
		if done {
			s.await(ctx, added[len(added)-1].Sequence)
			return added, nil
		}
		at = next
		pause(ctx, mathrand.N(time.Duration(min(attempt, 20))*time.Millisecond)) // others append, too
	}
}

// prepared returns entries as the log takes them, or what is wrong with them.
func prepared(entries []revocation.Entry, imported bool) ([]revocation.Entry, error) {
	now := time.Now().UTC()
	out := make([]revocation.Entry, len(entries))
	for i, e := range entries {
		if e.Sequence != 0 {
			return nil, revocation.Errors{{Index: i, Field: "sequence", Message: "is given by the log: leave it out"}}
		}
		e.RecordedAt, e.Imported = now, imported
		out[i] = e
	}
	if _, err := revocation.New(out); err != nil {
		return nil, err
	}
	return out, nil
}

// position is where the log ends.
type position struct {
	source                string
	generation            uint64
	tail                  tail
	currentAt, sequenceAt int64 // as in state
}

func (s *state) position() position {
	return position{s.source, s.number(), s.tail, s.currentAt, s.sequenceAt}
}

// asking reads a position.
func (k keys) asking() []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(k.source()), clientv3.OpGet(k.current()), clientv3.OpGet(k.sequence())}
}

// parsePosition reads the answers to asking.
func (k keys) parsePosition(answers [][]*mvccpb.KeyValue) (position, error) {
	p := position{source: string(value(answers[0])), currentAt: modified(answers[1]), sequenceAt: modified(answers[2])}
	if p.currentAt != 0 {
		g, err := parseGeneration(value(answers[1]))
		if err != nil {
			return p, damaged(k.current(), "%v", err)
		}
		p.generation = g.Number
	}
	if p.sequenceAt != 0 {
		var ok bool
		if p.tail, ok = parseTail(string(value(answers[2]))); !ok {
			return p, damaged(k.sequence(), "it is no end of a log")
		}
	}
	return p, nil
}

// position reads where the log ends now.
func (c *Client) position(ctx context.Context) (position, error) {
	got, err := c.insist(ctx, nil, c.keys.asking())
	if err != nil {
		return position{}, err
	}
	return c.keys.parsePosition(answersOf(got))
}

// answersOf are the keys that a transaction of gets found.
func answersOf(got *clientv3.TxnResponse) [][]*mvccpb.KeyValue {
	answers := make([][]*mvccpb.KeyValue, len(got.Responses))
	for i, r := range got.Responses {
		answers[i] = r.GetResponseRange().Kvs
	}
	return answers
}

// append adds entries at a position, and numbers them. Where the log has moved
// on nothing is done, and next is where it ends now.
func (c *Client) append(ctx context.Context, at position, entries []revocation.Entry, when ...clientv3.Cmp) (done bool, next position, err error) {
	text, ends, err := at.extend(at.generation, entries)
	if err != nil {
		return false, at, err
	}
	first := entries[0].Sequence
	if len(text) > maxBatch {
		return false, at, fmt.Errorf("etcd: the revocations take %d bytes and at most %d fit into one call: nothing was recorded; make several calls", len(text), maxBatch)
	}
	done, _, answers, err := c.commit(ctx, write{
		key: c.keys.entries(first), value: text,
		when: append([]clientv3.Cmp{
			clientv3.Compare(clientv3.Value(c.keys.source()), "=", at.source),
			unchanged(c.keys.current(), at.currentAt), unchanged(c.keys.sequence(), at.sequenceAt),
		}, when...),
		also: []clientv3.Op{clientv3.OpPut(c.keys.sequence(), ends.String())},
		ask:  c.keys.asking(),
	})
	if err != nil || done {
		return done, at, err
	}
	if next, err = c.keys.parsePosition(answers); err == nil && next == at && len(when) == 0 {
		err = damaged(c.keys.entries(first), "it is there, but the log ends before it")
	}
	return false, next, err
}

// extend numbers entries, and writes them as what comes next after a position.
func (p *position) extend(generation uint64, entries []revocation.Entry) (text string, ends tail, err error) {
	for i := range entries {
		entries[i].Sequence = p.tail.sequence + 1 + uint64(i)
	}
	ends = tail{entries[len(entries)-1].Sequence, rand.Text()}
	b, err := encodeBatch(ends.batch, p.tail.batch, generation, entries)
	if err != nil {
		return "", tail{}, fmt.Errorf("etcd: writing revocations: %w", err)
	}
	return string(b), ends, nil
}

// await waits until the log is in force here up to a sequence.
func (s *Source) await(ctx context.Context, sequence uint64) {
	ctx, cancel := context.WithTimeout(ctx, inForceWithin)
	defer cancel()
	for {
		s.mu.Lock()
		shown, running, changed := s.log.shows(sequence), s.running, s.changed
		s.mu.Unlock()
		if shown || !running {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.client.cfg.Log.Warn("revocations are recorded, and in force wherever etcd is followed, but not here yet: "+
				"etcd is not followed, or a lift waits for a bundle that was pushed before it", "sequence", sequence)
			return
		}
	}
}
