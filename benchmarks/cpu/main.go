// Command cpu measures what a decision costs a server: its CPU time a request,
// user and system, for a read and for a durable write, over that of a server
// that does nothing (package emptyhandler); and what the log's part of a read
// is, by a fourth server whose answers are recorded nowhere; and what a raw access
// token costs over claims, by a fifth that verifies tokens. The ratio is what
// counts: it depends less on the machine than the time does.
//
// By default they answer as fast as they can, with so many calls in flight. A
// server then takes many requests from the network at once, the empty one most
// of all, so this shows most of what a decision itself costs; but it also shows
// who else uses the processor, hence the many rounds and their median. With
// --rate all get the same requests at the same rate, as in everyday service: a
// ratio that is steady, and lower, because to wake up for each request is then
// most of the cost.
//
//	go run ./benchmarks/cpu --ghz PATH --protoset FILE [--json] [--against benchmarks/cpu.json]
//
// `make bench-cpu` gives it both tools. It starts five processes of itself,
// one of each kind (three with --against, which is about two ratios), and ghz loads them in turn over loopback, round after
// round. What a server has used it says itself, before and after (getrusage).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		err = serve(kind(os.Args[2]), os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cpu:", err)
		os.Exit(1)
	}
}

// Load says how the servers are loaded.
type Load struct {
	Requests    int `json:"requests"`    // to one server in one round
	Concurrency int `json:"concurrency"` // calls in flight
	Connections int `json:"connections"`
	Rate        int `json:"rate"` // requests a second; 0: as fast as they are answered
	Rounds      int `json:"rounds"`
}

// timeout bounds one measurement.
const timeout = 150 * time.Second

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var (
		f        = flag.NewFlagSet("cpu", flag.ContinueOnError)
		load     Load
		ghz      = f.String("ghz", "", "the ghz program; required")
		protoset = f.String("protoset", "", "file with the API's descriptors, as buf build makes it; required")
		asJSON   = f.Bool("json", false, "print one JSON object")
		against  = f.String("against", "", "fail if a ratio is worse by more than a fifth than in this file, an earlier output of --json")
		attempts = f.Int("attempts", 3, "with --against: measure up to so many times before it is called worse")
		profile  = f.String("profile", "", "directory for a CPU profile of each server")
	)
	f.IntVar(&load.Requests, "requests", 5_000, "requests to one server in one round")
	f.IntVar(&load.Rate, "rate", 0, "requests a second; 0: as fast as they are answered")
	f.IntVar(&load.Concurrency, "concurrency", 50, "calls in flight (50 is what ghz does unasked, on one connection)")
	f.IntVar(&load.Connections, "connections", 1, "connections")
	f.IntVar(&load.Rounds, "rounds", 11, "rounds")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *ghz == "" || *protoset == "" || f.NArg() > 0 {
		return errors.New("--ghz and --protoset are required, and nothing else is")
	}
	if load.Requests < 1 || load.Rate < 0 || load.Rounds < 1 || load.Connections < 1 || load.Concurrency < load.Connections {
		return errors.New("requests, rounds and connections are at least 1, and concurrency at least connections")
	}
	var committed *Result
	kinds := []kind{empty, read, unlogged, signed, write}
	if *against == "" {
		*attempts = 1
	} else {
		kinds = []kind{empty, read, write}
		var err error
		if committed, err = readResult(*against); err != nil {
			return err
		}
	}
	var worse error
	for attempt := range *attempts {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		result, err := measure(ctx, bench{load: load, ghz: *ghz, protoset: *protoset, profile: *profile, kinds: kinds})
		cancel()
		if err != nil {
			return err
		}
		if *asJSON {
			e := json.NewEncoder(out)
			e.SetIndent("", "  ")
			err = e.Encode(result)
		} else {
			err = result.print(out)
		}
		if err != nil || committed == nil {
			return err
		}
		if worse = result.worseThan(committed); worse == nil {
			fmt.Fprintf(progress, "no ratio is worse than in %s by more than %.0f %%\n", *against, tolerance*100)
			return nil
		}
		fmt.Fprintf(progress, "attempt %d of %d: %v\n", attempt+1, *attempts, worse)
	}
	return worse
}
