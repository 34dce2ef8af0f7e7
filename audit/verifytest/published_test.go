package verifytest_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/audit/verifytest"
)

type proof struct {
	Index, Older, Size uint64
	Proof              []string
}

// published are values that others published. Each has its source beside it.
type published struct {
	Tree struct {
		Records, Leaves, Roots []string
		Inclusion, Consistency []proof
	}
	Notes []struct {
		Source, Key, Note string
		Size              uint64
	}
	Tiles struct {
		Path struct {
			Index uint64
			Below string
		}
		Trees []struct {
			Size          uint64
			Full, Partial []uint64
		}
	}
}

func readPublished(t *testing.T) published {
	t.Helper()
	data, err := os.ReadFile("testdata/published.json")
	if err != nil {
		t.Fatal(err)
	}
	var p published
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func fromHex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func hashes(t *testing.T, texts []string) []verifytest.Hash {
	t.Helper()
	all := []verifytest.Hash{}
	for _, text := range texts {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, verifytest.Hash(b))
	}
	return all
}

func TestPublishedTree(t *testing.T) {
	p := readPublished(t).Tree
	var leaves, roots []verifytest.Hash
	for i, record := range p.Records {
		leaf := verifytest.LeafHash(fromHex(t, record))
		if want := verifytest.Hash(fromHex(t, p.Leaves[i])); leaf != want {
			t.Errorf("leaf %d is %x, want %x", i, leaf, want)
		}
		leaves = append(leaves, leaf)
	}
	for size, want := range p.Roots {
		roots = append(roots, verifytest.Hash(fromHex(t, want)))
		if got := verifytest.Root(leaves[:size]); got != roots[size] {
			t.Errorf("the root of %d is %x, want %s", size, got, want)
		}
	}
	tree := verifytest.NewTree(leaves)
	for size, want := range roots {
		if got := tree.Root(uint64(size)); got != want {
			t.Errorf("the tree's root of %d is %x, want %x", size, got, want)
		}
	}
	for _, c := range p.Inclusion {
		want := hashes(t, c.Proof)
		if got, err := tree.Inclusion(c.Index, c.Size); err != nil || !slices.Equal(got, want) {
			t.Errorf("record %d of %d: %x, %v", c.Index, c.Size, got, err)
		}
		check := verifytest.CheckInclusion
		leaf, root := leaves[c.Index], roots[c.Size]
		if err := check(leaf, c.Index, c.Size, root, want); err != nil {
			t.Errorf("record %d of %d: %v", c.Index, c.Size, err)
		}
		// The mutations of the same corpus.
		for name, err := range map[string]error{
			"index + 1":        check(leaf, c.Index+1, c.Size, root, want),
			"index - 1":        check(leaf, c.Index-1, c.Size, root, want),
			"index XOR 2":      check(leaf, c.Index^2, c.Size, root, want),
			"size * 2":         check(leaf, c.Index, c.Size*2, root, want),
			"size / 2":         check(leaf, c.Index, c.Size/2, root, want),
			"wrong leaf":       check(leaves[7-c.Index], c.Index, c.Size, root, want),
			"empty root":       check(leaf, c.Index, c.Size, roots[0], want),
			"trailing garbage": check(leaf, c.Index, c.Size, root, append(slices.Clip(want), root)),
			"preceding":        check(leaf, c.Index, c.Size, root, append([]verifytest.Hash{root}, want...)),
			"removed":          check(leaf, c.Index, c.Size, root, want[1:]),
			"truncated":        check(leaf, c.Index, c.Size, root, want[:len(want)-1]),
			"modified":         check(leaf, c.Index, c.Size, root, flipped(want)),
		} {
			if err == nil {
				t.Errorf("record %d of %d, %s: accepted", c.Index, c.Size, name)
			}
		}
	}
	for _, c := range p.Consistency {
		want := hashes(t, c.Proof)
		if got, err := tree.Consistency(c.Older, c.Size); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d to %d: %x, %v", c.Older, c.Size, got, err)
		}
		older, newer := roots[c.Older], roots[c.Size]
		check := verifytest.CheckConsistency
		if err := check(c.Older, older, c.Size, newer, want); err != nil {
			t.Errorf("%d to %d: %v", c.Older, c.Size, err)
		}
		for name, err := range map[string]error{
			"older + 1":        check(c.Older+1, older, c.Size, newer, want),
			"older - 1":        check(c.Older-1, older, c.Size, newer, want),
			"size * 2":         check(c.Older, older, c.Size*2, newer, want),
			"size / 2":         check(c.Older, older, c.Size/2, newer, want),
			"swapped roots":    check(c.Older, newer, c.Size, older, want),
			"wrong older root": check(c.Older, roots[0], c.Size, newer, want),
			"wrong newer root": check(c.Older, older, c.Size, roots[0], want),
			"empty":            check(c.Older, older, c.Size, newer, nil),
			"trailing":         check(c.Older, older, c.Size, newer, append(slices.Clip(want), older)),
			"preceding":        check(c.Older, older, c.Size, newer, append([]verifytest.Hash{older}, want...)),
			"truncated":        check(c.Older, older, c.Size, newer, want[:len(want)-1]),
			"modified":         check(c.Older, older, c.Size, newer, flipped(want)),
		} {
			if err == nil {
				t.Errorf("%d to %d, %s: accepted", c.Older, c.Size, name)
			}
		}
	}
}

func flipped(proof []verifytest.Hash) []verifytest.Hash {
	all := slices.Clone(proof)
	all[0][31] ^= 0x10
	return all
}

