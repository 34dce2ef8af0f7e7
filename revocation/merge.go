package revocation

import (
	"slices"
	"time"
)

// Merge is the rule by which a bundle's revocations.yaml becomes part of the
// log. It returns the entries to append, in the order of the file, and the
// sequence numbers of the imported entries whose lines have gone from it. left
// are those that had gone before: whoever keeps the log adds gone to them.
// log may be nil, and file has no sequence numbers.
//
//   - A line that was not there in the file last imported is appended, also
//     when an equal one is there already.
//   - Nothing is undone by taking a line out: that it has gone is noted, so
//     that the same line, written again later, revokes again.
//   - A line that lifts counts once, however often it goes and comes back:
//     otherwise a bundle rolled back and forward again would undo what was
//     revoked meanwhile. To lift again, write another line (another reason will
//     do), or lift without the file.
//
// Lines are equal where everything that they say is. To move a line changes
// nothing; new lines are appended in the order in which they stand.
func Merge(log *View, left map[uint64]bool, file []Entry) (add []Entry, gone []uint64) {
	now := make(map[Entry]int, len(file)) // lines of the file that no entry accounts for yet
	for i := range file {
		now[line(&file[i])]++
	}
	for e := range log.Entries(0) {
		if !e.Imported {
			continue
		}
		l := line(&e)
		here := now[l] > 0
		if here && (e.Lift || !left[e.Sequence]) {
			now[l]--
		}
		if !here && !left[e.Sequence] {
			gone = append(gone, e.Sequence)
		}
	}
	// Of equal lines the last ones are the new ones.
	for i := len(file) - 1; i >= 0; i-- {
		l := line(&file[i])
		if now[l] > 0 {
			now[l]--
			l.Imported = true
			add = append(add, l)
		}
	}
	slices.Reverse(add)
	return add, gone
}

// line is what an entry says, without what the log adds: the key by which
// lines are compared.
func line(e *Entry) Entry {
	l := *e
	l.Sequence, l.RecordedAt, l.Imported = 0, time.Time{}, false
	l.normal()
	return l
}
