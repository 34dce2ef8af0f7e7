package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
)

// Modes of what is made in the directory of a log.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// ReplaceFile puts a file in place, whole or not at all, and returns when it is
// on the disk: it writes name+".new", syncs it, renames it and syncs the
// directory. There must be one writer at a time. What a crash leaves of
// name+".new" is written over by the next.
func ReplaceFile(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	if err := replace(dir, name, data, mode); err != nil {
		return err
	}
	return SyncDir(dir, path.Dir(name))
}

// replace is ReplaceFile, but the name may not outlive a crash.
func replace(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	fresh := name + ".new"
	f, err := dir.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return dir.Rename(fresh, name)
}

// SyncDir makes the names in a directory outlive a crash.
func SyncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncDirs does so for a set of directories, and takes out what it has done.
func syncDirs(root *os.Root, dirs map[string]bool) error {
	for dir := range dirs {
		if err := SyncDir(root, dir); err != nil {
			return err
		}
		delete(dirs, dir)
	}
	return nil
}

// writeTiles writes tiles, all at once, and adds the directories to be synced
// for them.
func writeTiles(log *os.Root, tiles []hashes, dirs map[string]bool) error {
	for _, tile := range tiles {
		dir := path.Dir(tile.Path())
		if dirs[dir] {
			continue
		}
		dirs[dir] = true
		if _, err := log.Stat(dir); err == nil {
			continue
		}
		if err := log.MkdirAll(dir, dirMode); err != nil {
			return err
		}
		for ; dir != "."; dir = path.Dir(dir) {
			dirs[path.Dir(dir)] = true
		}
	}
	errs := make([]error, len(tiles))
	var all sync.WaitGroup
	for i, tile := range tiles {
		all.Go(func() { errs[i] = replace(log, tile.Path(), tile.data, fileMode) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// openRegular opens a file to read it. Somebody else may have made it: to open a
// named pipe would wait for ever.
func openRegular(dir *os.Root, name string) (*os.File, error) {
	info, err := dir.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file: put back the one that was there", name)
	}
	return dir.Open(name)
}

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(dir *os.Root, name string, limit int) ([]byte, error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("%s: is longer than %d bytes", name, limit)
	}
	return data, nil
}
