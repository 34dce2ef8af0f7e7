package canon_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
)

// keywords maps what vectors.json calls a reason to ours.
var keywords = map[string]string{
	"size":       canon.ReasonSize,
	"depth":      canon.ReasonDepth,
	"utf8":       canon.ReasonUTF8,
	"surrogate":  canon.ReasonSurrogate,
	"duplicate":  canon.ReasonDuplicate,
	"look-alike": canon.ReasonLookAlike,
	"number":     canon.ReasonNumber,
	"syntax":     canon.ReasonSyntax,
	"empty":      canon.ReasonEmpty,
	"trailing":   canon.ReasonTrailing,
}

type vector struct {
	Name      string  `json:"name"`
	Input     *string `json:"input"`
	InputHex  *string `json:"input_hex"`
	Repeat    *repeat `json:"repeat"`
	Canonical *string `json:"canonical"`
	SHA256    string  `json:"sha256"`
	Reject    string  `json:"reject"`
}

type repeat struct {
	Before string `json:"before"`
	Unit   string `json:"unit"`
	Times  int    `json:"times"`
	After  string `json:"after"`
}

func (v vector) text(t testing.TB) []byte {
	t.Helper()
	switch {
	case v.Input != nil && v.InputHex == nil && v.Repeat == nil:
		return []byte(*v.Input)
	case v.Input == nil && v.InputHex != nil && v.Repeat == nil:
		b, err := hex.DecodeString(*v.InputHex)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		return b
	case v.Input == nil && v.InputHex == nil && v.Repeat != nil:
		r := v.Repeat
		return []byte(r.Before + strings.Repeat(r.Unit, r.Times) + r.After)
	}
	t.Fatalf("%s: needs exactly one of input, input_hex and repeat", v.Name)
	return nil
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About   []string          `json:"about"`
		Reasons map[string]string `json:"reasons"`
		Cases   []vector          `json:"cases"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 150 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	for k := range file.Reasons {
		if keywords[k] == "" {
			t.Errorf("the file explains %q, which is no reason", k)
		}
	}
	for k := range keywords {
		if file.Reasons[k] == "" {
			t.Errorf("the file does not explain %q", k)
		}
	}
	return file.Cases
}

func TestVectors(t *testing.T) {
	names := map[string]bool{}
	used := map[string]int{}
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			if names[v.Name] {
				t.Errorf("two cases have this name")
			}
			names[v.Name] = true
			tree, err := canon.Parse(v.text(t))
			switch {
			case v.SHA256 != "" && v.Reject == "":
				used["accept"]++
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				got := canon.Append(nil, tree)
				if v.Canonical != nil && string(got) != *v.Canonical {
					t.Errorf("canonical form\n got %s\nwant %s", got, *v.Canonical)
				}
				if d := canon.Sum(got).String(); d != v.SHA256 {
					t.Errorf("digest %s, want %s", d, v.SHA256)
				}
			case v.SHA256 == "" && v.Canonical == nil && keywords[v.Reject] != "":
				used[v.Reject]++
				e, ok := errors.AsType[*canon.Error](err)
				if !ok {
					t.Fatalf("got %v, %v; want it refused as %q", tree, err, v.Reject)
				}
				if e.Reason != keywords[v.Reject] {
					t.Errorf("refused as %q, want %q", e.Reason, keywords[v.Reject])
				}
				if tree != nil {
					t.Errorf("a refused text gave %v", tree)
				}
			default:
				t.Errorf("needs either sha256 or one of the reasons, has reject %q", v.Reject)
			}
		})
	}
	for k := range keywords {
		if used[k] == 0 {
			t.Errorf("no case is refused as %q", k)
		}
	}
	if used["accept"] == 0 {
		t.Error("no case is accepted")
	}
}
