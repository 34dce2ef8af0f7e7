package verifytest

import "fmt"

// TilePath and ParseTilePath are for what tlog-tiles says of names.
func TilePath(level, index, width uint64) string { return tile{level, index, width}.path() }

func ParseTilePath(name string) error { _, err := parseTile(name); return err }

// Required counts the tiles of a tree by level: the full ones, and the widths
// of the partial ones.
func Required(size uint64) (full, partial []uint64) {
	for _, t := range required(size) {
		for uint64(len(full)) <= t.level {
			full, partial = append(full, 0), append(partial, 0)
		}
		switch {
		case t.width == width:
			full[t.level]++
		case partial[t.level] == 0:
			partial[t.level] = t.width
		default:
			panic(fmt.Sprintf("two partial tiles at level %d", t.level))
		}
	}
	return full, partial
}

// Levels is for the vectors: the hashes of each level of tiles.
func Levels(leaves []Hash) [][]Hash { return levels(leaves) }
