// Package canon reads JSON in exactly one way and writes it in exactly one
// way, so that a digest over it means the same to everybody.
//
// # Reading
//
// [Parse] accepts one JSON text (RFC 8259) that I-JSON (RFC 7493) would
// accept, and is stricter than both wherever two readers could disagree. It
// refuses:
//
//   - more than [MaxSize] bytes, or nesting deeper than [MaxDepth];
//   - bytes that are not UTF-8, a byte order mark, and lone surrogates, also
//     escaped ones;
//   - an object with the same name twice, or with two names that [Fold] makes
//     equal: a lenient decoder would read the other one;
//   - a number that is not, as an exact decimal, equal to its RFC 8785 form:
//     1.0, 1e3 and -0 pass (as 1, 1000 and 0), 9007199254740993, 1e400 and
//     90071992547409.934 do not, because a reader that holds numbers as
//     IEEE 754 doubles would act on another value than one that does not;
//   - anything after the value.
//
// The result is a tree of nil, bool, string, [encoding/json.Number] (already
// in its RFC 8785 text form), []any and map[string]any. Schema checks, policy
// values and digests are all made from this one tree, never from the bytes.
//
// # Writing
//
// [Append] writes such a tree in the canonical form of RFC 8785: no white
// space, members sorted by the UTF-16 code units of their names, the shortest
// number text, the least escaping. Two texts have equal canonical forms
// exactly when they hold the same values.
//
// # Digests
//
// A [Digest] is the SHA-256 of a canonical form. What is digested is always an
// object with a "type" member that names the kind of digest, so that a digest
// of one kind is never one of another.
//
// testdata/vectors.json holds texts that must be accepted, with their
// canonical forms and SHA-256, and texts that must be refused, with the
// reason; implementations in other languages run the same file.
package canon
