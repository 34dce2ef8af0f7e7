package verifytest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxRecord is the largest record, in bytes: what an entry of tlog-tiles holds.
const maxRecord = 1<<16 - 1

// Fault is what keeps a directory from being the log that its checkpoint
// speaks for.
type Fault struct {
	// Part is where: key, checkpoint, record, root, tile or proof.
	Part string
	// Index is the first record that is concerned; of a root, and of a tile
	// that is missing, the size.
	Index uint64
	// Reason is for people.
	Reason string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%s (at record %d): %s", f.Part, f.Index, f.Reason)
}

// Log is a directory that has been verified.
type Log struct {
	Checkpoint
	// Leaves are the leaf hashes of all whole records: at least Size of them.
	Leaves []Hash
	// Tree is the tree over them.
	Tree *Tree
	// Unfinished is how many bytes follow the last whole record.
	Unfinished int
	// Witnesses are the names of the witnesses asked for that cosigned.
	Witnesses []string
}

// Verify verifies the log in dir against a verifier key. Witnesses' keys may
// be given, too: which of them have cosigned is told, and a cosignature of one
// of them that is wrong is a fault. Every error but those of reading is a
// *[Fault].
func Verify(dir, verifier string, witnesses ...string) (*Log, error) {
	key, err := ParseKey(verifier)
	if err != nil {
		return nil, &Fault{Part: "key", Reason: err.Error()}
	}
	l := &Log{}
	if err := l.open(dir, key, witnesses); err != nil {
		return nil, err
	}
	if err := l.read(filepath.Join(dir, "segments")); err != nil {
		return nil, err
	}
	count := uint64(len(l.Leaves))
	if count < l.Size {
		return nil, &Fault{Part: "record", Index: count, Reason: fmt.Sprintf("the checkpoint speaks for %d records, and %d are there", l.Size, count)}
	}
	if Root(l.Leaves[:l.Size]) != l.Root {
		return nil, &Fault{Part: "root", Index: l.Size, Reason: "the records hash to another root than the checkpoint's"}
	}
	if err := checkTiles(dir, l.Leaves, l.Size); err != nil {
		return nil, err
	}
	return l, l.prove()
}

// open reads and verifies the checkpoint.
func (l *Log) open(dir string, key Key, witnesses []string) error {
	data, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		return &Fault{Part: "checkpoint", Reason: err.Error()}
	}
	note, err := ParseNote(data)
	if err == nil {
		err = note.Signed(key)
	}
	if err == nil {
		l.Checkpoint, err = ParseCheckpoint(note.Text)
	}
	if err == nil && l.Origin != key.Name {
		err = errors.New("the checkpoint is of another log than the key")
	}
	if err != nil {
		return &Fault{Part: "checkpoint", Reason: err.Error()}
	}
	for _, text := range witnesses {
		witness, err := ParseKey(text)
		if err != nil {
			return &Fault{Part: "key", Reason: err.Error()}
		}
		if !slices.ContainsFunc(note.signatures, func(s signature) bool { return s.name == witness.Name && s.id == witness.id }) {
			continue
		}
		if err := note.Signed(witness); err != nil {
			return &Fault{Part: "checkpoint", Reason: err.Error()}
		}
		l.Witnesses = append(l.Witnesses, witness.Name)
	}
	return nil
}

// read hashes the records of all segments.
func (l *Log) read(dir string) error {
	entries, err := os.ReadDir(dir) // by name, so by index
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i, entry := range entries {
		next := uint64(len(l.Leaves))
		if want := fmt.Sprintf("%020d.jsonl", next); entry.Name() != want {
			return &Fault{Part: "record", Index: next, Reason: fmt.Sprintf("the segment %s is where %s belongs", entry.Name(), want)}
		}
		if err := l.segment(filepath.Join(dir, entry.Name()), i == len(entries)-1); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) segment(path string, last bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		index := uint64(len(l.Leaves))
		if err == io.EOF {
			if len(line) > 0 && !last {
				return &Fault{Part: "record", Index: index, Reason: "the record is unfinished, and others follow"}
			}
			l.Unfinished = len(line)
			return nil
		}
		if err != nil {
			return err
		}
		record := bytes.TrimSuffix(line, []byte("\n"))
		if len(record) > maxRecord {
			return &Fault{Part: "record", Index: index, Reason: fmt.Sprintf("the record has %d bytes", len(record))}
		}
		if begin := fmt.Sprintf(`{"v":1,"index":%d,`, index); !strings.HasPrefix(string(record), begin) {
			return &Fault{Part: "record", Index: index, Reason: "the record does not begin with " + begin}
		}
		l.Leaves = append(l.Leaves, LeafHash(record))
	}
}

// prove makes and checks proofs of some records and of some earlier sizes, of
// which those about the edges of tiles are the likeliest to be wrong.
func (l *Log) prove() error {
	l.Tree = NewTree(l.Leaves)
	for _, m := range Samples(l.Size) {
		path, err := l.Tree.Inclusion(m, l.Size)
		if err == nil {
			err = CheckInclusion(l.Leaves[m], m, l.Size, l.Root, path)
		}
		if err != nil {
			return &Fault{Part: "proof", Index: m, Reason: err.Error()}
		}
		proof, err := l.Tree.Consistency(m+1, l.Size)
		if err == nil {
			err = CheckConsistency(m+1, l.Tree.Root(m+1), l.Size, l.Root, proof)
		}
		if err != nil {
			return &Fault{Part: "proof", Index: m + 1, Reason: err.Error()}
		}
	}
	return nil
}

// Samples returns some indexes below size, in order: the ends, and both sides
// of each power of two where tiles end.
func Samples(size uint64) []uint64 {
	var all []uint64
	for _, m := range []uint64{0, 1, 2, 3, 254, 255, 256, 257, 511, 512, 65534, 65535, 65536, size/2 - 1, size / 2, size - 2, size - 1} {
		if m < size {
			all = append(all, m)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
