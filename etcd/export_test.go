package etcd

import (
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/writ-pdp/writ/revocation"
)

// Settled is Config.settled.
func Settled(cfg Config) (Config, error) { return cfg.settled() }

// ParseGeneration, ParseManifest and ParseBatch read what etcd holds.
func ParseGeneration(data []byte) (*Generation, error) { return parseGeneration(data) }

// ParseManifest returns how many files are listed, and their size.
func ParseManifest(data []byte) (files, size int, err error) {
	m, err := parseManifest(data)
	for _, f := range m.Files {
		size += f.Size
	}
	return len(m.Files), size, err
}

// ParseBatch returns the entries, and encodes them again.
func ParseBatch(first uint64, data []byte) ([]revocation.Entry, []byte, error) {
	b, err := parseBatch(first, data)
	if err != nil {
		return nil, nil, err
	}
	again, err := encodeBatch("again", b.previous, b.generation, b.entries)
	return b.entries, again, err
}

// Log is a history.
type Log struct{ h *history }

// NewLog returns an empty one with a generation in force.
func NewLog(generation uint64) *Log { return &Log{newHistory(generation)} }

// Add adds entries that were added while a generation stood.
func (l *Log) Add(generation uint64, entries ...revocation.Entry) error {
	first := l.h.all.Sequence() + 1
	for i := range entries {
		entries[i].Sequence = first + uint64(i)
	}
	return l.h.add(parsedBatch{generation: generation, entries: entries})
}

// At puts a generation in force.
func (l *Log) At(generation uint64) error {
	next, err := l.h.at(generation)
	if err == nil {
		l.h = next
	}
	return err
}

// Shown returns what may be shown.
func (l *Log) Shown() *revocation.View { return l.h.shown }

// Shows is history.shows.
func (l *Log) Shows(sequence uint64) bool { return l.h.shows(sequence) }

// State is a state that has been at a revision.
type State struct{ s *state }

// NewState returns a state without anything.
func NewState(prefix string) *State { return &State{&state{keys: keys{prefix}}} }

// Apply applies puts of one revision, and returns how many batches they add.
func (s *State) Apply(revision int64, pairs ...string) (int, error) {
	var events []*mvccpb.Event
	for i := 0; i < len(pairs); i += 2 {
		events = append(events, &mvccpb.Event{Type: mvccpb.PUT, Kv: &mvccpb.KeyValue{
			Key: []byte(pairs[i]), Value: []byte(pairs[i+1]), ModRevision: revision, Version: 1,
		}})
	}
	batches, err := s.s.apply(revision, events)
	return len(batches), err
}

// Sequence returns the sequence of the log's last entry.
func (s *State) Sequence() uint64 { return s.s.tail.sequence }
