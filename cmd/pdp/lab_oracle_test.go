//go:build e2e

package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestLabOracle: the command prints what the lab itself prints, to the byte.
func TestLabOracle(t *testing.T) {
	const lab = "../../../shared/lab/secure_mcp_lab.py"
	if _, err := os.Stat(lab); err != nil {
		t.Skip("THE LAB IS ABSENT: pdp lab was not compared with it. It needs ", lab, "; testdata/script/lab.txtar holds what it printed.")
	}
	want := exec.CommandContext(t.Context(), "python3", lab)
	want.Env, want.Stderr = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), os.Stderr
	says, err := want.Output()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got := exec.CommandContext(t.Context(), self, "lab")
	got.Env, got.Stderr = append(os.Environ(), "WRIT_README=1"), os.Stderr // see TestMain
	prints, err := got.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(prints) != string(says) {
		t.Errorf("pdp lab prints\n%s\nthe lab prints\n%s", prints, says)
	}
}
