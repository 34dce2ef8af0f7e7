package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writ-pdp/writ/bundle"
)

// Limits in bytes.
const (
	// pieceSize is how much of a file one key holds, well under the 1.5 MiB
	// that etcd takes in one request.
	pieceSize = 1 << 20
	// maxFile and maxTotal are bounds on what is fetched: no file of a bundle,
	// and no bundle, may be greater (see package bundle).
	maxFile  = 64 << 20
	maxTotal = 256 << 20
	// maxManifest has room for the names of bundle.MaxFiles files.
	maxManifest = 8 << 20
)

const digestPrefix = "sha256:"

// digest is the SHA-256 of a content: "sha256:" and 64 lower-case hexadecimal
// digits.
type digest string

func digestOf(data []byte) digest {
	sum := sha256.Sum256(data)
	return digest(digestPrefix + hex.EncodeToString(sum[:]))
}

func (d digest) hex() string { return strings.TrimPrefix(string(d), digestPrefix) }

func (d digest) valid() bool {
	raw, err := hex.DecodeString(d.hex())
	return err == nil && len(raw) == sha256.Size && string(d) == digestPrefix+hex.EncodeToString(raw)
}

// blob refers to a content.
type blob struct {
	Digest digest `json:"digest"`
	Size   int    `json:"size"` // bytes
}

// pieces is how many keys it takes. An empty content takes none.
func (b blob) pieces() int { return (b.Size + pieceSize - 1) / pieceSize }

func (b blob) check(limit int) error {
	switch {
	case !b.Digest.valid():
		return errors.New("it has no SHA-256")
	case b.Size < 0 || b.Size > limit:
		return fmt.Errorf("it has %d bytes, where at most %d are read", b.Size, limit)
	}
	return nil
}

// Generation is one bundle that was pushed.
type Generation struct {
	Number   uint64    `json:"generation"` // from 1
	Bundle   string    `json:"bundle"`     // digest of the bundle, as revisions name it
	Files    int       `json:"files"`
	Bytes    int       `json:"bytes"` // of all files
	PushedAt time.Time `json:"pushed_at"`
	PushedBy string    `json:"pushed_by,omitempty"`
	Note     string    `json:"note,omitempty"`
	// RollbackTo is the generation whose bundle came back; 0: none did.
	RollbackTo uint64 `json:"rollback_to,omitzero"`

	ID       string `json:"id"`                 // tells one push from another
	Previous string `json:"previous,omitempty"` // ID of the generation before; empty: there was none
	Manifest blob   `json:"manifest"`
}

// same reports whether g and other are one push.
func (g *Generation) same(other *Generation) bool {
	return g.ID == other.ID && g.Number == other.Number && g.Manifest == other.Manifest
}

// maxGeneration is the last number that a revision can write.
const maxGeneration = 1e18

// parseGeneration reads the value of state/current or generations/N.
func parseGeneration(data []byte) (*Generation, error) {
	g := &Generation{}
	if err := decode(data, g); err != nil {
		return nil, err
	}
	switch err := g.Manifest.check(maxManifest); {
	case g.Number == 0 || g.Number > maxGeneration:
		return nil, errors.New("generations count from 1")
	case !digest(g.Bundle).valid():
		return nil, errors.New("it names no bundle")
	case g.ID == "":
		return nil, errors.New("it has no id")
	case err != nil:
		return nil, fmt.Errorf("the list of its files: %w", err)
	}
	return g, nil
}

// manifest lists the files of a bundle.
type manifest struct {
	Files []manifestFile `json:"files"` // in bytewise order of names
}

type manifestFile struct {
	Name string `json:"name"`
	blob
}

// newManifest lists files, which are in order, and returns its content, too.
func newManifest(files []bundle.File) (manifest, []byte, error) {
	m := manifest{Files: make([]manifestFile, len(files))}
	for i, f := range files {
		m.Files[i] = manifestFile{f.Name, blob{digestOf(f.Data), len(f.Data)}}
	}
	data, err := json.Marshal(&m)
	return m, data, err
}

// parseManifest reads a manifest, and refuses one of too many or too great
// files before any is fetched.
func parseManifest(data []byte) (manifest, error) {
	var m manifest
	if err := decode(data, &m); err != nil {
		return m, err
	}
	if len(m.Files) > bundle.MaxFiles {
		return m, fmt.Errorf("it lists %d files, where at most %d are read", len(m.Files), bundle.MaxFiles)
	}
	total := 0
	for i, f := range m.Files {
		if err := f.check(maxFile); err != nil {
			return m, fmt.Errorf("file %d: %w", i, err)
		}
		if total += f.Size; total > maxTotal {
			return m, fmt.Errorf("its files have more than %d bytes together", maxTotal)
		}
		if !fs.ValidPath(f.Name) || i > 0 && f.Name <= m.Files[i-1].Name {
			return m, fmt.Errorf("file %d: its name is none, or not in order", i)
		}
	}
	return m, nil
}

// decode reads JSON strictly. The library's errors quote what they met, so
// they are not passed on.
func decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return errors.New("it is not as Writ writes it")
	}
	return nil
}
