package audit

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/writ-pdp/writ/audit/tree"
)

// unfinished ends the name of a file that was to replace another one.
const unfinished = ".new"

// clearUnfinished removes files that were not yet in place when the log's last
// process ended: a checkpoint, and tiles beyond it.
func (o *opening) clearUnfinished() error {
	if err := o.clear(".", tree.CheckpointFile+unfinished); err != nil {
		return err
	}
	// Tiles are made in order: behind one of which there is nothing there is none.
	for level := 0; o.at.Size>>(tree.Height*level) > 0 || level == 0; level++ {
		for index := o.at.Size >> (tree.Height * (level + 1)); ; index++ {
			full := tree.Tile{Level: level, Index: index, Width: tree.Width}.Path()
			if err := errors.Join(o.clear(path.Dir(full), path.Base(full)+unfinished), o.clear(full+".p", unfinished)); err != nil {
				return err
			}
			if !o.there(full) && !o.there(full+".p") {
				break
			}
		}
	}
	return nil
}

// clear removes the files of a directory whose names end so.
func (o *opening) clear(dir, suffix string) error {
	d, err := o.disk.dir.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		file := path.Join(dir, name)
		if err := o.disk.dir.Remove(file); err != nil {
			return err
		}
		o.recovery.Leftovers = append(o.recovery.Leftovers, file)
	}
	return nil
}

func (o *opening) there(name string) bool {
	_, err := o.disk.dir.Lstat(name)
	return err == nil
}
