// Package verify finds out whether a log is what its signed checkpoint says.
//
// It hashes every record again, builds the tree from the hashes, and compares
// it with every tile on the disk and with the root that the log's key has
// signed. Nothing that is on the disk is trusted but that signature. So any
// change of a record, tile or checkpoint since it was signed is found, and
// named; what cannot be found is a log that was rewritten and signed again by
// whoever has its key: that takes a checkpoint that was kept elsewhere
// (Options.From), or witnesses.
//
// It only reads, also while a server writes: it verifies what the checkpoint
// covers that it reads first.
package verify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/writ-pdp/writ/audit/tree"
)

// Report is what was found.
type Report struct {
	// OK is whether all that the checkpoint covers (from From on) is there and
	// as it was signed: there are no findings.
	OK bool `json:"ok"`

	Origin string `json:"origin,omitempty"` // of the checkpoint
	Size   int64  `json:"size"`             // records that the checkpoint covers
	Root   string `json:"root,omitempty"`   // of the checkpoint's tree, in base64
	// From is the first record that was hashed again: 0 for all.
	From int64 `json:"from"`

	Records int64 `json:"records"` // hashed again
	Tiles   int64 `json:"tiles"`   // compared with them

	// AfterCheckpoint is how many whole records there are that no checkpoint
	// covers yet. Nothing is known of them but that they are in order.
	AfterCheckpoint int64 `json:"after_checkpoint"`
	// TornBytes is the length of an unfinished record at the very end: a crash
	// left it there, or a server is just writing it. Alone it is no damage.
	TornBytes int64 `json:"torn_bytes"`

	Cosignatures []tree.Cosignature `json:"cosignatures,omitempty"` // by the witnesses asked for

	Findings []Finding `json:"findings"`
	// More is how many findings there are beyond those listed.
	More int `json:"more_findings,omitempty"`
}

// Finding is one thing that is wrong.
type Finding struct {
	Kind    Kind   `json:"kind"`
	File    string `json:"file,omitempty"`    // in the directory of the log
	Records *Range `json:"records,omitempty"` // those it is about, if it is about records
	Reason  string `json:"reason"`
}

// Range is a range of records.
type Range struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

func (r Range) String() string {
	if r.First == r.Last {
		return fmt.Sprintf("record %d", r.First)
	}
	return fmt.Sprintf("records %d to %d", r.First, r.Last)
}

// String returns the finding as one line.
func (f Finding) String() string {
	s := string(f.Kind) + ": "
	if f.Records != nil {
		s += f.Records.String() + ": "
	}
	if f.File != "" {
		s += shown(f.File) + ": "
	}
	return s + f.Reason
}

// shown is a file's name, fit for a terminal: whoever made the file chose it.
func shown(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}

// Kind is a kind of finding.
type Kind string

// What can be wrong with the checkpoint. Nothing else is verified then.
const (
	CheckpointMissing Kind = "checkpoint_missing"
	CheckpointBroken  Kind = "checkpoint_broken" // it can't be read
	OtherLog          Kind = "checkpoint_of_another_log"
	ForeignKey        Kind = "foreign_key"   // the log's key hasn't signed it
	BadSignature      Kind = "bad_signature" // the log's, or that of a witness
)

// What can be wrong between the checkpoint and others.
const (
	FewCosignatures Kind = "too_few_cosignatures"
	RolledBack      Kind = "rolled_back"  // the known checkpoint is of a larger tree
	Inconsistent    Kind = "inconsistent" // the tree does not continue that of the known checkpoint
	Unproven        Kind = "unproven"     // whether it does can't be told, for damaged tiles
)

// What can be wrong with records.
const (
	RecordChanged    Kind = "record_changed"
	RecordBroken     Kind = "record_broken" // a line that is no record
	RecordOutOfPlace Kind = "record_out_of_place"
	RecordsMissing   Kind = "records_missing" // within a segment
	SegmentMissing   Kind = "segment_missing" // or the end of the one before
	TailMissing      Kind = "tail_missing"    // the log's end, as the checkpoint knows it
	RecordTorn       Kind = "record_torn"     // an unfinished record that isn't the newest
	ForeignFile      Kind = "foreign_file"    // something among the segments
	RootMismatch     Kind = "root_mismatch"   // records and tiles agree, and not with the checkpoint
)

// What can be wrong with tiles.
const (
	TileMissing Kind = "tile_missing"
	TileSize    Kind = "tile_size"
	TileChanged Kind = "tile_changed"
)

// maxFindings bounds the findings that are kept: damage of a whole file would
// otherwise be a finding for each record.
const maxFindings = 1000

// findings gathers what is wrong.
type findings struct {
	mu   sync.Mutex // guards what follows
	list []Finding
	more int
}

func (f *findings) add(kind Kind, file, format string, args ...any) {
	f.put(Finding{Kind: kind, File: file, Reason: fmt.Sprintf(format, args...)})
}

// records adds a finding about records.
func (f *findings) records(kind Kind, file string, first, last int64, format string, args ...any) {
	f.put(Finding{Kind: kind, File: file, Records: &Range{first, last}, Reason: fmt.Sprintf(format, args...)})
}

// leftOut counts a finding that isn't told.
func (f *findings) leftOut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.more++
}

// none reports whether there are no findings.
func (f *findings) none() bool { return f.count() == 0 }

// count returns how many findings there are.
func (f *findings) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list) + f.more
}

func (f *findings) put(found Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) >= maxFindings {
		f.more++
		return
	}
	f.list = append(f.list, found)
}

// moved turns the finding that a record is missing into one that it is out of
// place, if there is one, and reports whether there was.
func (f *findings) moved(index int64, file, reason string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if found := &f.list[i]; found.Kind == RecordsMissing && *found.Records == (Range{index, index}) {
			found.Kind, found.File, found.Reason = RecordOutOfPlace, file, reason
			return true
		}
	}
	return false
}

// report moves the findings into a report, those of records in their order.
func (f *findings) report(r *Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.list, func(a, b Finding) int {
		switch {
		case a.Records == nil && b.Records == nil:
			return 0
		case a.Records == nil:
			return -1
		case b.Records == nil:
			return 1
		default:
			return int(min(1, max(-1, a.Records.First-b.Records.First)))
		}
	})
	r.Findings, r.More = f.list, f.more
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	r.OK = len(f.list) == 0 && f.more == 0
}
