package revocation_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/revocation"
)

// The test binary is its own second process: with this variable set it opens
// the log in the directory that it names, and appends until it is killed.
const childVariable = "WRIT_REVOCATION_TEST_CHILD"

// killsVariable says how often TestJournalKilled kills: 3 without it.
const killsVariable = "WRIT_REVOCATION_KILLS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child appends from several goroutines, single entries and pairs, and imports
// a growing file; it prints the id of what is confirmed.
func child(dir string) error {
	j, err := revocation.OpenJournal(dir)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for g := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i)
				one := server(id)
				one.Reason = strings.Repeat("x", 1+i%4000)
				batch := []revocation.Entry{one}
				if i%2 == 0 {
					batch = append(batch, server(id+"-too"))
				}
				if _, err := j.Append(context.Background(), batch); err != nil {
					failed <- err
				}
				fmt.Println(id)
			}
		}()
	}
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-file-%d", os.Getpid(), i)
		if _, err := j.Import([]revocation.Entry{server(id)}); err != nil {
			return err
		}
		fmt.Println(id)
		select {
		case err := <-failed:
			return err
		default:
		}
	}
}

// Whatever was confirmed before a kill -9 is in force after it, and what was
// added together is there together.
func TestJournalKilled(t *testing.T) {
	dir := t.TempDir()
	rounds := 3
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	confirmed := map[string]bool{}
	var torn int64
	for round := range rounds {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), childVariable+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		news := 0
		var killing sync.Once
		for {
			text, err := lines.ReadString('\n')
			if err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				break
			}
			confirmed[strings.TrimSuffix(text, "\n")] = true
			news++
			killing.Do(func() {
				time.AfterFunc(time.Duration(rand.IntN(50_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
			})
		}
		if err := cmd.Wait(); news == 0 || err == nil || stderr.Len() > 0 {
			t.Fatalf("round %d: %d entries, %v: %s", round, news, err, stderr.String())
		}
		j := mustOpen(t, dir)
		torn += j.Recovered()
		mustClose(t, j)
	}
	j := mustOpen(t, dir)
	view := j.View()
	for id := range confirmed {
		if !revoked(view, id) {
			t.Errorf("%s was confirmed and is not in force", id)
		}
	}
	for e := range view.Entries(0) {
		if id, ok := strings.CutSuffix(e.ID, "-too"); ok && !revoked(view, id) {
			t.Errorf("%s is there without %s", e.ID, id)
		}
	}
	t.Logf("%d rounds: %d confirmed, %d entries in the log, %d bytes of unfinished lines cut off", rounds, len(confirmed), view.Len(), torn)
}
