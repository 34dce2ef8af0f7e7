// Package audit keeps the record of every decision, in order, in one file.
//
// The guarantee that it carries is the house's first: nothing is answered that
// could not be recorded. So [Log.Append] either has the record or says that it
// may not, and whoever calls it gives no answer then.
//
//   - A durable record is on the disk (fsync) before Append returns. Records
//     that arrive together share one fsync.
//   - Any other record is accepted by the queue before Append returns, and is
//     written about a millisecond later. The queue is ordered: once a later
//     durable record is on the disk, so is it. A crash of the process or the
//     machine may lose what came after the last durable record.
//   - A full queue makes callers wait, until their context ends.
//   - After the first failure to write nothing is accepted any more: what the
//     disk holds is unknown then, and only [Open] finds out.
//
// An error from Append means that the record may be in the log or not. No
// error means that it is, or will be unless the log fails first, as above.
//
// # The file
//
// decisions.jsonl holds one JSON object a line (see [Record] for its members),
// starting with
//
//	{"sequence":17,
//
// where the sequence counts from 0 without gaps, and ending with
//
//	,"chain":"<64 lower-case hexadecimal digits>"}
//
// where the chain is the SHA-256 of the 32 bytes of the chain before it (zero
// bytes for the first line) and the line up to, but without, this ending. A
// changed, missing, repeated or moved line breaks it. It is no signature: who
// can write the file can write a whole new chain, or cut off the newest lines.
//
// [Open] reads the file through. It cuts off an unfinished last line, which is
// what a crash leaves behind, and says so ([Log.Recovered]); that line was
// never confirmed to anybody. It refuses any other damage. While a log is open
// its file is locked, and nobody else may write, cut, move or replace it: each
// write checks that, and fails. Move it away only while nothing has it open.
//
// Records hold no argument values.
package audit
