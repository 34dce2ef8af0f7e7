package bundle

import (
	"io/fs"
	"syscall"
	"time"
)

// inode returns which file of its file system a file is, and when anything of
// it was last changed, which nobody can set back.
func inode(info fs.FileInfo) (id uint64, changed time.Time) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino, time.Unix(s.Ctim.Unix())
	}
	return 0, time.Time{}
}
