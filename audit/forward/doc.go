// Package forward sends a log's checkpoints to places that the log's keepers
// can't change: a file somewhere else, or a witness.
//
// Whoever has a log's key and its files can rewrite it and sign that. He can't
// take back a checkpoint that is elsewhere: the log has to continue it, and
// verify.Verify with that checkpoint tells whether it does. A witness (C2SP
// tlog-witness) looks for itself before it cosigns, so that who has one of its
// cosignatures need not keep anything.
//
// Nothing waits for a place: each has a goroutine of its own, which sends the
// newest checkpoint there is, and tries again later if that fails. What is not
// sent while a place is down is no loss, because each checkpoint covers all
// that came before.
package forward
