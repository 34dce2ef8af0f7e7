// Package etcd lets several replicas follow one bundle and one revocation log
// that an etcd cluster keeps. It is the only importer of the etcd client.
//
// # Keys
//
// All under one prefix, /writ/ by default:
//
//	state/source                the source's id, written once
//	state/current               the generation that counts: the one pointer
//	state/revocations/NNN…      what one call added to the log, named by the
//	                            sequence of its first entry, 20 digits
//	state/sequence              the sequence of the log's last entry, and whose
//	                            call added it
//	generations/NNN…            every generation that is kept
//	gone/NNN…                   lines that left revocations.yaml with a generation
//	files/HEX/NNNN              contents by their SHA-256, in pieces of 1 MiB
//	ledger/…                    what has been redeemed: see [Ledger]
//	reviews/…                   what people are asked: see [Reviews]
//	keys/KID                    the replicas' public keys: see [Keys]
//	pushing                     who pushes, under a lease
//
// # What a replica shows
//
// A [Source] reads state/ at one revision of etcd and watches it from there
// on, in etcd's order. It never asks for a member's own idea of the present (a
// serializable read), and what comes with a revision that it has been at
// already changes nothing: so it never goes back, whichever member it talks to.
//
// A world of generation g whose log ends with entry s holds every entry up to s
// except lifts that were added while a generation later than g stood. Nobody
// is let back in, by a lift or by another bundle, before all that was decided
// before it is in force (there is no "new enemy"): every entry carries the
// generation that stood when it was added, which the transaction that adds it
// compares, and what is revoked does not wait for a bundle that is still being
// built.
//
// The source has been heard of at t when a linearizable read that began at t
// gave a revision, the watch has got as far, and the newest generation has
// been offered. A member that is cut off from the others can't bring that about.
//
// Each generation names the one before, and each addition to the log the one
// before: what follows in another history of the store, as after a backup was
// brought back, does not fit onto what a replica has shown.
//
// # What is refused
//
// Whatever is under state/ is either as this package writes it or a fault:
// strange keys, overwritten or missing entries, deletions, another source,
// another cluster, an older revision. Then the last good world stays, nothing
// is heard any more, and the fault is told until it is mended. Contents must
// have their digests.
package etcd
