package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// tolerance is by how much a ratio may be above the committed one.
const tolerance = 0.20

// Result is one measurement.
type Result struct {
	Machine string  `json:"machine"`
	Average string  `json:"load_average"` // of the machine, before: 1, 5 and 15 minutes
	Load    Load    `json:"load"`
	Rounds  []Round `json:"rounds"`
	Read    Ratio   `json:"read"`
	Write   Ratio   `json:"write"`
}

// Round is the CPU time a request of each server, in microseconds.
type Round struct {
	Empty float64 `json:"empty_us"`
	Read  float64 `json:"read_us"`
	Write float64 `json:"write_us"`
}

// Ratio is a server's CPU time over the empty handler's of the same round: the
// median round, the least and the greatest.
type Ratio struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func newResult(load Load, rounds []Round) *Result {
	r := &Result{
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Average: loadAverage(), Load: load, Rounds: rounds,
	}
	for i := range rounds {
		rounds[i] = Round{rounded(rounds[i].Empty), rounded(rounds[i].Read), rounded(rounds[i].Write)}
	}
	r.Read = ratio(rounds, func(r Round) float64 { return r.Read / r.Empty })
	r.Write = ratio(rounds, func(r Round) float64 { return r.Write / r.Empty })
	return r
}

func ratio(rounds []Round, of func(Round) float64) Ratio {
	var all []float64
	for _, r := range rounds {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return Ratio{rounded(median(all)), rounded(all[0]), rounded(all[len(all)-1])}
}

// rounded leaves the digits that mean something.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }

// median returns the middle of sorted numbers.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	if fields := strings.Fields(string(data)); len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

func readResult(file string) (*Result, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Read.Median <= 0 || r.Write.Median <= 0 {
		return nil, fmt.Errorf("%s has no ratios: make it with --json", file)
	}
	return r, nil
}

// worseThan says which ratios are worse than the committed ones.
func (r *Result) worseThan(committed *Result) error {
	var faults []error
	for _, c := range []struct {
		name     string
		got, had float64
	}{{"read", r.Read.Median, committed.Read.Median}, {"write", r.Write.Median, committed.Write.Median}} {
		if c.got > c.had*(1+tolerance) {
			faults = append(faults, fmt.Errorf("a %s costs %.2f times an empty handler, and cost %.2f", c.name, c.got, c.had))
		}
	}
	return errors.Join(faults...)
}

func (r *Result) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rate := "as fast as they are answered"
	if r.Load.Rate > 0 {
		rate = fmt.Sprintf("%d a second", r.Load.Rate)
	}
	fmt.Fprintf(w, "%s; load average %s; %d requests, %s, at most %d in flight, connections: %d\n",
		r.Machine, r.Average, r.Load.Requests, rate, r.Load.Concurrency, r.Load.Connections)
	fmt.Fprintln(t, "CPU µs a request\tempty\tread\twrite\tread/empty\twrite/empty\t")
	for i, round := range r.Rounds {
		fmt.Fprintf(t, "round %d\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t\n", i+1, round.Empty, round.Read, round.Write, round.Read/round.Empty, round.Write/round.Empty)
	}
	fmt.Fprintf(t, "median\t\t\t\t%.2f\t%.2f\t\n", r.Read.Median, r.Write.Median)
	fmt.Fprintf(t, "least to most\t\t\t\t%.2f–%.2f\t%.2f–%.2f\t\n", r.Read.Least, r.Read.Most, r.Write.Least, r.Write.Most)
	return t.Flush()
}
