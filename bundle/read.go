package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// maxNesting is how deep directories may lie in a bundle. It also ends what
// symbolic links make endless.
const maxNesting = 16

// ReadDir reads the files of a bundle from a directory, in bytewise order of
// their names. Hidden files and directories are left out. Symbolic links are
// followed inside the directory and refused where they leave it.
//
// Where the directory is published by swapping the link ..data, as Kubernetes
// does, the files are all of one generation. Otherwise whoever writes files
// while they are read may see a mixture; the next read sees the rest.
func ReadDir(dir string) ([]File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle: %w", err)
	}
	defer root.Close()
	for range 5 {
		before := generation(root)
		r := reader{root: root}
		err = r.dir(".", 0)
		if generation(root) != before {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the bundle %s: %w", dir, err)
		}
		slices.SortFunc(r.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
		return r.files, nil
	}
	return nil, fmt.Errorf("reading the bundle %s: it is being replaced faster than it can be read", dir)
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
	root  *os.Root
	files []File
	seen  int // directory entries
	total int // bytes
}

// dir reads what lies in a directory, by name.
func (r *reader) dir(name string, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%s: directories lie more than %d deep, or a symbolic link leads back up", name, maxNesting)
	}
	f, err := r.root.Open(name)
	if err != nil {
		return escape(name, err)
	}
	entries, err := f.ReadDir(MaxFiles*2 + 1)
	f.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if r.seen++; r.seen > MaxFiles*2 {
			return fmt.Errorf("there are more than %d files and directories: is this the bundle's directory?", MaxFiles*2)
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
		return fmt.Errorf("%s: it is neither a file nor a directory: remove it", name)
	case len(r.files) == MaxFiles:
		return fmt.Errorf("there are more than %d files: split the bundle", MaxFiles)
	}
	f, err := r.root.Open(name)
	if err != nil {
		return escape(name, err)
	}
	defer f.Close()
	limit := sizeOf(name)
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	switch {
	case err != nil:
		return err
	case len(data) > limit:
		return fmt.Errorf("%s: it has more than %d bytes: split it", name, limit)
	}
	if r.total += len(data); r.total > maxTotal {
		return fmt.Errorf("the files have more than %d bytes together: split the bundle", maxTotal)
	}
	r.files = append(r.files, File{name, data})
	return nil
}

// escape explains the error of a link that leaves the bundle.
func escape(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: if it is a symbolic link out of the bundle, copy what it points at (%s)", err, name)
}
