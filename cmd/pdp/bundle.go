package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/examples"
)

// loadBundle reads and builds the bundle in dir; where dir is empty, the one
// that comes with Writ. Faults go to standard error, each with its place.
func loadBundle(c *console, dir *directory) (*bundle.Bundle, error) {
	files, err := readBundle(dir)
	if err != nil {
		return nil, err
	}
	b, faults := bundle.Build(files, nil)
	for _, f := range faults {
		fmt.Fprintln(c.err, f)
	}
	if b == nil {
		return nil, fmt.Errorf("the bundle %s has faults and was not loaded", place(dir))
	}
	return b, nil
}

func readBundle(dir *directory) ([]bundle.File, error) {
	if dir != nil {
		return bundle.ReadDir(string(*dir))
	}
	return embedded(examples.AccountsPayable())
}

// embedded reads a bundle that is part of this program.
func embedded(fsys fs.FS) ([]bundle.File, error) {
	var files []bundle.File
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, path)
		files = append(files, bundle.File{Name: path, Data: data})
		return err
	})
	return files, err
}

func place(dir *directory) string {
	if dir == nil {
		return "that comes with Writ (name yours with --bundle DIR)"
	}
	return string(*dir)
}

// directory is a path that the user named; nil where none was. An empty one
// is a mistake, such as a variable that is not set, and never means "none".
type directory string

// UnmarshalText implements encoding.TextUnmarshaler for kong.
func (d *directory) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("the path of the directory is empty")
	}
	*d = directory(text)
	return nil
}
