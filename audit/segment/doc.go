// Package segment reads the files in which the log keeps its records.
//
// The directory segments/ of a log holds them one line each, in files that are
// named by the index of their first record, in 20 digits:
//
//	00000000000000000000.jsonl
//	00000000000000081920.jsonl
//
// Indexes count from 0, without gaps, over all files. A record is its line
// without the "\n", a JSON object of at most 65,535 bytes that starts with its
// index, in just this form:
//
//	{"v":1,"index":81920,
//
// Only the newest file grows, and only by whole records; a crash, or a writer
// that is just writing, may leave the beginning of one at its end. Nobody
// changes the others.
//
// All that is here only reads, also while a server writes.
package segment
