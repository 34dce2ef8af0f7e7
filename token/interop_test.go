//go:build e2e

package token_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdptest"
)

// library is another implementation of JWTs, driven by a script of
// testdata/interop.
type library struct {
	name    string
	command []string
	dir     string // of the process
}

// installed runs the commands that install what a test needs. Where they can't
// be had the test says so, and is skipped.
func installed(t *testing.T, what, dir string, commands ...[]string) {
	t.Helper()
	for _, c := range commands {
		cmd := exec.CommandContext(t.Context(), c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("%s CANNOT BE HAD: this test did not run. %v: %v\n%s", what, c, err, out)
		}
	}
}

// pyJWT is PyJWT, in the versions that requirements.txt pins by their digests.
func pyJWT(t *testing.T) library {
	t.Helper()
	source, err := filepath.Abs("testdata/interop")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	python := filepath.Join(dir, "venv", "bin", "python")
	installed(t, "PYJWT", dir,
		[]string{"python3", "-m", "venv", "venv"},
		[]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", filepath.Join(source, "requirements.txt")})
	return library{"PyJWT", []string{python, filepath.Join(source, "tokens.py")}, dir}
}

// node copies the scripts to where package-lock.json is installed.
func node(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/interop")); err != nil {
		t.Fatal(err)
	}
	installed(t, "NODE OR ITS PACKAGES", dir, []string{"node", "--version"}, []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"})
	return dir
}

func (l library) run(t *testing.T, mode string, in any) []byte {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), l.command[0], append(slices.Clone(l.command[1:]), mode)...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = l.dir, bytes.NewReader(data), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", l.name, mode, err)
	}
	return out
}

// TestLibraries: tokens that other libraries sign are accepted here, under
// each algorithm, and each vector is judged there as it is here.
func TestLibraries(t *testing.T) {
	for name, open := range map[string]func(*testing.T) library{
		"PyJWT": pyJWT,
		"jose": func(t *testing.T) library {
			dir := node(t)
			return library{"jose", []string{"node", "tokens.mjs"}, dir}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			l.makes(t)
			l.judges(t)
		})
	}
}

func (l library) makes(t *testing.T) {
	var made struct {
		JWKS   json.RawMessage
		Tokens []struct{ Alg, Kid, Token string }
	}
	at := time.Now()
	c := map[string]any{"iss": login, "sub": "ann", "aud": endpoint, "scope": "pay", "iat": at.Unix(), "exp": at.Add(time.Hour).Unix()}
	if err := json.Unmarshal(l.run(t, "make", c), &made); err != nil {
		t.Fatal(err)
	}
	if len(made.Tokens) < 10 {
		t.Errorf("only %d algorithms", len(made.Tokens))
	}
	v := verifier(t)
	for _, m := range made.Tokens {
		b := bundleOf(t, fmt.Sprintf("issuers: [{issuer: '%s', jwks: jwks/made.json, algorithms: [%s]}]\n", login, m.Alg), map[string][]byte{"made.json": made.JWKS})
		if d := decided(t, v, b.Snapshot, login, m.Token, at); d.Outcome != writ.Allow {
			t.Errorf("%s: %s: %s", m.Alg, d.Code, d.Explanation)
		}
		parts := strings.Split(m.Token, ".")
		tampered := parts[0] + "." + b64([]byte(text(t, with("sub", "ann")))) + "." + parts[2]
		if d := decided(t, v, b.Snapshot, login, tampered, at); d.Code != writ.CodeTokenInvalid {
			t.Errorf("%s, another payload: %s", m.Alg, d.Code)
		}
	}
}

func (l library) judges(t *testing.T) {
	file := readVectors(t)
	said := map[string]bool{}
	why := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(l.run(t, "check", file))); s.Scan(); {
		var line struct {
			Name   string
			Accept bool
			Why    string
		}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		said[line.Name], why[line.Name] = line.Accept, line.Why
	}
	for _, v := range file.Vectors {
		want := v.Accept
		if slices.Contains(v.Lax, l.name) || slices.Contains(v.Lacking, l.name) {
			want = !want
		}
		if got, ok := said[v.Name]; !ok || got != want {
			t.Errorf("%q is accepted: here %t, there %t (%s)", v.Name, v.Accept, got, why[v.Name])
		}
	}
}

// TestProvider: an OpenID Connect provider that is not ours gives a user's
// token; its discovery document names the keys; over gRPC the user's call is
// allowed, and with the client's own token or the id token it is not.
func TestProvider(t *testing.T) {
	dir := node(t)
	cmd := exec.CommandContext(t.Context(), "node", "provider.mjs", endpoint, "pay")
	cmd.Dir, cmd.Stderr = dir, io.Discard
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	var given struct{ Issuer, User, ID, Own string }
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for given.Issuer == "" && lines.Scan() { // the library prints notices, too
		if strings.HasPrefix(lines.Text(), "{") {
			if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
				t.Fatal(err)
			}
		}
	}
	if given.User == "" || given.ID == "" || given.Own == "" {
		t.Fatalf("the provider gave %+v", given)
	}
	var discovered struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	response, err := http.Get(given.Issuer + "/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&discovered); err != nil || discovered.Issuer != given.Issuer {
		t.Fatalf("%+v: %v", discovered, err)
	}

	place := t.TempDir()
	for _, f := range bundleFiles(fmt.Sprintf("issuers: [{issuer: '%s', jwks: '%s', allow_private_addresses: true}]\n", discovered.Issuer, discovered.JWKS), nil) {
		path := filepath.Join(place, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := pdptest.New(t, place)
	for _, c := range []struct {
		name, token string
		want        writ.Code
	}{
		{"the user's token", given.User, writ.CodeAllow},
		{"the client's own", given.Own, writ.CodeSubjectMismatch},
		{"the id token", given.ID, writ.CodeTokenInvalid},
		{"a changed token", given.User[:len(given.User)-8] + "AAAAAAAA", writ.CodeTokenInvalid},
	} {
		request := p.Call(t, `User::"ann"`, "pay/get", "{}")
		request.Proposal.Token, request.Proposal.AccessToken = nil, c.token
		answer, err := p.Client().Decide(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if d := answer.GetDecision(); d.GetCode() != string(c.want) {
			t.Errorf("%s: %s, want %s: %s", c.name, d.GetCode(), c.want, d.GetExplanation())
		}
	}
}
