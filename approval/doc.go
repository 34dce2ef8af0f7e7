// Package approval holds what people agree to: the reviews that are open, and
// the signed statement of one person over one proposal and one review.
//
// A [Statement] is evidence, not authority: each decision judges again who
// agreed to what, and whether that person may.
package approval
