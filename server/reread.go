package server

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFile bounds each file of certificates or keys, in bytes.
	maxFile = 1 << 20
	// settling is how long a fault must be there before it is one: files that
	// are replaced one after the other do not fit for a moment.
	settling = 500 * time.Millisecond
)

// reread is what some files say, the last time that it was good. It is read
// again without anybody waiting for it.
type reread[T any] struct {
	what  string // for people: "the server's key pair"
	files []string
	check func(path string, mode os.FileMode) error // may refuse a file by its permissions
	parse func(texts [][]byte, now time.Time) (*T, error)
	log   *slog.Logger

	good atomic.Pointer[T]

	mu     sync.Mutex
	digest [sha256.Size]byte // guarded by mu: of the texts that good was made of
	fault  error             // guarded by mu: why the newest texts are not good; nil: they are
	since  time.Time         // guarded by mu: when fault began
	told   bool              // guarded by mu: fault has been logged
}

// first reads the files for the first time: there is nothing to keep.
func (r *reread[T]) first(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, digest, err := r.read(now, false)
	if err != nil {
		return fmt.Errorf("server: %s: %w", r.what, err)
	}
	r.digest = digest
	r.good.Store(value)
	return nil
}

// again reads the files again, and keeps what there is while they are faulty.
// Faulty files are tried at each look, whether they have changed or not.
func (r *reread[T]) again(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, digest, err := r.read(now, true)
	if err != nil {
		if r.fault == nil || r.fault.Error() != err.Error() {
			if r.fault == nil {
				r.since = now
			}
			r.fault, r.told = err, false
		}
		if !r.told && now.Sub(r.since) >= settling {
			r.told = true
			r.log.Error(r.what+": the files have a fault, and what was read before stays in force", "error", err)
		}
		return
	}
	if r.told {
		r.log.Info(r.what + ": the files are well again")
	}
	r.fault, r.told = nil, false
	if value != nil {
		r.digest = digest
		r.good.Store(value)
		r.log.Info(r.what + ": the files have changed and are in force")
	}
}

// read reads the files. The value is nil where they are those that are in
// force and unchanged is set.
func (r *reread[T]) read(now time.Time, unchanged bool) (*T, [sha256.Size]byte, error) {
	hash := sha256.New()
	texts := make([][]byte, len(r.files))
	for i, path := range r.files {
		var err error
		if texts[i], err = r.text(path); err != nil {
			return nil, [sha256.Size]byte{}, err
		}
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(texts[i]))))
		hash.Write(texts[i])
	}
	digest := [sha256.Size]byte(hash.Sum(nil))
	if unchanged && digest == r.digest {
		return nil, digest, nil
	}
	value, err := r.parse(texts, now)
	return value, digest, err
}

// text reads one file. Whoever may write to it decides who is let in.
func (r *reread[T]) text(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if runtime.GOOS != "windows" { // where the mode says nothing of others
		if err := r.check(path, info.Mode().Perm()); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// trouble is what people should know of the files, or nil.
func (r *reread[T]) trouble() *Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil || !r.told {
		return nil
	}
	return &Trouble{Part: "tls", Since: r.since, Message: r.what + " can't be read again, and what was read before stays in force: the server's log says why"}
}

// notWritable refuses a file that everybody may write to.
func notWritable(path string, mode os.FileMode) error {
	if mode&0o002 != 0 {
		return fmt.Errorf("everybody may write to %s (mode %04o), and so decide who is let in: chmod o-w it", path, mode)
	}
	return nil
}

// ownKey refuses a file of a key that others may write to.
func ownKey(path string, mode os.FileMode) error {
	if mode&0o022 != 0 {
		return fmt.Errorf("others may write to the key file %s (mode %04o): chmod 600 it, and make a new key", path, mode)
	}
	return nil
}
