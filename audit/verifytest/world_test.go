package verifytest_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/audit/verifytest"
)

// signer signs notes. Its key is made from its name, so that the vectors are
// the same each time.
type signer struct {
	name string
	kind byte
	key  ed25519.PrivateKey
}

func newSigner(name string, kind byte) signer {
	seed := sha256.Sum256([]byte("not a secret: " + name))
	return signer{name, kind, ed25519.NewKeyFromSeed(seed[:])}
}

func (s signer) material() string {
	return string(s.kind) + string(s.key.Public().(ed25519.PublicKey))
}

func (s signer) id() []byte {
	sum := sha256.Sum256([]byte(s.name + "\n" + s.material()))
	return sum[:4]
}

func (s signer) verifier() string {
	return s.name + "+" + hex.EncodeToString(s.id()) + "+" + base64.StdEncoding.EncodeToString([]byte(s.material()))
}

// line signs text, which the signature line follows.
func (s signer) line(text string) string {
	data := s.id()
	if s.kind == 4 {
		const when = 1679315147 // the time in tlog-cosignature's example
		data = binary.BigEndian.AppendUint64(data, when)
		text = fmt.Sprintf("cosignature/v1\ntime %d\n%s", when, text)
	}
	data = append(data, ed25519.Sign(s.key, []byte(text))...)
	return "— " + s.name + " " + base64.StdEncoding.EncodeToString(data) + "\n"
}

var (
	ours    = newSigner("writ.example/log", 1)
	foreign = newSigner("writ.example/other", 1)
	witness = newSigner("witness.example/w", 4)
	silent  = newSigner("witness.example/silent", 4)
)

func record(index int) string { return fmt.Sprintf(`{"v":1,"index":%d,"kind":"start"}`, index) }

func records(n int) []string {
	var all []string
	for i := range n {
		all = append(all, record(i))
	}
	return all
}

// world is a log to be written, and then to be tampered with.
type world struct {
	t       *testing.T
	dir     string
	records []string
	split   []int // indexes where another segment begins
}

func (w *world) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *world) put(name, data string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(data), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

// flip changes one bit of a file.
func (w *world) flip(name string, at int) {
	w.t.Helper()
	data := []byte(w.get(name))
	data[at] ^= 1
	w.put(name, string(data))
}

// segments writes the records.
func (w *world) segments() {
	w.t.Helper()
	if len(w.records) == 0 {
		return
	}
	starts := append([]int{0}, w.split...)
	for i, start := range starts {
		end := len(w.records)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		w.put(segment(start), strings.Join(w.records[start:end], "\n")+"\n")
	}
}

func segment(first int) string { return fmt.Sprintf("segments/%020d.jsonl", first) }

func leaves(records []string) []verifytest.Hash {
	var all []verifytest.Hash
	for _, r := range records {
		all = append(all, verifytest.LeafHash([]byte(r)))
	}
	return all
}

// tiles writes the tiles of a tree of these records.
func (w *world) tiles(records []string) {
	w.t.Helper()
	for level, hashes := range verifytest.Levels(leaves(records)) {
		index := uint64(0)
		for some := range slices.Chunk(hashes, 256) {
			var data bytes.Buffer
			for _, h := range some {
				data.Write(h[:])
			}
			w.put("tile/"+verifytest.TilePath(uint64(level), index, uint64(len(some))), data.String())
			index++
		}
	}
}

// text is a checkpoint of these records.
func text(origin string, records []string, extensions ...string) string {
	root := verifytest.Root(leaves(records))
	t := fmt.Sprintf("%s\n%d\n%s\n", origin, len(records), base64.StdEncoding.EncodeToString(root[:]))
	for _, e := range extensions {
		t += e + "\n"
	}
	return t
}

func (w *world) checkpoint(text string, signers ...signer) {
	w.t.Helper()
	note := text + "\n"
	for _, s := range signers {
		note += s.line(text)
	}
	w.put("checkpoint", note)
}

// good writes a log of the records.
func (w *world) good() {
	w.t.Helper()
	w.segments()
	w.tiles(w.records)
	w.checkpoint(text(ours.name, w.records), ours)
}

func (w *world) of(n int, split ...int) *world {
	w.records, w.split = records(n), split
	w.good()
	return w
}
