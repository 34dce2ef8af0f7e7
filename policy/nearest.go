package policy

import (
	"strings"
	"unicode/utf8"
)

// maxNearest bounds the names that are compared, in bytes: nobody mistypes
// longer ones, and the time to compare two grows with the square.
const maxNearest = 256

// nearest returns which of names a writer of name most likely meant, or ""
// when none is near. It is one that differs in case alone or by a single slip,
// else the only one that goes on where name ends, else the nearest; of equally
// near ones the first.
func nearest(name string, names []string) string {
	if len(name) > maxNearest {
		return ""
	}
	length := utf8.RuneCountInString(name)
	limit := min(1+length/4, length-1) // something in common
	best := ""
	for _, candidate := range names {
		if candidate != name && strings.EqualFold(candidate, name) {
			return candidate
		}
	}
	for _, candidate := range names {
		if candidate == name || len(candidate) > 2*maxNearest {
			continue
		}
		if d := distance(name, candidate, limit); d <= limit {
			best, limit = candidate, d-1
		}
	}
	if limit > 0 { // more than one slip
		if longer := completion(name, names); longer != "" {
			return longer
		}
	}
	return best
}

// minCompleted is the least length of what counts as the start of a name.
const minCompleted = 4

// completion returns the only one of names that starts with name; "" if there
// are several or none.
func completion(name string, names []string) string {
	if len(name) < minCompleted {
		return ""
	}
	found := ""
	for _, candidate := range names {
		if len(candidate) > len(name) && len(candidate) <= 2*maxNearest && strings.HasPrefix(candidate, name) {
			if found != "" {
				return ""
			}
			found = candidate
		}
	}
	return found
}

// didYouMean returns "; did you mean X?" or, when no name is near, "".
func didYouMean(name string, names []string) string {
	if near := nearest(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// distance is the number of insertions, deletions, substitutions and swaps
// of neighbours that turn a into b (the optimal string alignment distance).
// It may stop at any number above limit.
func distance(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if d := len(x) - len(y); d > limit || -d > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
