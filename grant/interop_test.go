//go:build e2e

package grant_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/keyring/keyringtest"
)

// pins is where the versions of both libraries are pinned by their digests, for
// access tokens and for what is signed here alike.
const pins = "../token/testdata/interop"

// stock is another implementation of JWTs, driven by a script of
// testdata/interop.
type stock struct {
	name    string
	command []string
	dir     string // of the process
}

// install runs the commands that install what a test needs. Where they can't be
// had the test says so, and is skipped.
func install(t *testing.T, what, dir string, commands ...[]string) {
	t.Helper()
	for _, c := range commands {
		cmd := exec.CommandContext(t.Context(), c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("%s CANNOT BE HAD: this test did not run. %v: %v\n%s", what, c, err, out)
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pyJWT(t *testing.T) stock {
	t.Helper()
	dir := t.TempDir()
	python := filepath.Join(dir, "venv", "bin", "python")
	install(t, "PYJWT", dir,
		[]string{"python3", "-m", "venv", "venv"},
		[]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", filepath.Join(absolute(t, pins), "requirements.txt")})
	return stock{"PyJWT", []string{python, absolute(t, "testdata/interop/signed.py")}, dir}
}

func nodeJose(t *testing.T) stock {
	t.Helper()
	dir := t.TempDir()
	for _, from := range []string{pins, "testdata/interop"} {
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	install(t, "NODE OR ITS PACKAGES", dir, []string{"node", "--version"}, []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"})
	return stock{"jose", []string{"node", "signed.mjs"}, dir}
}

// verdict is what a library says of one vector.
type verdict struct {
	Name         string
	Accept, Same bool // same: its claims are those of the file
	Why          string
}

func (s stock) judge(t *testing.T, v *keyringtest.Vectors) map[string]verdict {
	t.Helper()
	in, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), s.command[0], s.command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = s.dir, bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	said := map[string]verdict{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var line verdict
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		said[line.Name] = line
	}
	return said
}

// TestStockLibraries: other libraries verify grants and approvals with the JWK
// set, those of the vectors and fresh ones, and refuse what is refused here, but
// for what a vector names them for.
func TestStockLibraries(t *testing.T) {
	for name, open := range map[string]func(*testing.T) stock{"PyJWT": pyJWT, "jose": nodeJose} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for _, path := range []string{"testdata/vectors.json", "../approval/testdata/vectors.json"} {
				s.holds(t, path)
			}
			s.verifiesFresh(t)
		})
	}
}

func (s stock) holds(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := &keyringtest.Vectors{}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
	said := s.judge(t, v)
	if len(said) != len(v.Positives)+len(v.Negatives) {
		t.Errorf("%s: %d vectors, and %s says something of %d", path, len(v.Positives)+len(v.Negatives), s.name, len(said))
	}
	for _, p := range v.Positives {
		if got := said[p.Name]; !got.Accept || !got.Same {
			t.Errorf("%s: %q: accepted %t, with the same claims %t (%s)", path, p.Name, got.Accept, got.Same, got.Why)
		}
	}
	for _, n := range v.Negatives {
		if got, want := said[n.Name].Accept, slices.Contains(n.Lax, s.name); got != want {
			t.Errorf("%s: %q is accepted there: %t, want %t (%s)", path, n.Name, got, want, said[n.Name].Why)
		}
	}
}

// verifiesFresh has the library verify what a new ring signs now, under the set
// that this ring gives.
func (s stock) verifiesFresh(t *testing.T) {
	t.Helper()
	now := time.Now()
	r, err := keyring.New(keyring.Config{}, now)
	if err != nil {
		t.Fatal(err)
	}
	k := r.Current(now)
	c := payment()
	c.IssuedAt, c.ExpiresAt = now, now.Add(grant.MaxLifetime)
	v := &keyringtest.Vectors{
		Type: keyring.TypeGrant, Issuer: c.Issuer, Instance: c.Instance, Audience: c.Audience, Now: now.Unix(), Set: r.JWKS(now), Key: json.RawMessage("null"),
		Positives: []keyringtest.Positive{{Name: "fresh", Claims: "{}", Token: mint(t, k, c)}},
		Negatives: []keyringtest.Negative{},
	}
	if got := s.judge(t, v)["fresh"]; !got.Accept {
		t.Errorf("%s refuses a fresh grant: %s", s.name, got.Why)
	}
	token, err := approval.Sign(k, &approval.Statement{
		Issuer: c.Issuer, Instance: c.Instance, ID: c.ID, Review: c.ID,
		Approver:       writ.Principal{Issuer: "https://login.acme.example", Subject: "dana"},
		ProposalDigest: digestOf("proposal"), ReviewDigest: digestOf("review"), IssuedAt: now, ExpiresAt: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	v.Type, v.Audience, v.Positives[0].Token = keyring.TypeApproval, "", token
	if got := s.judge(t, v)["fresh"]; !got.Accept {
		t.Errorf("%s refuses a fresh approval: %s", s.name, got.Why)
	}
}
