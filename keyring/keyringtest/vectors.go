package keyringtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/writ-pdp/writ/keyring"
)

// Vectors is a file of vectors: JWS of one type, and what becomes of each.
type Vectors struct {
	About    string       `json:"about"`
	Type     keyring.Type `json:"type"`     // typ
	Issuer   string       `json:"issuer"`   // iss that is wanted
	Instance string       `json:"instance"` // instance that is wanted
	Audience string       `json:"audience,omitempty"`
	Now      int64        `json:"now"` // seconds since 1970
	// Key signs; its private half is no secret. Set has the public keys.
	Key       json.RawMessage `json:"key"`
	Set       json.RawMessage `json:"jwks"`
	Positives []Positive      `json:"positives"`
	Negatives []Negative      `json:"negatives"`
}

// Positive is a JWS that opens.
type Positive struct {
	Name   string `json:"name"`
	Claims string `json:"claims"` // the payload's text, byte for byte
	Token  string `json:"token"`
}

// Negative is one that does not.
type Negative struct {
	Name  string `json:"name"`
	Why   string `json:"why"`            // is in what people are told
	Code  string `json:"code,omitempty"` // as what a decision answers
	Token string `json:"token"`
	// Lax are the libraries known to accept it, since they don't ask for one form.
	Lax []string `json:"lax,omitempty"`
}

// Make adds to v the keys of the seeds 1 and 2.
func (v *Vectors) Make(t testing.TB) {
	t.Helper()
	v.Key = json.RawMessage(fmt.Sprintf(`{"crv":"Ed25519","d":%q,"kid":%q,"kty":"OKP","x":%q}`,
		Base64(Private(1).Seed()), Key(t, 1).ID(), Base64(Private(1)[32:])))
	set := ""
	for _, seed := range []byte{1, 2} {
		set += fmt.Sprintf(`,{"alg":"EdDSA","crv":"Ed25519","kid":%q,"kty":"OKP","use":"sig","x":%q}`, Key(t, seed).ID(), Base64(Private(seed)[32:]))
	}
	v.Set = json.RawMessage(`{"keys":[` + set[1:] + `]}`)
}

// Hold holds testdata/vectors.json against what was made; write writes it anew.
func (v *Vectors) Hold(t testing.TB, write bool) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "vectors.json")
	if write {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is not what the test makes: run it with -update, and look at what changed", path)
	}
}
