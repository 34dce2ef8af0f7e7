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
	// Log is what a read costs over a read that is not recorded; zero: that was
	// not measured.
	Log Ratio `json:"read_over_read_without_log,omitzero"`
	// Token is what a read with a raw access token costs over one with claims;
	// zero: that was not measured.
	Token Ratio `json:"read_raw_token_over_read,omitzero"`
}

// Round is the CPU time a request of each server, in microseconds.
type Round struct {
	Empty    float64 `json:"empty_us"`
	Read     float64 `json:"read_us"`
	Write    float64 `json:"write_us"`
	Unlogged float64 `json:"read_without_log_us,omitzero"` // zero: not measured
	Signed   float64 `json:"read_raw_token_us,omitzero"`   // zero: not measured
}

// Ratio is a server's CPU time over another's of the same round: the median
// round, the least and the greatest.
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
		rounds[i] = Round{rounded(rounds[i].Empty), rounded(rounds[i].Read), rounded(rounds[i].Write), rounded(rounds[i].Unlogged), rounded(rounds[i].Signed)}
	}
	r.Read = ratio(rounds, func(r Round) float64 { return r.Read / r.Empty })
	r.Write = ratio(rounds, func(r Round) float64 { return r.Write / r.Empty })
	if !slices.ContainsFunc(rounds, func(r Round) bool { return r.Unlogged == 0 }) {
		r.Log = ratio(rounds, func(r Round) float64 { return r.Read / r.Unlogged })
	}
	if !slices.ContainsFunc(rounds, func(r Round) bool { return r.Signed == 0 }) {
		r.Token = ratio(rounds, func(r Round) float64 { return r.Signed / r.Read })
	}
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
	logless := r.Log != Ratio{}
	row := func(name string, without, ratio string, cells ...string) {
		if logless {
			cells = append(slices.Insert(slices.Clone(cells), 3, without), ratio)
		}
		fmt.Fprintf(t, "%s\t%s\t\n", name, strings.Join(cells, "\t"))
	}
	us := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	times := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	spread := func(r Ratio) string { return fmt.Sprintf("%.2f–%.2f", r.Least, r.Most) }
	row("CPU µs a request", "read without log", "read/read without log", "empty", "read", "write", "read/empty", "write/empty")
	for i, round := range r.Rounds {
		row(fmt.Sprintf("round %d", i+1), us(round.Unlogged), times(round.Read/round.Unlogged),
			us(round.Empty), us(round.Read), us(round.Write), times(round.Read/round.Empty), times(round.Write/round.Empty))
	}
	row("median", "", times(r.Log.Median), "", "", "", times(r.Read.Median), times(r.Write.Median))
	row("least to most", "", spread(r.Log), "", "", "", spread(r.Read), spread(r.Write))
	if err := t.Flush(); err != nil || r.Token == (Ratio{}) {
		return err
	}
	_, err := fmt.Fprintf(w, "a read with a raw access token over one with claims: %s (%s)\n", times(r.Token.Median), spread(r.Token))
	return err
}
