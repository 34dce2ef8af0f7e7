// Package tree is the Merkle tree over the log's records: its hashes, its
// tiles on the disk, its proofs and its signed checkpoints.
//
// A leaf is one record; its hash, and those of the nodes above, are those of
// RFC 6962, section 2.1 (as golang.org/x/mod/sumdb/tlog has them):
//
//	leaf  SHA-256(0x00 || record)
//	node  SHA-256(0x01 || left || right)
//
// # Tiles
//
// The tree is kept as tiles (C2SP tlog-tiles): files of up to 256 consecutive
// hashes of 32 bytes, without anything around them. Level 0 holds the leaves'
// hashes; a hash at level L+1 is the root over one full tile of level L. The
// directory of a log holds them as
//
//	tile/<level>/<index>          a full tile: 8192 bytes
//	tile/<level>/<index>.p/<W>    a partial one: W hashes, 1 <= W <= 255
//
// where an index of more than three digits is spread over directories, as in
// x001/x234/067. A full tile never changes. A partial one is written for each
// size that gets a checkpoint, and goes when its full tile is there; so the
// directory can be served as it is.
//
// Tiles are derived from the records. Nothing durable depends on them: who
// loses them makes them again from the records ([New], then [Tree.Append]).
//
// # Checkpoints
//
// A checkpoint (C2SP tlog-checkpoint) says which tree a log of some size has:
//
//	<origin>
//	<size, decimal>
//	<root, base64>
//
// possibly with further lines, and is signed as a note
// (golang.org/x/mod/sumdb/note, C2SP signed-note) by the log's Ed25519 key,
// whose name is the origin. Who has a checkpoint can tell whether a record is
// in that tree (an inclusion proof), and whether a later tree still holds all
// of it (a consistency proof). Witnesses add cosignatures (C2SP
// tlog-cosignature): each saw this as the newest tree of that log, in one line
// with all that it saw before.
package tree

import "golang.org/x/mod/sumdb/tlog"

// A tile holds up to Width hashes: it is a subtree of Height levels.
const (
	Height = 8
	Width  = 1 << Height

	tileBytes = Width * tlog.HashSize
)

// MaxSize bounds the size of a tree. It is far from what a log can reach, and
// small enough for any arithmetic on sizes and indexes.
const MaxSize = 1 << 56

// maxLevels is how many levels of tiles a tree of MaxSize has.
const maxLevels = 8
