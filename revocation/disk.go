package revocation

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// file is what the journal needs of its file.
type file interface {
	WriteAt([]byte, int64) (int, error)
	Truncate(int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
	Close() error
}

// disk is the journal's file, locked.
type disk struct {
	name  string // for messages
	file  file
	size  int64 // of what is whole and durable
	dirty bool  // after size there may be what a failed append left
}

// openDisk opens and locks the file, and reads it.
func openDisk(dir string) (*disk, []byte, error) {
	if err := makeDir(dir); err != nil {
		return nil, nil, err
	}
	d := &disk{name: filepath.Join(dir, journalName)}
	f, err := os.OpenFile(d.name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	d.file = f
	data, err := readLocked(f)
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", d.name, errors.Join(err, f.Close()))
	}
	return d, data, nil
}

func readLocked(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no regular file: the log must be one")
	}
	if err := lock(f); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// cut makes size the file's size: what is after it was never in force.
func (d *disk) cut(size int64) error {
	if err := d.file.Truncate(size); err != nil {
		return fmt.Errorf("cutting off an unfinished last line: %w", err)
	}
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("cutting off an unfinished last line: %w", err)
	}
	d.size, d.dirty = size, false
	return nil
}

// append adds lines. When it returns without an error they are on the disk;
// with one the file is as it was, or will be before anything is added to it.
func (d *disk) append(lines []byte) error {
	if err := d.add(lines); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

func (d *disk) add(lines []byte) error {
	if d.dirty {
		// After an fsync that failed the kernel may count pages as written that
		// are not, so nothing is kept that was not durable.
		if err := d.cut(d.size); err != nil {
			return err
		}
	}
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if err := d.inPlace(info); err != nil {
		return err
	}
	d.dirty = true
	if _, err = d.file.WriteAt(lines, d.size); err == nil {
		err = d.file.Sync()
	}
	if err != nil {
		return errors.Join(err, d.cut(d.size))
	}
	d.size, d.dirty = d.size+int64(len(lines)), false
	return nil
}

// inPlace makes sure that nothing else has had its hands on the file: entries
// would go where nobody looks for them.
func (d *disk) inPlace(open fs.FileInfo) error {
	named, err := os.Lstat(d.name)
	switch {
	case err != nil:
		return fmt.Errorf("the log's file has been moved or removed: %w", err)
	case !os.SameFile(open, named):
		return errors.New("the log's file has been replaced, or is a symbolic link")
	case open.Size() != d.size:
		return fmt.Errorf("has %d bytes where %d were written: something else writes to it or cuts it", open.Size(), d.size)
	}
	return nil
}

func (d *disk) close() error { return d.file.Close() }

// makeDir makes a directory and those above it, if they are not there, so that
// they outlive a crash.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	above := filepath.Dir(filepath.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) && above != dir {
		if err := makeDir(above); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // if it is no directory, opening the file says so
	case err != nil:
		return err
	}
	return syncDir(above)
}

// syncDir makes the names in a directory outlive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
