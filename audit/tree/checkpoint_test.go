package tree_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
)

// specified is the example of C2SP tlog-checkpoint.
const specified = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"

func TestBody(t *testing.T) {
	root, err := base64.StdEncoding.DecodeString("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		body string
		want tree.Checkpoint
	}{
		{specified, tree.Checkpoint{Origin: "example.com/behind-the-sofa", Size: 20852163, Root: tlog.Hash(root)}},
		{specified + "one more\nand another\n", tree.Checkpoint{Origin: "example.com/behind-the-sofa", Size: 20852163, Root: tlog.Hash(root), Extensions: []string{"one more", "and another"}}},
		{"ö\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", tree.Checkpoint{Origin: "ö", Root: tlog.Hash(unhex(t, ctRoots[0]))}},
	} {
		got, err := tree.ParseBody(test.body)
		if err != nil || !got.Equal(test.want) {
			t.Errorf("%q: %+v and %v", test.body, got, err)
		}
		if body, err := test.want.Body(); err != nil || body != test.body {
			t.Errorf("%+v: %q and %v", test.want, body, err)
		}
	}
}

func TestNoBody(t *testing.T) {
	const hash = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
	for name, body := range map[string]string{
		"empty":                  "",
		"no end of the line":     strings.TrimSuffix(specified, "\n"),
		"two lines":              "a\n1\n",
		"no origin":              "\n1\n" + hash + "\n",
		"a long origin":          strings.Repeat("o", 256) + "\n1\n" + hash + "\n",
		"a control character":    "a\x01\n1\n" + hash + "\n",
		"no UTF-8":               "a\xff\n1\n" + hash + "\n",
		"CR":                     "a\r\n1\n" + hash + "\n",
		"a leading zero":         "a\n01\n" + hash + "\n",
		"a sign":                 "a\n+1\n" + hash + "\n",
		"a negative size":        "a\n-1\n" + hash + "\n",
		"a size of letters":      "a\nx\n" + hash + "\n",
		"no size":                "a\n\n" + hash + "\n",
		"a space":                "a\n1 \n" + hash + "\n",
		"an enormous size":       "a\n9223372036854775807\n" + hash + "\n",
		"a size that overflows":  "a\n18446744073709551617\n" + hash + "\n",
		"no hash":                "a\n1\n\n",
		"a short hash":           "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxqw==\n",
		"a long hash":            "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2Jh\n",
		"a hash without padding": "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I\n",
		"unused bits":            "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n",
		"base64url":              "a\n1\n" + strings.ReplaceAll(hash, "/", "_") + "\n",
		"an empty extension":     specified + "\n",
		"size 0, another root":   "a\n0\n" + hash + "\n",
	} {
		if c, err := tree.ParseBody(body); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for name, c := range map[string]tree.Checkpoint{
		"the zero one":         {},
		"a line in the origin": {Origin: "a\nb", Size: 1},
		"an empty extension":   {Origin: "a", Size: 1, Extensions: []string{""}},
		"two in one":           {Origin: "a", Size: 1, Extensions: []string{"a\nb"}},
		"a negative size":      {Origin: "a", Size: -1},
	} {
		if body, err := c.Body(); err == nil {
			t.Errorf("%s: %q", name, body)
		}
	}
}

func FuzzParseBody(f *testing.F) {
	f.Add(specified)
	f.Add(specified + "extension\n")
	f.Add("a\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
	f.Fuzz(func(t *testing.T, body string) {
		c, err := tree.ParseBody(body)
		if err != nil {
			return
		}
		if again, err := c.Body(); err != nil || again != body {
			t.Errorf("%q is written as %q: %v", body, again, err)
		}
	})
}

// TestOpenElsewhere opens a checkpoint that another implementation made: from
// the tests of FiloSottile/torchwood's litewitness.
func TestOpenElsewhere(t *testing.T) {
	const origin = "sigsum.org/v1/tree/985ea163f5af026723561354f51f2ebcdcf2af809ce254ccfb64aa9aadd80f90"
	vkey, err := note.NewEd25519VerifierKey(origin, unhex(t, "52c05edad1bf5feffa81354faae59a655d9a9a1a793ed2f62c39c26c0be2aecd"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tree.Open([]byte(origin+"\n1\nKgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— "+origin+
		" 7BKT0gOfNZ1J0So9unY3BZtm2YkPIoNYM/dce0Z2avJDs8dxN6ts9bOSwwrVrbjm6P9K3ZxpK6jJngOG6YvGGzV/lwo=\n"), v)
	if err != nil {
		t.Fatal(err)
	}
	if want := (tree.Checkpoint{Origin: origin, Size: 1, Root: tlog.Hash{42}}); !s.Equal(want) {
		t.Errorf("%+v, want %+v", s.Checkpoint, want)
	}
}

func TestSignAndOpen(t *testing.T) {
	l := treetest.New(t)
	l.Append(3, 100)
	signed := l.Checkpoint()
	s, err := tree.Open(signed, l.Verifier)
	if err != nil || !s.Equal(l.Head()) {
		t.Fatalf("%+v and %v, want %+v", s, err, l.Head())
	}
	other := treetest.NewAt(t, t.TempDir(), "other.example")
	namesake := treetest.New(t)
	foreign, err := tree.Sign(l.Head(), namesake.Signer)
	if err != nil {
		t.Fatal(err)
	}
	head := l.Head()
	head.Origin = "other.example"
	theirs, err := tree.Sign(head, other.Signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Sign(head, l.Signer); err == nil {
		t.Error("a key has signed for another origin")
	}
	for _, test := range []struct {
		name   string
		signed []byte
		want   error
	}{
		{"another log", theirs, tree.ErrOrigin},
		{"another key of that name", foreign, tree.ErrForeignKey},
		{"another size", bytes.Replace(signed, []byte("\n3\n"), []byte("\n4\n"), 1), tree.ErrSignature},
		{"one more line", bytes.Replace(signed, []byte("\n\n"), []byte("\nmore\n\n"), 1), tree.ErrSignature},
		{"no signature", bytes.Split(signed, []byte("— "))[0], nil},
		{"nothing", nil, nil},
		{"too long", append(bytes.Clone(signed), bytes.Repeat([]byte("— a AAAAAAAA\n"), 1<<13)...), nil},
	} {
		s, err := tree.Open(test.signed, l.Verifier)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if s.Origin != "" {
			t.Errorf("%s: an error, and the checkpoint %+v", test.name, s)
		}
	}
	if _, err := tree.Open(signed, nil); err == nil {
		t.Error("opened without a key")
	}
}

// TestEachByteOfCheckpoint changes each byte to some other values: those with
// one other bit, and some more.
func TestEachByteOfCheckpoint(t *testing.T) {
	l := treetest.New(t)
	l.Append(3, 100)
	signed := l.Checkpoint()
	for i := range signed {
		for _, other := range []byte{0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x03, 0x7f, 0xff, signed[i], signed[i] ^ '\n'} {
			bad := bytes.Clone(signed)
			bad[i] ^= other
			if bad[i] == signed[i] {
				continue
			}
			if _, err := tree.Open(bad, l.Verifier); err == nil {
				t.Fatalf("byte %d changed from %q to %q", i, signed[i], bad[i])
			}
		}
	}
}

var at = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func newWitness(t *testing.T, name string, log note.Verifier) (*treetest.Witness, *tree.Witness) {
	t.Helper()
	w := treetest.NewWitness(t, name, log)
	key, err := tree.NewWitness(w.Key)
	if err != nil {
		t.Fatal(err)
	}
	return w, key
}

func TestCosign(t *testing.T) {
	l := treetest.New(t)
	l.Append(3, 100)
	signed := l.Checkpoint()
	body, err := l.Head().Body()
	if err != nil {
		t.Fatal(err)
	}
	w1, key1 := newWitness(t, "w1.example", l.Verifier)
	w2, key2 := newWitness(t, "w2.example", l.Verifier)
	w3, _ := newWitness(t, "w3.example", l.Verifier)

	cosigned, s, err := tree.Cosign(signed, []byte(w1.Cosign(body, at)+w3.Cosign(body, at)), l.Verifier, key1, key2)
	if err != nil {
		t.Fatal(err)
	}
	want := []tree.Cosignature{{Witness: "w1.example", Time: at}}
	if len(s.Cosignatures) != 1 || s.Cosignatures[0] != want[0] {
		t.Errorf("cosignatures %v, want %v", s.Cosignatures, want)
	}
	if got, want := string(cosigned), string(signed)+w1.Cosign(body, at); got != want {
		t.Errorf("the cosigned checkpoint is\n%swant\n%s", got, want)
	}
	// A second one keeps the first, also when that witness isn't known.
	twice, s, err := tree.Cosign(cosigned, []byte(w2.Cosign(body, at.Add(time.Hour))), l.Verifier, key2)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cosignatures) != 1 || s.Cosignatures[0].Time != at.Add(time.Hour) {
		t.Errorf("cosignatures %v", s.Cosignatures)
	}
	if s, err := tree.Open(twice, l.Verifier, key1, key2); err != nil || len(s.Cosignatures) != 2 || !s.Equal(l.Head()) {
		t.Errorf("%+v and %v", s, err)
	}
	for name, lines := range map[string]string{
		"nothing":              "",
		"no end of the line":   strings.TrimSuffix(w1.Cosign(body, at), "\n"),
		"a changed signature":  strings.Replace(w1.Cosign(body, at), "A", "B", 1),
		"of another body":      w1.Cosign(strings.Replace(body, "\n3\n", "\n4\n", 1), at),
		"another checkpoint":   "\n" + body + "\n" + w1.Cosign(body, at),
		"an empty line":        w1.Cosign(body, at) + "\n",
		"text":                 "hello\n",
		"lines before":         "more\n\n" + w1.Cosign(body, at),
		"a signature not done": "— w1.example\n",
	} {
		if _, s, err := tree.Cosign(signed, []byte(lines), l.Verifier, key1); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestWitnessKeys(t *testing.T) {
	// From the tests of transparency-dev/formats.
	w, err := tree.NewWitness("remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2")
	if err != nil || w.Name() != "remora.n621.de" || w.KeyHash() != 0xda77ade7 {
		t.Errorf("%+v: %v", w, err)
	}
	for name, key := range map[string]string{
		"empty":               "",
		"a log's key":         "TEST+7997405c+AQcC+FTVKf0jlTdHDY3rbevmnKxxPjigCXlVtGe6RIr6",
		"another id":          "remora.n621.de+da77ade8+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
		"another name":        "remora.n621.com+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
		"no name":             "+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
		"a short id":          "remora.n621.de+da77ade+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
		"no hexadecimal":      "remora.n621.de+NOTANHEX+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
		"no base64":           "remora.n621.de+da77ade7+THIS_IS_NOT_BASE64!",
		"no key":              "remora.n621.de+da77ade7+",
		"a short key":         "remora.n621.de+da77ade7+BOvN",
		"unknown algorithm":   "remora.n621.de+da77ade7+A+vN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
		"only two parts":      "remora.n621.de+da77ade7",
		"a space in the name": "remora n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
	} {
		if w, err := tree.NewWitness(key); err == nil {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

func TestWitnessVerify(t *testing.T) {
	l := treetest.New(t)
	w, key := newWitness(t, "w1.example", l.Verifier)
	raw := func(line string) []byte {
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]))
		if err != nil {
			t.Fatal(err)
		}
		return b[4:]
	}
	good := raw(w.Cosign(specified, at))
	if !key.Verify([]byte(specified), good) {
		t.Fatal("a cosignature doesn't verify")
	}
	// The message of C2SP tlog-cosignature.
	if got, want := string(tree.CosignedMessage(1679315147, []byte(specified))), "cosignature/v1\ntime 1679315147\n"+specified; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if key.Verify([]byte(specified), bad) {
			t.Errorf("verifies with another byte %d", i)
		}
	}
	if key.Verify([]byte(specified), good[:71]) || key.Verify([]byte(specified), append(good, 0)) || key.Verify([]byte(specified), nil) {
		t.Error("verifies with another length")
	}
	if text := "no checkpoint\n"; key.Verify([]byte(text), raw(w.Cosign(text, at))) {
		t.Error("a text that is no checkpoint verifies")
	}
	// The key of a treetest.Witness is made from its name.
	seed := sha256.Sum256([]byte("w1.example"))
	private := ed25519.NewKeyFromSeed(seed[:])
	for seconds, want := range map[uint64]bool{0: true, 1: true, 1<<63 - 1: true, 1 << 63: false, 1<<64 - 1: false} {
		text := fmt.Sprintf("cosignature/v1\ntime %d\n%s", seconds, specified)
		sig := append(binary.BigEndian.AppendUint64(nil, seconds), ed25519.Sign(private, []byte(text))...)
		if got := key.Verify([]byte(specified), sig); got != want {
			t.Errorf("at %d it verifies: %t", seconds, got)
		}
	}
}

func FuzzOpen(f *testing.F) {
	l := treetest.New(f)
	l.Append(3, 100)
	signed := l.Checkpoint()
	body, err := l.Head().Body()
	if err != nil {
		f.Fatal(err)
	}
	w := treetest.NewWitness(f, "w1.example", l.Verifier)
	key, err := tree.NewWitness(w.Key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(signed), w.Cosign(body, at))
	f.Add(specified+"\n— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n", "— a AAAAAAAA\n")
	f.Fuzz(func(t *testing.T, text, lines string) {
		s, err := tree.Open([]byte(text), l.Verifier, key)
		if err == nil && !s.Equal(l.Head()) {
			t.Errorf("opened %q", text)
		}
		if cosigned, s, err := tree.Cosign([]byte(text), []byte(lines), l.Verifier, key); err == nil {
			if again, err := tree.Open(cosigned, l.Verifier, key); err != nil || !again.Equal(s.Checkpoint) || len(again.Cosignatures) != len(s.Cosignatures) {
				t.Errorf("%q: %v", cosigned, err)
			}
		}
	})
}
