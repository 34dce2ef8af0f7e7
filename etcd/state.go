package etcd

import (
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// state is what state/ holds at one revision of etcd. It takes keys and events
// in etcd's order, and refuses whatever this package would not have written.
// After an error it is worthless. It is copied by assignment.
type state struct {
	keys     keys
	revision int64 // of etcd
	cluster  uint64

	source  string
	current *Generation // nil: nothing has been pushed
	logged  tail        // the log's end as it was taken
	tail    tail        // what state/sequence says

	// ModRevision of the keys; 0: they are not there. Who appends compares them.
	currentAt, sequenceAt int64
}

// damage is something under the prefix that must not be there, or that is
// missing. It stays until somebody mends it.
type damage struct{ message string }

func (d damage) Error() string { return d.message }

func damaged(key, format string, args ...any) error {
	return damage{fmt.Sprintf("etcd: the key %s: %s: nothing newer is taken until this is mended (docs/etcd.md)", key, fmt.Sprintf(format, args...))}
}

// number is that of the generation that stands; 0: none does.
func (s *state) number() uint64 {
	if s.current == nil {
		return 0
	}
	return s.current.Number
}

// put takes one key. What it adds to the log is returned.
func (s *state) put(kv *mvccpb.KeyValue) (*parsedBatch, error) {
	key := string(kv.Key)
	switch key {
	case s.keys.source():
		return nil, s.putSource(key, string(kv.Value))
	case s.keys.current():
		g, err := parseGeneration(kv.Value)
		if err != nil {
			return nil, damaged(key, "%v", err)
		}
		if s.current != nil && (g.Number < s.current.Number || g.Number == s.current.Number && !g.same(s.current)) {
			return nil, damaged(key, "generation %d comes after %d", g.Number, s.current.Number)
		}
		// What comes next of another history than this one's does not fit.
		if s.current != nil && g.Number > s.current.Number && (g.Number != s.current.Number+1 || g.Previous != s.current.ID) {
			return nil, damaged(key, "generation %d does not follow the generation %d that was there", g.Number, s.current.Number)
		}
		s.current, s.currentAt = g, kv.ModRevision
		return nil, nil
	case s.keys.sequence():
		t, ok := parseTail(string(kv.Value))
		if !ok || t.sequence < s.tail.sequence {
			return nil, damaged(key, "it is no end of the log after entry %d", s.tail.sequence)
		}
		s.tail, s.sequenceAt = t, kv.ModRevision
		return nil, nil
	}
	if text, ok := strings.CutPrefix(key, s.keys.log()); ok {
		return s.putEntries(key, text, kv)
	}
	return nil, damaged(key, "Writ writes no such key")
}

func (s *state) putSource(key, id string) error {
	switch {
	case !isSource(id):
		return damaged(key, "it names no source")
	case s.source != "" && s.source != id:
		return damaged(key, "the source is %s and was %s: where the store was made anew, restart this server", id, s.source)
	}
	s.source = id
	return nil
}

func (s *state) putEntries(key, text string, kv *mvccpb.KeyValue) (*parsedBatch, error) {
	first, ok := parseNumber(text)
	switch {
	case !ok:
		return nil, damaged(key, "it is no place in the log")
	case kv.Version != 1:
		return nil, damaged(key, "the entries were written over")
	case first != s.logged.sequence+1:
		return nil, damaged(key, "the log goes on with entry %d: entries are missing, or there twice", s.logged.sequence+1)
	}
	b, err := parseBatch(first, kv.Value)
	if err != nil {
		return nil, damaged(key, "%v", err)
	}
	if b.previous != s.logged.batch {
		return nil, damaged(key, "it does not follow what the log ended with")
	}
	s.logged = tail{first + uint64(len(b.entries)) - 1, b.id}
	return &b, nil
}

// settle checks what must be true after all changes of one revision. exactly:
// batches were added at this revision, not before it.
func (s *state) settle(batches []parsedBatch, exactly bool) error {
	if s.logged != s.tail {
		return damaged(s.keys.sequence(), "it says %d, but the log ends with %d, or with other entries", s.tail.sequence, s.logged.sequence)
	}
	var last uint64
	for _, b := range batches {
		if b.generation > s.number() || exactly && b.generation != s.number() || b.generation < last {
			return damaged(s.keys.entries(b.entries[0].Sequence), "it was added under generation %d, which did not stand then", b.generation)
		}
		last = b.generation
	}
	return nil
}

// load takes all keys of state/ at a revision, in order.
func (s *state) load(revision int64, kvs []*mvccpb.KeyValue) ([]parsedBatch, error) {
	var batches []parsedBatch
	for _, kv := range kvs {
		b, err := s.put(kv)
		if err != nil {
			return nil, err
		}
		if b != nil {
			batches = append(batches, *b)
		}
	}
	s.revision = revision
	if s.source == "" && len(kvs) > 0 {
		return nil, damaged(s.keys.source(), "it is missing, but others are there")
	}
	return batches, s.settle(batches, false)
}

// apply takes all events of one revision. One that it has been at changes
// nothing: after a reconnection a member may tell again what was told.
func (s *state) apply(revision int64, events []*mvccpb.Event) ([]parsedBatch, error) {
	if revision <= s.revision {
		return nil, nil
	}
	var batches []parsedBatch
	for _, e := range events {
		if e.Type != mvccpb.PUT {
			return nil, damaged(string(e.Kv.Key), "it was deleted")
		}
		b, err := s.put(e.Kv)
		if err != nil {
			return nil, err
		}
		if b != nil {
			batches = append(batches, *b)
		}
	}
	s.revision = revision
	return batches, s.settle(batches, true)
}

// follows refuses a state, read anew, that is older than one seen before, or
// another one's.
func (s *state) follows(before *state) error {
	switch {
	case before == nil:
		return nil
	case s.cluster != before.cluster:
		return damage{fmt.Sprintf("etcd: another cluster answers (%x) than before (%x): nothing newer is taken. "+
			"Where that is meant, restart this server", s.cluster, before.cluster)}
	case s.revision < before.revision:
		return damage{fmt.Sprintf("etcd: it is at revision %d and was at %d: nothing newer is taken. "+
			"Was it brought back from a backup? Then see docs/etcd.md and restart this server", s.revision, before.revision)}
	case s.source != before.source:
		return damaged(s.keys.source(), "the source is %q and was %q", s.source, before.source)
	case before.current != nil && (s.number() < before.number() || s.number() == before.number() && !s.current.same(before.current)):
		return damaged(s.keys.current(), "it has gone back from generation %d", before.number())
	case s.logged.sequence < before.logged.sequence:
		return damaged(s.keys.sequence(), "the log ends with entry %d and ended with %d: entries were taken away", s.logged.sequence, before.logged.sequence)
	}
	return nil
}

// isSource reports whether id can name a source.
func isSource(id string) bool {
	if len(id) < 4 || len(id) > 32 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
