package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
)

// maxNesting is how deep directories may lie in a bundle. It also ends what
// symbolic links make endless.
const maxNesting = 16

// ReadDir reads the files of a bundle from a directory, in bytewise order of
// their names. Hidden files and directories are left out. Symbolic links are
// followed inside the directory and refused where they leave it. An error that
// is about one file holds a [writ.Fault].
//
// Where the directory is published by swapping the link ..data, as Kubernetes
// does, the files are all of one generation. Otherwise whoever writes files
// while they are read may see a mixture; the next read sees the rest.
func ReadDir(dir string) ([]File, error) {
	l, err := look(dir, true)
	if err != nil {
		return nil, err
	}
	return l.files, nil
}

// sight is what one walk over a bundle's directory has seen.
type sight struct {
	files []File // in bytewise order of names; without data where it wasn't asked for
	dirs  []string
	// stamp is over names, kinds, sizes, inodes and times of everything that
	// was seen. Writing to a file changes it, unless that is done within the
	// same tick of the file system's clock, or whoever does it hides it.
	stamp [sha256.Size]byte
	// newest is the latest time at which anything was changed, by the file
	// system's clock.
	newest time.Time
	// swapped tells that the link ..data publishes everything at once.
	swapped bool
}

// look walks over a directory, and reads the files if data is asked for. What
// it has seen before an error comes with it.
func look(dir string, data bool) (sight, error) { return lookAgain(dir, data, nil) }

// lookAgain is look where a bundle was built before: of what that has and that
// needn't be held in memory, the files come without data. See [Bundle.Kept].
func lookAgain(dir string, data bool, previous *Bundle) (sight, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return sight{}, fmt.Errorf("opening the bundle: %w", err)
	}
	defer root.Close()
	for range 5 {
		before := generation(root)
		r := reader{root: root, dirName: dir, data: data, previous: previous, stamp: sha256.New()}
		r.mark(before)
		err = r.dir(".", 0)
		if generation(root) != before {
			continue
		}
		slices.SortFunc(r.seen.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
		r.stamp.Sum(r.seen.stamp[:0])
		r.seen.swapped = before != "" && !r.own
		if err != nil {
			err = fmt.Errorf("reading the bundle %s: %w", dir, err)
		}
		return r.seen, err
	}
	return sight{}, fmt.Errorf("reading the bundle %s: it is being replaced faster than it can be read", dir)
}

// generation is what the link ..data points at; empty where there is none.
func generation(root *os.Root) string {
	target, err := root.Readlink("..data")
	if err != nil {
		return ""
	}
	return target
}

type reader struct {
	root    *os.Root
	dirName string // of root
	data    bool   // is read, too
	// previous may have files that needn't be held in memory again; nil: it
	// doesn't.
	previous *Bundle
	copying  []byte // what they are read through
	seen     sight
	stamp    hash.Hash
	buffer   []byte // of mark
	entries  int    // of directories
	total    int    // bytes
	own      bool   // something lies in the directory itself, not in what ..data publishes
}

// mark makes a part of the stamp.
func (r *reader) mark(name string, what ...uint64) {
	r.buffer = binary.AppendUvarint(r.buffer[:0], uint64(len(name)))
	r.buffer = append(r.buffer, name...)
	for _, n := range what {
		r.buffer = binary.LittleEndian.AppendUint64(r.buffer, n)
	}
	r.stamp.Write(r.buffer)
}

// note makes what is known of a file or directory without reading it a part
// of what has been seen.
func (r *reader) note(name string, info fs.FileInfo) {
	id, changed := inode(info)
	if changed.Before(info.ModTime()) {
		changed = info.ModTime()
	}
	if changed.After(r.seen.newest) {
		r.seen.newest = changed
	}
	r.mark(name, uint64(info.Mode()), uint64(info.Size()), id, uint64(info.ModTime().UnixNano()), uint64(changed.UnixNano()))
}

