package otlplog

import (
	"log/slog"
	"time"
)

// ParseCursor and FormatCursor are the form of the cursor file.
var (
	ParseCursor  = parseCursor
	FormatCursor = formatCursor
)

// Judge is what an error means for the next attempt.
func Judge(err error) (refused, narrow bool, asked time.Duration) {
	v := judge(err)
	return v.refused, v.narrow, v.asked
}

// Waits returns how long would be waited after each of n failures in a row.
func Waits(n int, first, most time.Duration, err error) []time.Duration {
	e := &Exporter{cfg: Config{Backoff: first, MaxBackoff: most, Synced: func() uint64 { return 1 }, Log: slog.New(slog.DiscardHandler)}}
	var all []time.Duration
	for range n {
		all = append(all, e.failed(&sendError{count: 1, err: err}))
	}
	return all
}
