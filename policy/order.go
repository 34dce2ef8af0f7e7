package policy

import "cmp"

// Compare orders policies of one set by bytewise file path, then position in
// the file: negative when a comes first.
func Compare(a, b *Policy) int { return cmp.Compare(a.ordinal, b.ordinal) }
