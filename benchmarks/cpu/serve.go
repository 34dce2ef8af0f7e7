package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/benchmarks/emptyhandler"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/examples"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/telemetry"
	"github.com/writ-pdp/writ/token"
)

// kind is a kind of server, and of load.
type kind string

const (
	empty    kind = "empty"            // the empty handler, which gets both calls in turn
	read     kind = "read"             // Writ, asked for a read
	unlogged kind = "read-without-log" // the same, but that what it answers is recorded nowhere
	signed   kind = "read-raw-token"   // Writ, asked for a read with the access token itself, which it verifies
	write    kind = "write"            // Writ, asked for a write, whose ALLOW is durable
)

// scenarios are the calls of the lab's bundle that are made.
var scenarios = map[kind]string{read: "safe read", unlogged: "safe read", signed: "safe read", write: "small allowlisted payment"}

// Environment of a server's process.
const (
	dataVariable    = "WRIT_BENCH_DATA"    // directory of log and credentials
	profileVariable = "WRIT_BENCH_PROFILE" // file for a CPU profile; empty: none
)

// ready is what a server says first.
type ready struct {
	Address     string `json:"address"`
	Credentials string `json:"credentials,omitempty"` // directory; empty: nobody asks for any
}

// usage is what a server says at each line that it reads.
type usage struct {
	CPU time.Duration `json:"cpu_ns"` // user and system, since the start
	// What a server without a log has answered since the start: it is told here,
	// because nothing else tells it.
	Dropped int64 `json:"dropped,omitempty"` // answers
	Allowed int64 `json:"allowed,omitempty"` // those of them that are ALLOW
}

// heapFloor is what `pdp serve` gives the collector to count as live; so do
// all kinds here.
const heapFloor = 32 << 20

// serve is a server's process. It ends with its standard input.
func serve(k kind, in io.Reader, out io.Writer) (err error) {
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	if file := os.Getenv(profileVariable); file != "" {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	b, err := lab(k)
	if err != nil {
		return err
	}
	var r ready
	var stop func() error
	var dropped dangerousLogThatDropsEverything
	switch k {
	case empty:
		r, stop, err = startEmpty(b)
	case unlogged:
		r, stop, err = startWrit(b, &dropped)
	case read, write, signed:
		r, stop, err = startWrit(b, nil)
	default:
		err = fmt.Errorf("there is no kind of server %q", k)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	e := json.NewEncoder(out)
	if err := e.Encode(r); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		used, err := cpu()
		if err != nil {
			return err
		}
		if err := e.Encode(usage{used, dropped.records.Load(), dropped.allowed.Load()}); err != nil {
			return err
		}
	}
	return nil
}

// lab is the lab's bundle; of a server that verifies tokens, with the keys of
// their issuer.
func lab(k kind) (*bundle.Bundle, error) {
	var files []bundle.File
	if k == signed {
		files = append(files, issuerKeys())
	}
	tree := examples.Lab()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if k == signed && name == "issuers.yaml" {
			data = append(data, "  jwks: "+issuerKeysFile+"\n"...)
		}
		files = append(files, bundle.File{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		return nil, faults
	}
	return b, nil
}

// scenario is one call of the bundle, made now.
func scenario(b *bundle.Bundle, k kind) (*writ.Proposal, error) {
	for _, s := range b.Scenarios {
		if s.Name == scenarios[k] {
			s = s.At(time.Now().UTC())
			if k == signed {
				return &s.Proposal, withToken(&s.Proposal)
			}
			return &s.Proposal, nil
		}
	}
	return nil, fmt.Errorf("the lab has no scenario %q", scenarios[k])
}

// startEmpty answers what Writ would to the read.
func startEmpty(b *bundle.Bundle) (ready, func() error, error) {
	p, err := scenario(b, read)
	if err != nil {
		return ready{}, nil, err
	}
	d := decide.Decide(b.Snapshot, b.Snapshot.LocalHost, p, time.Now().UTC(), nil)
	s := emptyhandler.New(&writv1.DecideResponse{DecisionId: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Decision: server.DecisionToProto(d)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ready{}, nil, err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	return ready{Address: listener.Addr().String()}, func() error { s.Stop(); return <-served }, nil
}

// dangerousLogThatDropsEverything accepts each record and keeps none, so what a
// PDP answers over it is recorded nowhere. It exists to measure what the log
// costs, and in this program only.
type dangerousLogThatDropsEverything struct {
	records, allowed atomic.Int64
}

func (l *dangerousLogThatDropsEverything) Append(_ context.Context, r audit.Record, _ bool) error {
	l.records.Add(1)
	if r.Outcome == writ.Allow {
		l.allowed.Add(1)
	}
	return nil
}

// startWrit is `pdp serve` but for two things: no caller has a quota that it
// could reach, and JSON over HTTP is not offered. Its log is in its directory,
// unless it is given one that drops everything.
func startWrit(b *bundle.Bundle, dropped *dangerousLogThatDropsEverything) (_ ready, stop func() error, err error) {
	var closers []func() error
	stop = func() error {
		var errs []error
		for i := range closers {
			errs = append(errs, closers[len(closers)-1-i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	data := os.Getenv(dataVariable)
	var log pdp.Log = dropped
	if dropped == nil {
		opened, err := audit.Open(audit.Config{Dir: filepath.Join(data, "log")})
		if err != nil {
			return ready{}, nil, err
		}
		closers = append(closers, opened.Close)
		log = opened
	}
	logger := slog.New(telemetry.Handler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	holder := &snapshot.Holder{}
	holder.Store(b.Snapshot)
	tokens := token.New(token.Config{Log: logger})
	closers = append(closers, func() error { tokens.Close(); return nil })
	decider, err := pdp.New(pdp.Config{Snapshots: holder, Log: log, Tokens: tokens})
	if err != nil {
		return ready{}, nil, err
	}
	credentials, err := server.NewCredentials(filepath.Join(data, "credentials"))
	if err != nil {
		return ready{}, nil, err
	}
	tracing, err := telemetry.Start(context.Background(), telemetry.Config{Service: "pdp", Traced: server.Offers, Log: logger})
	if err != nil {
		return ready{}, nil, err
	}
	closers = append(closers, func() error { return tracing.Close(context.Background()) })
	const unlimited = 1 << 30
	s, err := server.New(server.Config{
		Decider: decider, Enforcer: decider, Reviewer: decider, Credentials: credentials, Log: logger, StatsHandler: tracing.StatsHandler(),
		May:           func(c *writ.Caller, method string) bool { return holder.Load().May(c, method) },
		LocalHost:     func() *writ.Caller { return holder.Load().LocalHost },
		LocalServer:   func() *writ.Caller { return holder.Load().LocalServer },
		LocalOperator: func() *writ.Caller { return holder.Load().LocalOperator },
		Limits:        server.Limits{Rate: unlimited, Burst: unlimited, InFlight: unlimited},
	})
	if err != nil {
		return ready{}, nil, err
	}
	closers = append(closers, s.Close)
	listener, err := s.Listen("127.0.0.1:0")
	if err != nil {
		return ready{}, nil, err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), listener, nil) }()
	closers = append(closers, func() error { return errors.Join(s.Close(), <-served) })
	s.SetServing(true)
	return ready{listener.Addr().String(), credentials.Dir()}, stop, nil
}
