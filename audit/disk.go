package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// fileName is the log's name in its directory.
const fileName = "decisions.jsonl"

// file is what the writer needs of the log's file.
type file interface {
	Write([]byte) (int, error)
	Sync() error
	Close() error
}

// disk is the file itself, locked. It refuses to write when anything else has
// had its hands on the file: records would go where nobody looks for them.
type disk struct {
	dir  *os.Root
	file *os.File
	name string // for messages
	size int64  // as we have written it
}

// openDisk opens and locks the log's file, reads it through, and cuts off an
// unfinished last line.
func openDisk(dir string) (*disk, end, error) {
	if err := makeDir(dir); err != nil {
		return nil, end{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, end{}, err
	}
	f, err := root.OpenFile(fileName, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, end{}, errors.Join(err, root.Close())
	}
	d := &disk{dir: root, file: f, name: filepath.Join(dir, fileName)}
	e, err := d.recover()
	if err != nil {
		return nil, end{}, fmt.Errorf("%s: %w", d.name, errors.Join(err, d.Close()))
	}
	d.size = e.size
	return d, e, nil
}

// recover locks the file and finds its end.
func (d *disk) recover() (end, error) {
	info, err := d.file.Stat()
	if err != nil {
		return end{}, err
	}
	if !info.Mode().IsRegular() {
		return end{}, errors.New("is no regular file: the log must be one")
	}
	if err := d.inPlace(info); err != nil {
		return end{}, err
	}
	if err := lock(d.file); err != nil {
		return end{}, err
	}
	e, err := readThrough(d.file)
	if err != nil {
		return end{}, err
	}
	if e.torn > 0 {
		if err := d.file.Truncate(e.size); err != nil {
			return end{}, fmt.Errorf("cutting off an unfinished last line: %w", err)
		}
	}
	// The name and the cut must outlive a crash as the records do.
	if err := d.file.Sync(); err != nil {
		return end{}, err
	}
	return e, syncDir(d.dir.Name())
}

// inPlace makes sure that the open file is still the one with the log's name.
func (d *disk) inPlace(open fs.FileInfo) error {
	named, err := d.dir.Lstat(fileName)
	if err != nil {
		return fmt.Errorf("the log's file has been moved or removed: %w", err)
	}
	if !os.SameFile(open, named) {
		return errors.New("the log's file has been replaced, or is a symbolic link")
	}
	return nil
}

// Write appends b, if the file is as we left it.
func (d *disk) Write(b []byte) (int, error) {
	info, err := d.file.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() != d.size {
		return 0, fmt.Errorf("%s: has %d bytes where %d were written: something else writes to it or cuts it", d.name, info.Size(), d.size)
	}
	if err := d.inPlace(info); err != nil {
		return 0, fmt.Errorf("%s: %w", d.name, err)
	}
	n, err := d.file.Write(b)
	d.size += int64(n)
	return n, err
}

// Sync returns when all that was written is on the disk.
func (d *disk) Sync() error { return d.file.Sync() }

// Close closes the file and gives up its lock.
func (d *disk) Close() error { return errors.Join(d.file.Close(), d.dir.Close()) }

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
		return nil // if it is no directory, opening it says so
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