// dir reads what lies in a directory, by name.
func (r *reader) dir(name string, depth int) error {
	if depth > maxNesting {
		return writ.Fault{File: name, Message: fmt.Sprintf("directories lie more than %d deep, or a symbolic link leads back up", maxNesting)}
	}
	f, err := r.root.Open(name)
	if err != nil {
		return escape(name, err)
	}
	info, err := f.Stat()
	var entries []fs.DirEntry
	if err == nil {
		entries, err = f.ReadDir(MaxFiles*2 + 1)
	}
	f.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return writ.Fault{File: name, Message: err.Error()}
	}
	r.note(name, info)
	r.seen.dirs = append(r.seen.dirs, name)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if strings.ContainsFunc(e.Name(), unicode.IsControl) || !utf8.ValidString(e.Name()) {
			// What is said of it further on would go to logs and terminals as it is.
			return fmt.Errorf("the file name %q: write names in UTF-8 and without control characters", path.Join(name, e.Name()))
		}
		if r.entries++; r.entries > MaxFiles*2 {
			return fmt.Errorf("there are more than %d files and directories: is this the bundle's directory?", MaxFiles*2)
		}
		if depth == 0 && e.Type() != fs.ModeSymlink {
			r.own = true
		}
		if err := r.entry(path.Join(name, e.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) entry(name string, depth int) error {
	info, err := r.root.Stat(name)
	switch {
	case err != nil:
		return escape(name, err)
	case info.IsDir():
		return r.dir(name, depth+1)
	case ignored(name):
		return nil
	case !info.Mode().IsRegular():
		return writ.Fault{File: name, Message: "it is neither a file nor a directory: remove it"}
	case len(r.seen.files) == MaxFiles:
		return fmt.Errorf("there are more than %d files: split the bundle", MaxFiles)
	}
	r.note(name, info)
	if !r.data {
		r.seen.files = append(r.seen.files, File{Name: name})
		return nil
	}
	f, err := r.root.Open(name)
	if err != nil {
		return escape(name, err)
	}
	defer f.Close()
	if kept, ok, err := r.kept(name, f); err != nil {
		return writ.Fault{File: name, Message: err.Error()}
	} else if ok {
		r.seen.files = append(r.seen.files, kept)
		return r.add(kept.Size())
	}
	limit := sizeOf(name)
	data, err := read(f, info.Size(), limit)
	switch {
	case err != nil:
		return writ.Fault{File: name, Message: err.Error()}
	case len(data) > limit:
		return writ.Fault{File: name, Message: fmt.Sprintf("it has more than %d bytes: split it", limit)}
	}
	file := File{Name: name, Data: data}
	if r.previous != nil { // it goes on to Build, and nobody changes it
		file.sum = file.digest()
	}
	r.seen.files = append(r.seen.files, file)
	return r.add(len(data))
}

// add counts the bytes of a file.
func (r *reader) add(size int) error {
	if r.total += size; r.total > maxTotal {
		return fmt.Errorf("the files have more than %d bytes together: split the bundle", maxTotal)
	}
	return nil
}

// kept returns a file without its data, if the previous bundle has it as it
// is. Otherwise f is at its beginning again.
func (r *reader) kept(name string, f *os.File) (_ File, ok bool, err error) {
	if !r.previous.large(name) {
		return File{}, false, nil
	}
	if r.copying == nil {
		r.copying = make([]byte, 1<<17)
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, r.copying); err != nil {
		return File{}, false, err
	}
	dir := r.dirName
	again := func() ([]byte, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		f, err := root.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return read(f, 0, sizeOf(name))
	}
	if kept, ok := r.previous.Kept(name, sum(h.Sum(nil)), again); ok {
		return kept, true, nil
	}
	_, err = f.Seek(0, io.SeekStart)
	return File{}, false, err
}

// read reads a file of about that size, and no more than one byte over limit.
func read(f io.Reader, size int64, limit int) ([]byte, error) {
	var b bytes.Buffer
	// One more than there is, and the buffer's own minimum, so that it need not grow.
	b.Grow(int(min(size, int64(limit))) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(f, int64(limit)+1))
	return b.Bytes(), err
}

// escape explains the error of a link that leaves the bundle.
func escape(name string, err error) error {
	message := err.Error()
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		message += ": if it is a symbolic link out of the bundle, copy what it points at"
	}
	return writ.Fault{File: name, Message: message}
}
