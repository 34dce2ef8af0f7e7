package verifytest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/verify"
	"github.com/writ-pdp/writ/audit/verifytest"
)

// theirs is what the log's own verifier says of a directory.
func theirs(t *testing.T, dir, verifier string, witnesses []string) verify.Report {
	t.Helper()
	key, err := note.NewVerifier(verifier)
	if err != nil {
		t.Fatal(err)
	}
	o := verify.Options{Verifier: key}
	for _, w := range witnesses {
		witness, err := tree.NewWitness(w)
		if err != nil {
			t.Fatal(err)
		}
		o.Witnesses = append(o.Witnesses, witness)
	}
	report, err := verify.Verify(t.Context(), dir, o)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	if report.OK != (len(report.Findings) == 0) {
		t.Errorf("%s: OK is %t, and there are %d findings", dir, report.OK, len(report.Findings))
	}
	return report
}

// parts are the parts that a kind of finding is about, as the vectors name
// them. A record that hashes to something else is a matter of the root for who
// doesn't ask the tiles which record it is.
var parts = map[verify.Kind][]string{
	verify.CheckpointMissing: {"checkpoint"}, verify.CheckpointBroken: {"checkpoint"}, verify.OtherLog: {"checkpoint"},
	verify.ForeignKey: {"checkpoint"}, verify.BadSignature: {"checkpoint"},
	verify.RecordChanged: {"record", "root"}, verify.RecordBroken: {"record"}, verify.RecordOutOfPlace: {"record"}, verify.RecordsMissing: {"record"},
	verify.SegmentMissing: {"record"}, verify.TailMissing: {"record"}, verify.RecordTorn: {"record"}, verify.ForeignFile: {"record"},
	verify.RootMismatch: {"root"},
	verify.TileMissing:  {"tile"}, verify.TileSize: {"tile"}, verify.TileChanged: {"tile"},
}

// Both verifiers say the same of every vector.
func TestAgreeOnVectors(t *testing.T) {
	for _, v := range expected(t) {
		report := theirs(t, filepath.Join(vectors, v.Name), v.Verifier, v.Witnesses)
		if report.OK != (v.Fault == "") {
			t.Errorf("%s (%s): OK is %t: %v", v.Name, v.About, report.OK, report.Findings)
			continue
		}
		if !report.OK {
			if first := report.Findings[0]; !slices.Contains(parts[first.Kind], v.Fault) {
				t.Errorf("%s (%s): %v, want the %s", v.Name, v.About, first, v.Fault)
			}
			continue
		}
		var cosigned []string
		for _, c := range report.Cosignatures {
			cosigned = append(cosigned, c.Witness)
		}
		if uint64(report.Size) != v.Size || !slices.Equal(cosigned, v.Cosigned) {
			t.Errorf("%s: size %d, cosigned by %q", v.Name, report.Size, cosigned)
		}
	}
}

// sizes are where trees and tiles change their shape, and some others.
func sizes(t *testing.T) []int {
	all := []int{1, 2, 3, 255, 256, 257, 511, 512, 513}
	if testing.Short() {
		return all
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	return append(all, 65535, 65536, 65537, 1+random.IntN(1000), 1000+random.IntN(20000))
}

// Both agree on good logs of all shapes, and on all their proofs.
func TestAgreeOnSizes(t *testing.T) {
	for _, size := range []int{1, 2, 3, 255, 256, 257, 511, 512, 513, 4000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, dir: t.TempDir()}
			if size > 3 {
				w.of(size, size/3, size/2)
			} else {
				w.of(size)
			}
			agree(t, w.dir, ours.verifier(), size)
		})
	}
}

// The quick tree is the plain one, whose definition is the RFC's own text, at
// each size; and all its proofs are right, and right for nothing else.
func TestTree(t *testing.T) {
	const most = 70
	all := leaves(records(most))
	tree := verifytest.NewTree(all)
	for n := range uint64(most + 1) {
		root := verifytest.Root(all[:n])
		if tree.Root(n) != root {
			t.Fatalf("the roots of %d differ", n)
		}
		for m := range n {
			path, err := tree.Inclusion(m, n)
			if err == nil {
				err = verifytest.CheckInclusion(all[m], m, n, root, path)
			}
			if err != nil {
				t.Errorf("record %d of %d: %v", m, n, err)
			}
			if verifytest.CheckInclusion(all[(m+1)%most], m, n, root, path) == nil {
				t.Errorf("record %d of %d: another is accepted", m, n)
			}
			older := verifytest.Root(all[:m+1])
			proof, err := tree.Consistency(m+1, n)
			if err == nil {
				err = verifytest.CheckConsistency(m+1, older, n, root, proof)
			}
			if err != nil {
				t.Errorf("%d to %d: %v", m+1, n, err)
			}
			if verifytest.CheckConsistency(m+1, verifytest.Root(all[:m]), n, root, proof) == nil {
				t.Errorf("%d to %d: another older root is accepted", m+1, n)
			}
		}
		if _, err := tree.Inclusion(n, n); err == nil {
			t.Errorf("record %d of %d: there is a proof", n, n)
		}
		if _, err := tree.Consistency(n+1, n); err == nil {
			t.Errorf("%d to %d: there is a proof", n+1, n)
		}
	}
}

