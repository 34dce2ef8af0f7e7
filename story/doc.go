// Package story is the bundle examples/accounts-payable at work: a host that
// proposes payments and calls the tool, and an MCP server that pays. The server
// redeems the grant of each payment with its own view of the call, writes to a
// ledger in SQLite under the idempotency key, and tells what it reads back
// there.
//
// It is a module of its own, so that programs need neither the MCP SDK nor
// SQLite. The tests are the story: everything over TLS, with the real pdp, and
// with a payment server that is killed where it hurts.
package story
