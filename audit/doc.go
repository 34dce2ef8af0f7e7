// Package audit keeps the record of every decision, in order, in one log: a
// directory of plain files whose Merkle tree and signed checkpoints show to
// anybody that nothing was changed, moved or taken out.
//
// The guarantee that it carries is the house's first: nothing is answered that
// could not be recorded. So [Log.Append] either has the record or says that it
// may not, and whoever calls it gives no answer then.
//
//   - A durable record is on the disk (fsync) before Append returns. Records
//     that arrive together share one fsync.
//   - Any other record is accepted by the queue before Append returns. It never
//     waits for an fsync. It is written about a millisecond later, and is on the
//     disk at the latest 200 ms after that. The queue is ordered: once a later
//     record is on the disk, so is it. While the process lives it is not lost,
//     whatever the disk does; a crash of the process may lose what it had not
//     yet written, and one of the machine what was not yet on the disk.
//   - At most 16 MiB of records are accepted and not yet on the disk. Then
//     callers wait for room, until their contexts end.
//   - No caller waits for longer than its context allows, and none but the log's
//     own goroutines ever waits for an operation of the disk.
//
// An error from Append means that the record may be in the log or not. No
// error means that it is, or will be unless there is a crash, as above. A
// durable record whose caller gave up before the log began to write it is taken
// out of the queue; otherwise it is written like any other.
//
// # A disk that fails
//
// No failure is for good, and none needs a restart. When a write or an fsync
// fails, for whatever reason, nothing is confirmed; after a pause (100 ms, then
// twice as long each time up to 5 s) the log cuts the segment back to where it
// was when it was last synced, and writes again all that came after, which it
// has kept in memory: the same bytes at the same places. So a failed fsync,
// after which the operating system may have thrown away what it could not
// write, loses nothing. [Log.State] says how the disk is, since when, and what
// to do; Config.Changed is told of each change:
//
//	ok         all is well
//	slow       an operation took more than 250 ms, and no fsync was quicker since
//	full       ENOSPC or EDQUOT
//	read_only  EROFS
//	failed     any other error, or somebody else's hands on the newest segment
//	hanging    an operation has not returned for more than a second
//
// The newest segment is looked at before each write and after each fsync. If it
// has been moved, replaced, cut, or written to by anybody else, that is a
// failure like others, and nothing but its own partial writes is ever cut off by
// the log: it goes on when the file is again as it was.
//
// Tiles and checkpoints are written by a goroutine of their own, so that no
// record waits for them. When they can't be written, records are confirmed as
// ever, the state says so, and after a million records without a checkpoint no
// more are accepted.
//
// [Log.Close] waits for the disk for five seconds, and says how many records
// are lost if that did not do.
//
// # The directory
//
//	segments/00000000000000000000.jsonl  records, a line each
//	tile/                                hashes, as C2SP tlog-tiles has them
//	checkpoint                           the newest signed checkpoint
//	key                                  what signs it; secret, mode 0600
//	verifier                             what verifies it; for everybody
//	hmac.key                             32 bytes, for what is told under a key; secret, mode 0600
//	lock                                 locked (flock), like the directory, while a process has the log open
//
// A record is a line of JSON, the message writ.audit.v1.Record with the names
// of its proto file, of at most 65,535 bytes without its line feed. It begins
//
//	{"v":1,"index":17,"time":"
//
// where the index counts from 0 without gaps. A segment is named by the index
// of its first record, in 20 digits. When it would grow beyond
// Config.SegmentBytes, or its first record is Config.SegmentAge old, the next
// record begins another; all of a segment is on the disk before the next one is
// made, and it never changes again. Age is measured by a clock that is not set
// back while the process runs, and otherwise by the time of the first record.
//
// The leaves of the tree are the lines (package tree). Once a second, if the
// log has grown, what is on the disk gets its tiles and a checkpoint: a signed
// note of origin, size and root. So a checkpoint covers only what no crash can
// lose, and what it covers is for ever. Package verify checks all of it without
// trusting the log; packages segment and tree only need the files. The origin
// names the log for ever.
//
// # Opening
//
// [Open] makes sure of what can be made sure of without reading all records: the
// keys belong together and have signed the checkpoint; the tiles at the edge of
// the tree give its root; each segment begins with the record that it is named
// by and ends with the one before the next; the last records that the
// checkpoint covers (up to 256) are those of the tiles; and every record beyond
// the checkpoint is there and whole. These go into the tree again. A log of ten
// million records opens in well under a second.
//
// Three things are what a crash leaves behind, and are put in order and told by
// [Log.Recovered], never in silence:
//
//   - beyond the checkpoint, an unfinished line at the end of the newest
//     segment, or one with zero bytes, which is how some file systems show what
//     was never written: it is cut off, with all that is behind it. No fsync can
//     have confirmed any of that;
//   - a new segment without a record;
//   - files named .new, which were to replace others.
//
// If there is no tile at all, they are made again from the records, provided
// that these hash to the checkpoint's root; that is told, too. Anything else is
// refused, and left as it is; the error names the file or record, and says what
// to do. That the newest records, beyond a checkpoint kept elsewhere, have been
// cut off together with the log's own checkpoint cannot be seen here: forward
// checkpoints to a second place (package forward), and compare.
//
// # Following
//
// [Log.Follow] reads records in order, from any index on, each as soon as it is
// on the disk, for streams and exporters. It reads the files, so that a slow
// reader costs the log nothing.
//
// Records hold no values of arguments but those that the tool's contract calls
// loggable.
package audit
