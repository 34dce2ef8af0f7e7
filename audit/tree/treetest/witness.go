package treetest

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Witness is a witness of one log: a handler of add-checkpoint (C2SP
// tlog-witness), written from the specification.
type Witness struct {
	Name string
	Key  string // its verifier key

	private ed25519.PrivateKey
	id      uint32
	log     note.Verifier

	mu       sync.Mutex // guards what follows
	size     int64
	root     string
	requests int
}

// NewWitness returns a witness of the log with this verifier, which has seen
// nothing yet. Its key is made from its name.
func NewWitness(t testing.TB, name string, log note.Verifier) *Witness {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	w := &Witness{Name: name, private: ed25519.NewKeyFromSeed(seed[:]), log: log}
	key := append([]byte{0x04}, w.private.Public().(ed25519.PublicKey)...)
	id := sha256.Sum256(append([]byte(name+"\n"), key...))
	w.id = binary.BigEndian.Uint32(id[:4])
	w.Key = fmt.Sprintf("%s+%08x+%s", name, w.id, base64.StdEncoding.EncodeToString(key))
	return w
}

// Cosign returns the witness's signature line for a checkpoint's body.
func (w *Witness) Cosign(body string, at time.Time) string {
	text := fmt.Sprintf("cosignature/v1\ntime %d\n%s", at.Unix(), body)
	sig := binary.BigEndian.AppendUint32(nil, w.id)
	sig = binary.BigEndian.AppendUint64(sig, uint64(at.Unix()))
	sig = append(sig, ed25519.Sign(w.private, []byte(text))...)
	return "— " + w.Name + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
}

// Seen returns the size of the newest checkpoint that the witness has cosigned,
// and how many requests it has had.
func (w *Witness) Seen() (size int64, requests int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size, w.requests
}

// ServeHTTP answers add-checkpoint.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/add-checkpoint") {
		http.Error(rw, "not here", http.StatusNotFound)
		return
	}
	old, proof, signed, err := readRequest(r.Body)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	n, err := note.Open(signed, note.VerifierList(w.log))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusForbidden)
		return
	}
	lines := strings.Split(n.Text, "\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	switch {
	case lines[0] != w.log.Name():
		http.Error(rw, "unknown log", http.StatusNotFound)
	case err != nil || old > size:
		http.Error(rw, "sizes", http.StatusBadRequest)
	case old != w.size:
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintf(rw, "%d\n", w.size)
	case old == size && w.root != "" && w.root != lines[2]:
		http.Error(rw, "another root", http.StatusConflict)
	case !w.consistent(old, size, lines[2], proof):
		http.Error(rw, "proof", http.StatusUnprocessableEntity)
	default:
		w.size, w.root = size, lines[2]
		io.WriteString(rw, w.Cosign(n.Text, time.Now()))
	}
}

// consistent reports whether the proof leads from what w has seen to root.
func (w *Witness) consistent(old, size int64, root string, proof tlog.TreeProof) bool {
	if old == 0 || old == size {
		return len(proof) == 0
	}
	before, err1 := tlog.ParseHash(w.root)
	after, err2 := tlog.ParseHash(root)
	return err1 == nil && err2 == nil && tlog.CheckTree(proof, size, after, old, before) == nil
}

// readRequest reads the body of an add-checkpoint request.
func readRequest(body io.Reader) (old int64, proof tlog.TreeProof, signed []byte, err error) {
	all, err := io.ReadAll(body)
	if err != nil {
		return 0, nil, nil, err
	}
	head, signed, ok := bytes.Cut(all, []byte("\n\n"))
	if !ok {
		return 0, nil, nil, errors.New("no empty line")
	}
	lines := bufio.NewScanner(bytes.NewReader(head))
	lines.Scan()
	if _, err := fmt.Sscanf(lines.Text(), "old %d", &old); err != nil || lines.Text() != fmt.Sprintf("old %d", old) {
		return 0, nil, nil, errors.New("no old size")
	}
	for lines.Scan() {
		h, err := tlog.ParseHash(lines.Text())
		if err != nil {
			return 0, nil, nil, err
		}
		proof = append(proof, h)
	}
	return old, proof, signed, nil
}
