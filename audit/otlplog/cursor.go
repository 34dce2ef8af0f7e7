package otlplog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cursorForm is the first line of a cursor file. The others are the log that
// it is for, the index of the first record that is not acknowledged, and the
// SHA-256 of what precedes.
const cursorForm = "writ-otlp-cursor/1"

// errTorn is said of a cursor file that was not written whole, or is damaged.
var errTorn = errors.New("the cursor is torn or damaged")

func formatCursor(log string, next uint64) []byte {
	b := fmt.Appendf(nil, "%s\n%s\n%d\n", cursorForm, log, next)
	sum := sha256.Sum256(b)
	return append(hex.AppendEncode(b, sum[:]), '\n')
}

// parseCursor reads what formatCursor writes, and nothing else.
func parseCursor(data []byte) (log string, next uint64, err error) {
	lines := strings.Split(string(data), "\n")
	if len(lines) != 5 {
		return "", 0, errTorn
	}
	log = lines[1]
	next, err = strconv.ParseUint(lines[2], 10, 64)
	if err != nil || !bytes.Equal(data, formatCursor(log, next)) {
		return "", 0, errTorn
	}
	return log, next, nil
}

// readCursor returns where to go on; 0 where there is no file.
func readCursor(file, log string) (uint64, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	of, next, err := parseCursor(data)
	if err == nil && of != log {
		return 0, fmt.Errorf("%s belongs to the log %s, and this is %s: remove it, and the whole log is sent", file, of, log)
	}
	return next, err
}

// writeCursor replaces the file: after a crash it is the old or the new one.
func writeCursor(file, log string, next uint64) (err error) {
	f, err := os.OpenFile(file+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(formatCursor(log, next)); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
