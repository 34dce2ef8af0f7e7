//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package revocation

import (
	"errors"
	"os"
)

// lock refuses: two writers in one log would spoil it, and this system has no
// flock to keep them apart.
func lock(*os.File) error {
	return errors.New("this operating system has no flock(2), without which the log cannot be kept")
}
