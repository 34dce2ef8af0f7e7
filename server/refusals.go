package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sampler logs refusals, each reason at most once a second: strangers must
// not be able to fill the log.
type sampler struct {
	mu      sync.Mutex
	reasons map[Reason]*sample // guarded by mu
}

type sample struct {
	logged time.Time
	silent int // refusals since, not logged
}

func (s *sampler) log(ctx context.Context, log *slog.Logger, method string, reason Reason) {
	if _, known := rights[method]; !known {
		method = "(unknown)" // a stranger's text
	}
	silent, due := s.due(reason)
	if !due {
		return
	}
	log.LogAttrs(ctx, slog.LevelWarn, "calls refused",
		slog.String("reason", string(reason)), slog.String("method", method), slog.Int("not_logged_before", silent))
}

// due counts a refusal, and says whether it is to be logged and how many
// before it were not.
func (s *sampler) due(reason Reason) (silent int, due bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.reasons[reason]
	if have == nil {
		have = &sample{}
		s.reasons[reason] = have
	}
	if now.Sub(have.logged) < time.Second {
		have.silent++
		return 0, false
	}
	silent = have.silent
	*have = sample{logged: now}
	return silent, true
}
