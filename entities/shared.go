package entities

// Bounds of what is remembered in order to share it: enough for what repeats,
// little enough that a file in which nothing repeats costs some megabytes
// while it is read.
const (
	sharedEntries = 1 << 16
	sharedBytes   = 256
)

// shared gives equal texts one value, so that a text that was read before
// without a fault needn't be read again. Values must not change once made.
type shared[V any] struct {
	m map[string]V
}

// get returns the value that was made from this text before.
func (s *shared[V]) get(text []byte) (V, bool) {
	v, ok := s.m[string(text)]
	return v, ok
}

// keep remembers v as the text's value if there is room, and returns it.
func (s *shared[V]) keep(text []byte, v V) V {
	if len(text) == 0 || len(text) > sharedBytes || len(s.m) >= sharedEntries {
		return v
	}
	if s.m == nil {
		s.m = map[string]V{}
	}
	s.m[string(text)] = v
	return v
}

// ahead returns the text of the array or object that comes next, without
// reading it, or nil if it is longer than [sharedBytes]. In text that is no
// JSON it may end anywhere; but then it was never kept as a value's text.
func (r *reader) ahead() []byte {
	rest := r.data[r.start():]
	rest = rest[:min(len(rest), sharedBytes)]
	depth, quoted := 0, false
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return rest[:i+1]
			}
		}
	}
	return nil
}
