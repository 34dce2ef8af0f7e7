package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

// lockFile is locked while the log is open.
const lockFile = "lock"

// device is the file system under a log, as the log's goroutines use it once
// it is open. Tests put faults in between.
type device interface {
	// Segment opens a segment by its name below the log's directory, to append
	// to. If it is to be made it must not be there yet, or be empty.
	Segment(name string, create bool) (file, error)
	// InPlace makes sure that an open segment is the file with that name.
	InPlace(name string, open fs.FileInfo) error
	// SyncSegments makes the names of the segments outlive a crash.
	SyncSegments() error
	// Flush runs what writes the tree's tiles.
	Flush(write func() error) error
	// Replace replaces a file of the log's directory, all or nothing and for
	// good.
	Replace(name string, data []byte) error
}

// file is an open segment.
type file interface {
	Write([]byte) (int, error)
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	Close() error
}

// disk is a device that is no test's: the log's directory.
type disk struct {
	name string // of the directory, for messages
	dir  *os.Root
	lock *os.File
	self *os.File // the directory: locked, too
}

// errLocked says that a log is open.
var errLocked = errors.New("another process has this log open: stop it, or give each its own data directory")

// openDisk makes the log's directory, if need be, and locks it.
func openDisk(dir string) (*disk, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &disk{name: dir, dir: root}
	if d.lock, err = d.open(lockFile, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if err := lock(d.lock); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", d.path(lockFile), err), d.close())
	}
	if d.self, err = root.Open("."); err != nil {
		return nil, errors.Join(err, d.close())
	}
	// A lock file that was removed, or put in another's place, keeps nobody out.
	// Some network file systems can't lock a directory, and have the file alone.
	if err := lock(d.self); errors.Is(err, errLocked) {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), d.close())
	}
	err = root.Mkdir(segment.Dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// path is the whole path of a name in the directory, for messages.
func (d *disk) path(name string) string { return filepath.Join(d.name, name) }

// open opens a regular file of the directory, which is no symbolic link.
func (d *disk) open(name string, flag int) (*os.File, error) {
	if info, err := d.dir.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, meddled(fmt.Sprintf("%s: is no regular file: put back the one that was there", d.path(name)))
	}
	return d.dir.OpenFile(name, flag, 0o600)
}

// meddled says what somebody else has done to the log's files.
type meddled string

func (m meddled) Error() string { return string(m) }

// explain says what is wrong with a file, and what to do.
func explain(name string, err error) error {
	var advice string
	switch condition(err) {
	case Full:
		advice = "make room on its file system"
	case ReadOnly:
		advice = "make its file system writable again"
	default:
		if m, ok := errors.AsType[meddled](err); ok {
			return fmt.Errorf("audit: %w", m)
		}
		advice = "look after its disk"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", p.Op, p.Err) // the name is said
	}
	return fmt.Errorf("audit: %s: %w: %s; recording goes on by itself then", name, err, advice)
}

func (d *disk) Segment(name string, create bool) (file, error) {
	flag := os.O_WRONLY | os.O_APPEND
	if create {
		flag |= os.O_CREATE
	}
	f, err := d.open(name, flag)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = d.InPlace(name, info)
	}
	if err == nil && create && info.Size() != 0 {
		err = meddled(fmt.Sprintf("%s: is there already, with %d bytes, and the log did not write them: move it away", d.path(name), info.Size()))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d *disk) InPlace(name string, open fs.FileInfo) error {
	named, err := d.dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return meddled(fmt.Sprintf("%s: has been moved or removed: put it back as it was", d.path(name)))
	}
	if err != nil {
		return err
	}
	if !os.SameFile(open, named) {
		return meddled(fmt.Sprintf("%s: has been replaced, or is a symbolic link: put back the file as it was, and restart", d.path(name)))
	}
	return nil
}

func (d *disk) SyncSegments() error { return tree.SyncDir(d.dir, segment.Dir) }

func (d *disk) Flush(write func() error) error { return write() }

func (d *disk) Replace(name string, data []byte) error {
	return tree.ReplaceFile(d.dir, name, data, 0o600)
}

// close gives up the locks.
func (d *disk) close() error {
	var errs []error
	for _, f := range []*os.File{d.self, d.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, d.dir.Close())...)
}

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
