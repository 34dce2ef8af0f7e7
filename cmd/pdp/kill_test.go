package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// TestRedemptionsKilled: a server that is killed at any moment, and started
// again on the same data directory, never lets two attempts at one proposal
// act, whoever proposes it again; whatever it let act is in its log; and grants
// of before are worth nothing. WRIT_KILL_ROUNDS=500 makes it a long one.
func TestRedemptionsKilled(t *testing.T) {
	rounds := 12
	if text := os.Getenv("WRIT_KILL_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	k := newKilling(t)
	for range rounds {
		k.round()
		if t.Failed() {
			break
		}
	}
	k.voided(k.begin(), len(k.granted)) // and the last of all is stopped in good order
	k.server.interrupt()
	k.checkLog()
	t.Logf("%d rounds, %d of them killed before they were ready: %d proposals, proposed %d times; %d redeemed, %d of them recorded and never answered; %d attempts without an answer, %d repeated answers, %d refused as used, %d grants of before the crash refused",
		rounds, k.early, len(k.proposals), k.proposed.Load(), k.spent, k.silent, k.lost.Load(), k.repeated.Load(), k.used.Load(), k.void)
}

// killing is what is known over all rounds.
type killing struct {
	t      *testing.T
	data   string
	lab    bundle.Scenario // one payment that is allowed
	server *killable       // of this round

	mu        sync.Mutex // guards what follows
	proposals []*purchase
	granted   []*writv1.RedeemRequest // minted in this round, whether they were redeemed or not

	proposed, lost, repeated, used atomic.Int64

	early, void, spent, silent int // for people
}

// purchase is one proposal, and what was answered of it.
type purchase struct {
	wire *writv1.Proposal

	mu    sync.Mutex        // guards what follows
	acted map[string]string // attempts that may act, and the ids of their redemptions
}

func newKilling(t *testing.T) *killing {
	t.Helper()
	files, err := bundle.ReadDir("../../examples/lab")
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	k := &killing{t: t, data: t.TempDir()}
	for _, s := range b.Scenarios {
		if s.Name == "small allowlisted payment" {
			k.lab = s
		}
	}
	return k
}

// killable is a server in a process of its own.
type killable struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Reader
	said  strings.Builder // standard error
}

func (k *killing) start() *killable {
	k.t.Helper()
	self, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	s := &killable{t: k.t, cmd: exec.Command(self, "serve", "--data", k.data, "--bundle", "../../examples/lab", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")}
	s.cmd.Env = append(os.Environ(), "WRIT_README=1")
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	s.lines = bufio.NewReader(out)
	k.t.Cleanup(func() { // whatever failed, it does not stay
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	return s
}

// ready waits until the server is.
func (s *killable) ready() readyLine {
	s.t.Helper()
	first, err := s.lines.ReadBytes('\n')
	line, ok := parseReady(first)
	if err != nil || !ok {
		_ = s.cmd.Wait()
		s.t.Fatalf("the server did not start: %v: %s%s", err, first, s.said.String())
	}
	return line
}

func (s *killable) kill() {
	_ = s.cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, s.lines)
	_ = s.cmd.Wait()
}

func (s *killable) interrupt() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(os.Interrupt)
	_, _ = io.Copy(io.Discard, s.lines)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("stopping: %v: %s", err, s.said.String())
	}
}

// begin starts a server and returns how to reach it.
func (k *killing) begin() readyLine {
	k.t.Helper()
	k.server = k.start()
	return k.server.ready()
}

// round lets several clients at a server that is killed meanwhile.
func (k *killing) round() {
	k.t.Helper()
	if rand.IntN(8) == 0 { // while it reads what was redeemed before
		s := k.start()
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		s.kill()
		k.early++
	}
	line := k.begin()
	k.voided(line, 4)
	k.granted = nil

	over, end := context.WithCancel(k.t.Context())
	defer end()
	var calls atomic.Int64
	enough := int64(1 + rand.IntN(80))
	killed := make(chan struct{})
	kill := sync.OnceFunc(func() {
		go func() {
			defer close(killed)
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
			k.server.kill()
			end()
		}()
	})
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			defer kill() // also if a client gives up
			c := k.client(line)
			defer c.close()
			for c.pay(over, func() {
				if calls.Add(1) == enough {
					kill()
				}
			}) {
			}
		})
	}
	clients.Wait()
	<-killed
}

// voided makes sure that some grants of before the start are worth nothing, be
// they redeemed or not.
func (k *killing) voided(line readyLine, most int) {
	k.t.Helper()
	c := k.client(line)
	defer c.close()
	for i := range min(most, len(k.granted)) {
		r := k.granted[len(k.granted)-1-i]
		a, err := c.server.attempt(k.t.Context(), r)
		if err != nil {
			k.t.Fatal(err)
		}
		if code := a.GetDecision().GetCode(); code != string(writ.CodeGrantInvalid) || a.GetActBefore() != nil {
			k.t.Errorf("a grant of before the crash: %s", code)
		}
		k.void++
	}
}

// checkLog holds all answers against the log: pdp audit verify finds nothing
// wrong in it; each redemption that was answered is there; and no proposal has
// two.
func (k *killing) checkLog() {
	k.t.Helper()
	self, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	verify := exec.CommandContext(k.t.Context(), self, "audit", "verify", "--data", k.data)
	verify.Env = append(os.Environ(), "WRIT_README=1")
	if out, err := verify.CombinedOutput(); err != nil {
		k.t.Errorf("pdp audit verify: %v:\n%s", err, out)
	}
	records, err := segment.OpenReader(filepath.Join(k.data, "log", segment.Dir), 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer records.Close()
	proposals := map[string]string{} // of recorded redemptions, by their ids
	redemption := map[string]string{}
	for {
		index, leaf, err := records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			k.t.Fatal(err)
		}
		if !bytes.Contains(leaf, []byte(`"REDEEMED"`)) {
			continue
		}
		var r spent
		if err := json.Unmarshal(leaf, &r); err != nil {
			k.t.Fatalf("record %d: %v", index, err)
		}
		id := r.ID
		if r.Redemption != "" {
			id = r.Redemption // the same one, answered again
		}
		if before, known := redemption[r.Proposal]; r.Proposal == "" || known && before != id {
			k.t.Errorf("record %d: the proposal %q was redeemed as %s, and before as %s", index, r.Proposal, id, before)
		}
		redemption[r.Proposal], proposals[id] = id, r.Proposal
	}
	k.spent = len(redemption)
	answered := map[string]bool{}
	for _, p := range k.proposals {
		for _, id := range p.acted {
			answered[id] = true
			if proposals[id] == "" {
				k.t.Errorf("%s was redeemed as %s, and the log has no record of it", p.wire.GetRequestId(), id)
			}
		}
	}
	k.silent = k.spent - len(answered)
	if len(answered) == 0 {
		k.t.Error("nothing was redeemed")
	}
}
