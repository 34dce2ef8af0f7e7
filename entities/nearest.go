package entities

import "iter"

// nearest returns the candidate that text was probably meant to be: the one
// with the fewest edits, and the first in byte order among those; or "" if
// none is near.
func nearest(text string, candidates iter.Seq[string]) string {
	limit := max(1, min(3, len(text)/3))
	best, found := "", false
	for c := range candidates {
		d := edits(text, c, limit)
		if d > limit || c == text {
			continue
		}
		if !found || d < limit || c < best {
			best, found, limit = c, true, d
		}
	}
	return best
}

// edits counts the insertions, deletions and replacements of bytes, and swaps
// of neighbours, that make a into b (optimal string alignment); any number
// above limit stands for all of them, and for texts too long to be guessed.
func edits(a, b string, limit int) int {
	const longest = 100
	if abs(len(a)-len(b)) > limit || len(a) > longest || len(b) > longest {
		return limit + 1
	}
	var rows [3][longest + 1]int
	before, above, row := &rows[0], &rows[1], &rows[2]
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > limit+1 { // a swap may still take one off the row before
			return limit + 1
		}
	}
	return row[len(b)]
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
