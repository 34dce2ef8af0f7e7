package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
)

// runHere runs a command here.
func runHere(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// keep writes a file that lies elsewhere than the log.
func keep(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAuditProofs: what prove prints proves it to whoever has the record and the
// root, by other code than made it, also in a tree that is not the newest.
func TestAuditProofs(t *testing.T) {
	log := treetest.New(t)
	var heads []tree.Checkpoint
	var kept string
	for _, n := range []int{1, 2, 253, 1, 300} { // sizes 1, 3, 256, 257 and 557
		log.Append(n, 0)
		signed := log.Checkpoint()
		heads = append(heads, log.Head())
		if log.Head().Size == 257 {
			kept = keep(t, signed)
		}
	}
	hashes := func(p proof) (list []tlog.Hash) {
		for _, h := range p.Hashes {
			list = append(list, tlog.Hash(h))
		}
		return list
	}
	get := func(args ...string) proof {
		t.Helper()
		code, out, errs := runHere(t, append([]string{"audit", "prove", "--json", "--log", log.Dir}, args...)...)
		var p proof
		if err := json.Unmarshal([]byte(out), &p); code != 0 || err != nil {
			t.Fatalf("%q: exit code %d, %v: %s", args, code, err, errs)
		}
		return p
	}
	for i, head := range heads {
		for _, index := range []int64{0, 1, 2, 255, 256, head.Size - 1} {
			if index >= head.Size {
				continue
			}
			p := get(fmt.Sprint(index), "--size", fmt.Sprint(head.Size))
			if p.Record != string(treetest.Record(uint64(index), 0)) {
				t.Fatalf("record %d is %s", index, p.Record)
			}
			if err := tlog.CheckRecord(hashes(p), head.Size, head.Root, index, tlog.RecordHash([]byte(p.Record))); err != nil {
				t.Errorf("record %d in the tree of %d: %v", index, head.Size, err)
			}
		}
		for _, old := range heads[:i] {
			p := get("--old-size", fmt.Sprint(old.Size), "--size", fmt.Sprint(head.Size))
			if err := tlog.CheckTree(hashes(p), head.Size, head.Root, old.Size, old.Root); err != nil {
				t.Errorf("the tree of %d before that of %d: %v", old.Size, head.Size, err)
			}
		}
	}
	// The partial tiles of a kept checkpoint have gone; its tree is in the newer ones.
	p := get("256", "--checkpoint", kept)
	if err := tlog.CheckRecord(hashes(p), 257, heads[3].Root, 256, tlog.RecordHash([]byte(p.Record))); err != nil || !strings.Contains(p.Checkpoint, "\n257\n") {
		t.Errorf("in the kept checkpoint: %v, %q", err, p.Checkpoint)
	}
	if code, _, errs := runHere(t, "audit", "prove", "257", "--log", log.Dir, "--checkpoint", kept); code != exitFailed || !strings.Contains(errs, "record 257 is not in a tree of 257") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	// Another history under the same key does not continue it.
	other := treetest.New(t)
	for _, name := range []string{tree.KeyFile, tree.VerifierFile} {
		data, err := os.ReadFile(filepath.Join(log.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(other.Dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other.Signer, other.Verifier = log.Signer, log.Verifier
	other.Append(300, 999)
	other.Checkpoint()
	if code, out, errs := runHere(t, "audit", "prove", "1", "--log", other.Dir, "--checkpoint", kept); code != exitFailed || !strings.Contains(errs, "it was rewritten") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, out, _ := runHere(t, "audit", "verify", "--log", other.Dir, "--from", kept); code != exitFailed || !strings.Contains(out, "inconsistent: ") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestAuditWitnesses: cosignatures count on the checkpoint that has them.
func TestAuditWitnesses(t *testing.T) {
	log := treetest.New(t)
	log.Append(5, 0)
	signed := log.Checkpoint()
	body, err := log.Head().Body()
	if err != nil {
		t.Fatal(err)
	}
	w, other := treetest.NewWitness(t, "witness.example/w", log.Verifier), treetest.NewWitness(t, "witness.example/x", log.Verifier)
	cosigned := keep(t, append(signed, w.Cosign(body, time.Unix(1_900_000_000, 0))...))
	plain := keep(t, signed)
	log.Append(5, 0)
	log.Checkpoint()
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--from", cosigned, "--witness", w.Key, "--min-witnesses", "1"}, exitOK, cosigned + " is cosigned by witness.example/w at 2030-03-17T17:46:40Z"},
		{[]string{"--from", cosigned, "--witness", w.Key, "--min-witnesses", "1", "--json"}, exitOK, `"from_cosignatures": [`},
		{[]string{"--from", cosigned, "--witness", w.Key, "--witness", other.Key, "--min-witnesses", "2"}, exitFailed, "1 of the given witnesses have cosigned it, and 2 must have"},
		{[]string{"--from", cosigned, "--witness", other.Key, "--min-witnesses", "1"}, exitFailed, "0 of the given witnesses"},
		{[]string{"--from", plain, "--witness", w.Key, "--min-witnesses", "1"}, exitFailed, "take one that they have cosigned"},
		{[]string{"--witness", w.Key, "--min-witnesses", "1"}, exitFailed, "too_few_cosignatures: "},
		{[]string{"--witness", w.Key}, exitOK, "VERIFIED"},
	} {
		if code, out, errs := runHere(t, append([]string{"audit", "verify", "--log", log.Dir}, tc.args...)...); code != tc.code || !strings.Contains(out+errs, tc.want) {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s%s", tc.args, code, tc.code, tc.want, out, errs)
		}
	}
}
