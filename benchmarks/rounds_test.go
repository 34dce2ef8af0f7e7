package benchmarks

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// spread reports what was measured in rounds: the median, and says the least
// and the most.
func spread(b *testing.B, name string, rounds []float64) {
	b.Helper()
	sorted := slices.Sorted(slices.Values(rounds))
	n := len(sorted)
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	b.Logf("%s: median of %d rounds %.2f (%.2f to %.2f)", name, n, median, sorted[0], sorted[n-1])
	b.ReportMetric(median, name)
}

// average is the machine's load average.
func average() string {
	data, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(data)); err == nil && len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

// number is a number from the environment.
func number(b *testing.B, name string, unless int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unless
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s: %q is no number from 1", name, text)
	}
	return n
}