func TestPublishedNotes(t *testing.T) {
	for _, c := range readPublished(t).Notes {
		key, err := verifytest.ParseKey(c.Key)
		if err != nil {
			t.Errorf("%s: %v", c.Source, err)
			continue
		}
		note, err := verifytest.ParseNote([]byte(c.Note))
		if err != nil {
			t.Errorf("%s: %v", c.Source, err)
			continue
		}
		if err := note.Signed(key); err != nil {
			t.Errorf("%s: %v", c.Source, err)
		}
		checkpoint, err := verifytest.ParseCheckpoint(note.Text)
		if checkpoint.Size != c.Size || (err == nil) != (c.Size > 0) {
			t.Errorf("%s: size %d, want %d: %v", c.Source, checkpoint.Size, c.Size, err)
		}
		changed, err := verifytest.ParseNote([]byte("x" + c.Note))
		if err == nil {
			err = changed.Signed(key)
		}
		if err == nil {
			t.Errorf("%s: changed, and accepted", c.Source)
		}
	}
}

// What signed-note and tlog-checkpoint say a note, key or checkpoint must not be.
func TestBadNotes(t *testing.T) {
	const (
		key  = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
		line = "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
	)
	for name, text := range map[string]string{
		"no blank line": "text\n" + line, "no signature": "text\n\n", "no newline": "text\n\n" + strings.TrimSuffix(line, "\n"),
		"hyphen": "text\n\n" + strings.Replace(line, "—", "-", 1), "control": "te\txt\n\n" + line, "return": "text\r\n\n" + line, "not UTF-8": "te\xffxt\n\n" + line,
		"plus in the name": "text\n\n" + strings.Replace(line, "/foo", "+foo", 1), "no name": "text\n\n—  Uw2QOkn8srV1\n", "short": "text\n\n— example.com/foo Uw2QOg==\n",
		"not base64": "text\n\n" + strings.Replace(line, "Uw2Q", "U*2Q", 1), "empty": "",
	} {
		if _, err := verifytest.ParseNote([]byte(text)); err == nil {
			t.Errorf("note, %s: accepted", name)
		}
	}
	for name, text := range map[string]string{
		"id": strings.Replace(key, "530d903a", "530d903b", 1), "upper case": strings.Replace(key, "530d903a", "530D903A", 1), "no id": "example.com/foo+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
		"name": "x" + key, "no name": strings.TrimPrefix(key, "example.com/foo"), "space": strings.Replace(key, "/foo", "/f o", 1), "short": strings.TrimSuffix(key, "3U2k"), "empty": "",
		"type": "example.com/foo+530d903a+AukyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
	} {
		if _, err := verifytest.ParseKey(text); err == nil {
			t.Errorf("key, %s: accepted", name)
		}
	}
	const root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
	for name, text := range map[string]string{
		"two lines": "origin\n1\n", "no newline": "origin\n1\n" + root, "leading zero": "origin\n01\n" + root + "\n", "sign": "origin\n+1\n" + root + "\n", "negative": "origin\n-1\n" + root + "\n",
		"no origin": "\n1\n" + root + "\n", "short root": "origin\n1\nCsUY\n", "no size": "origin\n\n" + root + "\n", "empty extension": "origin\n1\n" + root + "\n\n", "too big": "origin\n9223372036854775808\n" + root + "\n",
	} {
		if _, err := verifytest.ParseCheckpoint(text); err == nil {
			t.Errorf("checkpoint, %s: accepted", name)
		}
	}
	for _, text := range []string{"origin\n0\n" + root + "\n", "origin\n7\n" + root + "\nan extension\nanother\n"} {
		if _, err := verifytest.ParseCheckpoint(text); err != nil {
			t.Errorf("checkpoint %q: %v", text, err)
		}
	}
}

func TestPublishedTiles(t *testing.T) {
	p := readPublished(t).Tiles
	if got := verifytest.TilePath(0, p.Path.Index, 256); got != p.Path.Below {
		t.Errorf("tile %d is %s, want %s", p.Path.Index, got, p.Path.Below)
	}
	for _, c := range p.Trees {
		full, partial := verifytest.Required(c.Size)
		if !slices.Equal(full, c.Full) || !slices.Equal(partial, c.Partial) {
			t.Errorf("a tree of %d has %d full tiles and partial ones of %d, want %d and %d", c.Size, full, partial, c.Full, c.Partial)
		}
	}
	for _, name := range []string{p.Path.Below, "0/000", "63/999", "1/x001/000", "0/001.p/255", "2/x001/x234/067.p/1"} {
		if err := verifytest.ParseTilePath(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "0", "000", "64/000", "00/000", "0/0", "0/0000", "0/x000/001", "0/001/002", "0/x001", "0/000.p", "0/000.p/0", "0/000.p/256", "0/000.p/01", "0/-01", "-1/000", "0/000/", "0/x001/x234/67", "entries/000", "0/000.tmp"} {
		if verifytest.ParseTilePath(name) == nil {
			t.Errorf("tile/%s: accepted", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range []string{
		"example.com/foo\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n— example.com/foo Uw2QOkn8srV1yJGh\n",
		"sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8", "2/x001/x234/067.p/1", "\n\n\n", "— ",
	} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if note, err := verifytest.ParseNote([]byte(text)); err == nil && !strings.HasPrefix(text, note.Text+"\n— ") {
			t.Errorf("the text %q is not the beginning of the note", note.Text)
		}
		if c, err := verifytest.ParseCheckpoint(text); err == nil && !strings.HasPrefix(text, c.Origin+"\n") {
			t.Errorf("the origin %q is not the first line", c.Origin)
		}
		if k, err := verifytest.ParseKey(text); err == nil && !strings.HasPrefix(text, k.Name+"+") {
			t.Errorf("the name %q is not the beginning of the key", k.Name)
		}
		if verifytest.ParseTilePath(text) == nil && strings.Contains(text, "..") {
			t.Errorf("%q is a tile", text)
		}
	})
}
