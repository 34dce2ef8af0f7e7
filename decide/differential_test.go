//go:build e2e

package decide_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"testing"
)

var (
	updateVectors = flag.Bool("update", false, "write testdata/lab_vectors.jsonl from this run's lab")
	labCases      = flag.Int("cases", 20_000, "proposals to generate")
)

// TestDifferential sends generated proposals to the lab itself and to decide:
// the codes must be equal, but for the differences that labExpected predicts
// from the proposal alone.
func TestDifferential(t *testing.T) {
	const lab = "../../shared/lab"
	if _, err := os.Stat(lab + "/secure_mcp_lab.py"); err != nil {
		t.Skip("THE LAB IS ABSENT: this differential test did not run. It needs ", lab, "/secure_mcp_lab.py; TestLabVectors holds its recorded codes.")
	}
	cases := generateLab(20261130, *labCases)
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, c := range cases {
		if err := enc.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "python3", "testdata/lab_driver.py", lab)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		codes = append(codes, s.Text())
	}
	if len(codes) != len(cases) {
		t.Fatalf("the lab answered %d of %d cases", len(codes), len(cases))
	}
	world := labWorld(t)
	counts := map[string]int{}
	differ, failures := 0, 0
	var vectors bytes.Buffer
	perCode := map[string]int{}
	for i, c := range cases {
		if codes[i] == "RAISED" {
			t.Errorf("the lab raises, so this case is not one that it can express: %+v", c)
			continue
		}
		want := labExpected(c, codes[i])
		got := string(labDecide(t, world, c).Code)
		counts[want]++
		if want != codes[i] {
			differ++
		}
		if got != want {
			line, _ := json.Marshal(c)
			t.Errorf("lab %s, want %s, got %s: %s", codes[i], want, got, line)
			if failures++; failures == 20 {
				t.Fatal("too many differences")
			}
		}
		if perCode[codes[i]+want]++; perCode[codes[i]+want] <= 16 {
			line, err := json.Marshal(labVector{c, codes[i], want})
			if err != nil {
				t.Fatal(err)
			}
			vectors.Write(append(line, '\n'))
		}
	}
	for _, code := range labStage {
		if counts[code] == 0 {
			t.Errorf("no generated proposal reaches %s", code)
		}
	}
	t.Logf("%d proposals; %d answered by a listed difference; codes %v", len(cases), differ, counts)
	if *updateVectors && !t.Failed() {
		if err := os.WriteFile("testdata/lab_vectors.jsonl", vectors.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
