package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// bench is one measurement to be made.
type bench struct {
	load          Load
	ghz, protoset string
	profile       string // directory; empty: none
	// kinds are the servers, in the order of the first round: empty, read and
	// write at least.
	kinds []kind
}

// measure starts the servers and loads them in turn.
func measure(ctx context.Context, b bench) (_ *Result, err error) {
	dir, err := os.MkdirTemp("", "writ-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := calls(dir); err != nil {
		return nil, err
	}
	subjects := map[kind]*subject{}
	for _, k := range b.kinds {
		s, failed := b.start(ctx, k, dir)
		if failed != nil {
			return nil, fmt.Errorf("the server %s: %w", k, failed)
		}
		defer func() {
			if stopped := s.stop(); stopped != nil {
				err = errors.Join(err, fmt.Errorf("the server %s: %w", k, stopped))
			}
		}()
		subjects[k] = s
	}
	result := newResult(b.load, []Round{{Empty: 1, Read: 1, Write: 1}}) // for the load average before
	average := result.Average
	warm := max(b.load.Concurrency, b.load.Requests/4)
	for _, k := range b.kinds {
		if err := b.fire(ctx, subjects[k], warm); err != nil {
			return nil, err
		}
	}
	var rounds []Round
	for n := range b.load.Rounds {
		var r Round
		for i := range b.kinds {
			k := b.kinds[(i+n)%len(b.kinds)] // so that nobody is always after the same other
			used, err := b.cost(ctx, subjects[k])
			if err != nil {
				return nil, err
			}
			switch us := float64(used.Nanoseconds()) / float64(b.load.Requests) / 1e3; k {
			case empty:
				r.Empty = us
			case read:
				r.Read = us
			case unlogged:
				r.Unlogged = us
			case signed:
				r.Signed = us
			case write:
				r.Write = us
			}
		}
		rounds = append(rounds, r)
	}
	for _, k := range b.kinds {
		if k == empty {
			continue
		}
		if err := subjects[k].allowed(warm + b.load.Rounds*b.load.Requests); err != nil {
			return nil, err
		}
	}
	result = newResult(b.load, rounds)
	result.Average = average
	return result, nil
}

// calls writes what ghz sends: the read, the read again for the server without
// a log, the write, and both.
func calls(dir string) error {
	b, err := lab(read)
	if err != nil {
		return err
	}
	var both []json.RawMessage
	for _, k := range []kind{read, unlogged, signed, write} {
		p, err := scenario(b, k)
		if err != nil {
			return err
		}
		message, err := server.ProposalToProto(p)
		if err != nil {
			return err
		}
		data, err := protojson.Marshal(&writv1.DecideRequest{Proposal: message})
		if err != nil {
			return err
		}
		if k == read || k == write {
			both = append(both, data)
		}
		if err := os.WriteFile(callFile(dir, k), data, 0o600); err != nil {
			return err
		}
	}
	data, err := json.Marshal(both)
	if err != nil {
		return err
	}
	return os.WriteFile(callFile(dir, empty), data, 0o600)
}

func callFile(dir string, k kind) string { return filepath.Join(dir, string(k)+".json") }

// subject is a server under measurement: a process of this program.
type subject struct {
	kind     kind
	dir      string
	process  *exec.Cmd
	in       io.Closer
	ask      io.Writer
	lines    *bufio.Reader
	errs     bytes.Buffer
	address  string
	metadata string // file
}

func (b bench) start(ctx context.Context, k kind, dir string) (*subject, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &subject{kind: k, dir: filepath.Join(dir, string(k)), metadata: filepath.Join(dir, string(k)+"-metadata.json")}
	s.process = exec.CommandContext(ctx, self, "serve", string(k))
	s.process.Env = append(os.Environ(), dataVariable+"="+s.dir)
	if b.profile != "" {
		s.process.Env = append(s.process.Env, profileVariable+"="+filepath.Join(b.profile, string(k)+".pprof"))
	}
	s.process.Stderr = &s.errs
	in, err := s.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.ask, s.lines = in, in, bufio.NewReader(out)
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	var r ready
	if err := s.hear(&r); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.address = r.Address
	secret := "none"
	if r.Credentials != "" {
		if secret, err = server.ReadSecret(r.Credentials, server.HostFile); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	data, err := json.Marshal(map[string]string{"authorization": "Bearer " + secret})
	if err == nil {
		err = os.WriteFile(s.metadata, data, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *subject) hear(v any) error {
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// used asks what the process has used so far.
func (s *subject) used() (u usage, err error) {
	if _, err := io.WriteString(s.ask, "\n"); err != nil {
		return usage{}, err
	}
	err = s.hear(&u)
	return u, err
}

func (s *subject) stop() error {
	err := errors.Join(s.in.Close(), s.process.Wait())
	if s.errs.Len() > 0 {
		err = errors.Join(err, fmt.Errorf("it said: %s", s.errs.String()))
	}
	return err
}

// allowed makes sure that the server has answered exactly so many ALLOWs and
// nothing else: what was measured is what was meant.
func (s *subject) allowed(want int) error {
	answers, allowed, err := s.answers()
	if err != nil {
		return err
	}
	if answers != want || allowed != want {
		return fmt.Errorf("the server %s was sent %d calls and gave %d answers, %d of them ALLOW", s.kind, want, answers, allowed)
	}
	return nil
}

// answers counts what is in the server's log; one without a log says it itself.
func (s *subject) answers() (all, allowed int, err error) {
	if s.kind == unlogged {
		u, err := s.used()
		return int(u.Dropped), int(u.Allowed), err
	}
	f, err := os.Open(filepath.Join(s.dir, "log", "segments", "00000000000000000000.jsonl"))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		all++
		if bytes.Contains(scanner.Bytes(), []byte(`"outcome":"ALLOW","code":"ALLOW"`)) {
			allowed++
		}
	}
	return all, allowed, scanner.Err()
}

// cost loads a server once, and returns what that cost it.
func (b bench) cost(ctx context.Context, s *subject) (time.Duration, error) {
	before, err := s.used()
	if err != nil {
		return 0, err
	}
	if err := b.fire(ctx, s, b.load.Requests); err != nil {
		return 0, err
	}
	after, err := s.used()
	return after.CPU - before.CPU, err
}

// fire sends n calls to a server. All of them must be answered.
func (b bench) fire(ctx context.Context, s *subject, n int) error {
	report := s.metadata + ".report"
	command := exec.CommandContext(ctx, b.ghz, "--insecure", "--protoset", b.protoset, "--call", "writ.v1.DecisionService.Decide",
		"--data-file", callFile(filepath.Dir(s.dir), s.kind), "--metadata-file", s.metadata,
		"--total", strconv.Itoa(n), "--concurrency", strconv.Itoa(b.load.Concurrency), "--connections", strconv.Itoa(b.load.Connections),
		"--rps", strconv.Itoa(b.load.Rate),
		"--timeout", "5s", "--format", "json", "--output", report, s.address)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ghz: %w: %s", err, out)
	}
	data, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	var said struct {
		Count  int            `json:"count"`
		Status map[string]int `json:"statusCodeDistribution"`
		Errors map[string]int `json:"errorDistribution"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return fmt.Errorf("ghz: its report: %w", err)
	}
	if said.Count != n || said.Status["OK"] != n {
		return fmt.Errorf("ghz: of %d calls %d ended, %v: %v", n, said.Count, said.Status, said.Errors)
	}
	return nil
}
