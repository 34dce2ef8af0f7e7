// Package verifytest is a second verifier of the log, for tests. It is written
// from the public texts alone, with nothing but the standard library, and
// shares no code with what writes or verifies the log: where both agree, they
// agree because they read the same specification.
//
// The texts are RFC 6962, section 2.1 (the tree), 2.1.1 (inclusion) and 2.1.2
// (consistency); and of C2SP signed-note, tlog-checkpoint, tlog-tiles and
// tlog-cosignature.
//
// A log is a directory:
//
//	segments/00000000000000000000.jsonl  records, one line each, named by the index of the first: 20 digits
//	tile/L/NNN, tile/L/NNN.p/W           hashes, as tlog-tiles has them
//	checkpoint                           a signed note, as tlog-checkpoint has it
//
// A file whose name ends in .new is being written, or was when there was a
// crash, and means nothing.
//
// A record is a line without its newline, at most 65,535 bytes, and begins
// with {"v":1,"index":N, where N is its place in the log. Records may follow
// those that the checkpoint speaks for, and the last line may be unfinished:
// a log is also read while it is written. Whatever the checkpoint speaks for
// must be there.
//
// It favours being plainly right over being fast, and keeps 32 bytes a record.
package verifytest