// agree requires that both verifiers find nothing wrong with a log, and each
// the other's proofs right.
func agree(t *testing.T, dir, verifier string, size int) {
	t.Helper()
	log, err := verifytest.Verify(dir, verifier)
	if err != nil {
		t.Fatal(err)
	}
	report := theirs(t, dir, verifier, nil)
	if !report.OK || uint64(report.Size) != log.Size || log.Size != uint64(size) || uint64(report.AfterCheckpoint) != uint64(len(log.Leaves))-log.Size {
		t.Fatalf("size %d: ours %d of %d; theirs %+v", size, log.Size, len(log.Leaves), report)
	}
	data, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewVerifier(verifier)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := tree.Open(data, key)
	if err != nil || verifytest.Hash(signed.Root) != log.Root {
		t.Fatalf("the checkpoint: %v", err)
	}
	for _, m := range verifytest.Samples(log.Size) {
		agreeOnRecord(t, dir, log, signed.Checkpoint, m)
		agreeOnBeginning(t, dir, log, signed.Checkpoint, m+1)
	}
}

func agreeOnRecord(t *testing.T, dir string, log *verifytest.Log, checkpoint tree.Checkpoint, m uint64) {
	t.Helper()
	proof, err := tree.ProveInclusion(dir, checkpoint, int64(m))
	if err != nil {
		t.Errorf("record %d: %v", m, err)
		return
	}
	own, err := log.Tree.Inclusion(m, log.Size)
	if err != nil || !slices.Equal(own, fromTlog(proof.Path)) || verifytest.Hash(proof.Leaf) != log.Leaves[m] {
		t.Errorf("record %d: ours %x, theirs %x: %v", m, own, proof, err)
	}
	if err := verifytest.CheckInclusion(log.Leaves[m], m, log.Size, log.Root, fromTlog(proof.Path)); err != nil {
		t.Errorf("record %d: their proof: %v", m, err)
	}
	if err := tree.VerifyInclusion(checkpoint, proof); err != nil {
		t.Errorf("record %d: %v", m, err)
	}
	wrong := proof
	wrong.Leaf[0] ^= 1
	if tree.VerifyInclusion(checkpoint, wrong) == nil {
		t.Errorf("record %d: another record is accepted", m)
	}
}

func agreeOnBeginning(t *testing.T, dir string, log *verifytest.Log, checkpoint tree.Checkpoint, m uint64) {
	t.Helper()
	proof, err := tree.ProveConsistency(dir, int64(m), checkpoint)
	if err != nil {
		t.Errorf("from %d: %v", m, err)
		return
	}
	own, err := log.Tree.Consistency(m, log.Size)
	if err != nil || !slices.Equal(own, fromTlog(proof)) {
		t.Errorf("from %d: ours %x, theirs %x: %v", m, own, proof, err)
	}
	older := log.Tree.Root(m)
	if err := verifytest.CheckConsistency(m, older, log.Size, log.Root, fromTlog(proof)); err != nil {
		t.Errorf("from %d: their proof: %v", m, err)
	}
	earlier := tree.Checkpoint{Origin: checkpoint.Origin, Size: int64(m), Root: tlog.Hash(older)}
	if err := tree.VerifyConsistency(earlier, checkpoint, proof); err != nil {
		t.Errorf("from %d: %v", m, err)
	}
	earlier.Root[0] ^= 1
	if tree.VerifyConsistency(earlier, checkpoint, proof) == nil {
		t.Errorf("from %d: another tree is accepted", m)
	}
}

func fromTlog(all []tlog.Hash) []verifytest.Hash {
	var own []verifytest.Hash
	for _, h := range all {
		own = append(own, verifytest.Hash(h))
	}
	return own
}
