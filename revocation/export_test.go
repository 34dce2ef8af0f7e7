package revocation

import (
	"errors"
	"io/fs"
	"sync"
)

// ReadJournal reads a journal's file as OpenJournal does.
func ReadJournal(data []byte) (entries []Entry, left map[uint64]bool, size int64, err error) {
	return readJournal(data)
}

// AppendLine appends the line of what one call adds.
func AppendLine(b []byte, entries []Entry, gone []uint64) []byte {
	b, err := appendLine(b, entries, gone)
	if err != nil {
		panic(err)
	}
	return b
}

// Faulty is a file that fails as it is told.
type Faulty struct {
	file

	mu                    sync.Mutex
	Room                  int // bytes that are written before WriteAt fails; negative: all
	SyncFails, CutsFail   bool
	Writes, Syncs, Failed int
}

// Fail sets how the file fails.
func (f *Faulty) Fail(room int, sync, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Room, f.SyncFails, f.CutsFail = room, sync, cut
}

// ErrFaulty is how a Faulty file fails.
var ErrFaulty = errors.New("no space left on device")

func (f *Faulty) WriteAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Writes++
	if f.Room < 0 || len(b) <= f.Room {
		return f.file.WriteAt(b, at)
	}
	n, err := f.file.WriteAt(b[:f.Room], at)
	return n, errors.Join(err, ErrFaulty)
}

func (f *Faulty) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Syncs++
	if f.SyncFails {
		f.Failed++
		return ErrFaulty
	}
	return f.file.Sync()
}

func (f *Faulty) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.CutsFail {
		return ErrFaulty
	}
	return f.file.Truncate(size)
}

func (f *Faulty) Stat() (fs.FileInfo, error) { return f.file.Stat() }

// OnFaulty puts a Faulty file under a journal that nobody uses yet.
func OnFaulty(j *Journal) *Faulty {
	f := &Faulty{file: j.disk.file, Room: -1}
	j.disk.file = f
	return f
}
