package grant

// MaxShare is how much of the room of a [Memory] one caller may take: so many
// times what is left for all others. So the first who takes all that it can has
// seven eighths of the whole, the next seven eighths of the rest, and nobody
// takes the last of it from the others.
const MaxShare = 7

// share is what one caller has of the room.
type share struct {
	caller  string
	entries int
}

// share returns the share of a caller. The caller of it holds mu.
func (m *Memory) share(caller string) *share {
	s := m.shares[caller]
	if s == nil {
		s = &share{caller: caller}
		m.shares[caller] = s
	}
	return s
}

// greedy reports whether a caller has all of the room that it may take. The
// caller of it holds mu.
func (m *Memory) greedy(caller string) bool {
	s := m.shares[caller]
	return s != nil && caller != "" && s.entries >= MaxShare*(m.cfg.MaxEntries-len(m.queue))
}

// leave notes that an entry is gone. The caller of it holds mu.
func (m *Memory) leave(s *share) {
	if s.entries--; s.entries == 0 {
		delete(m.shares, s.caller)
	}
}
