package bundle

import (
	"bytes"
	"time"

	"github.com/fsnotify/fsnotify"
)

// OpenWatchers makes d take its watchers from open.
func OpenWatchers(d *Directory, open func() (*fsnotify.Watcher, error)) { d.watch.open = open }

// Hurry makes d say at once that content keeps changing.
func Hurry(d *Directory) { d.restless = time.Millisecond }

// Look walks over a directory without reading its files.
func Look(dir string) error {
	_, err := look(dir, false)
	return err
}

// ReadKept reads an archive of a kept bundle.
func ReadKept(data []byte) ([]File, error) {
	_, files, err := readKept(bytes.NewReader(data))
	return files, err
}
