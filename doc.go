// Package writ defines the nouns of Writ, a policy decision point (PDP) for
// Model Context Protocol tool calls. This page is the specification in prose;
// the types beside it are its vocabulary.
//
// # The one idea
//
// A model may propose an action; it must never be able to manufacture the
// authority to perform it. A host, gateway or MCP server hands Writ a typed
// [Proposal]. Writ answers with a [Decision]: ALLOW, DENY or REVIEW_REQUIRED,
// and a [Code] that says why. Everything in a proposal is a claim. What is
// authoritative is held by the server that decides: the reviewed contracts,
// the entities, the policies, the revocations.
//
// # Nouns
//
// Each has one meaning everywhere: in code, on the wire, in files and records.
//
//   - Proposal: one tool call that someone wants to make.
//   - Principal: for whom. One subject of one issuer; two issuers may share a
//     subject.
//   - Actor: who acts for the principal (RFC 8693). The chain of the token comes
//     first; a proposal may only append to it. Every actor must be permitted,
//     too: effective authority is the intersection.
//   - Caller: who speaks to the PDP, by its transport credential.
//   - Intent: the user's current purpose. It expires.
//   - Server: a registered MCP server, bound to an endpoint or a package hash.
//   - Definition: an MCP Tool object exactly as tools/list gave it.
//   - Contract: a reviewed tool: its definition and what the reviewer declared
//     of it. Limits are not in the contract; they are policies.
//   - Evidence: where the value of an argument was observed. It counts only if
//     the observed value equals the argument.
//   - Decision: outcome, code, control, determining policies, digests, revision.
//   - Approval: a person agreed. An independent approver's statement over one
//     proposal and one review.
//   - Review: what people are asked to agree to, as it is shown to them.
//   - Grant: the PDP permits, once. Signed authority for one exact call.
//   - Redemption: a grant is spent by the server that is about to act.
//   - Receipt: what happened, as an observer saw it.
//   - Revocation: withdrawal, now or at a time.
//   - Snapshot: one immutable world. Revision: its name, on every answer and
//     every record.
//
// # The decision
//
// A decision is an ordered list of controls over one snapshot ([Controls]).
// The first that fails answers. A control is a function of its code: every
// code belongs to one control ([CodeInfo]). The order is the order of trust:
// can the proposal be read in exactly one way; is this the reviewed server and
// the reviewed tool; whose authority is it; has any of it been withdrawn; do
// the arguments fit exactly; what is the call about; may this data go there;
// do the policies permit it; have other people agreed; could the answer be
// recorded.
//
// # The verdict of the policies
//
// Policies are Cedar. For each target of the call, for the principal and then
// for each actor, permits and forbids are evaluated apart.
//
//  1. A forbid that cannot be evaluated denies (POLICY_ERROR). A permit that
//     cannot be evaluated is no permit.
//  2. A satisfied forbid without @review denies, with its code.
//  3. Without a satisfied permit: NO_PERMIT. Nobody is asked to approve what
//     could never be allowed.
//  4. A satisfied forbid with @review("n") is lifted by n valid approvals from
//     n distinct people, none of them principal, actor or caller, each of whom
//     the current snapshot permits to approve. Not lifted: REVIEW_REQUIRED.
//  5. Otherwise the target passes. All targets must pass; a denial of any
//     beats a review of another.
//
// # What follows an ALLOW
//
// An ALLOW of a call that changes something carries a grant: it binds principal,
// contract and arguments, lives for seconds, and is good once. The MCP server
// redeems it with its own view of the call before it acts (control GRANT); what
// the grant stands on must still stand, or the call is decided again. One
// proposal is redeemed once, whatever grants there are for it. Afterwards the
// observer that the contract names tells what it saw, and that is compared with
// what was authorised (control EFFECT). What nobody knows the outcome of may be
// tried again under the same idempotency key alone.
//
// # What is assumed
//
// The machine that runs the PDP, its clock and its files are trusted; so is
// whoever may write the bundle, or may write to the etcd that it comes from.
// Callers are trusted to name themselves by their credentials. Access tokens are
// verified here, under their issuers' keys; where the bundle has no such keys, or
// lets a caller vouch for tokens, what the caller says of one counts. The bundle
// also says for which kinds of evidence a caller may vouch.
// Models, tool descriptions, arguments, documents and tool results are not
// trusted with anything. Symbolic links and DNS are the MCP server's to mind.
//
// # Who may call what
//
// What callers may do at the PDP is a question to the same policies: each of its
// methods is an action of the caller's, and so is vouching for evidence. Policies
// that are part of Writ give four roles their rights; a bundle adds permits and
// forbids that name these actions. The answers are worked out when a world is
// built. A policy that names no action is about calls of tools alone.
//
// # How the world changes
//
// A [snapshot] is one immutable world. A source gives the next one: a directory,
// which is looked at every second, or etcd. It is built and checked whole beside
// the one in force, and then takes its place; a request, and a whole batch, is
// decided in one. While the newest is faulty the last good one stays. Every
// answer and every record names its world by a revision, which only the source
// orders; a request may demand one at least as fresh as it has seen.
//
// Revocations are a log of their own, which nothing undoes but a later entry: no
// reload, no rollback, no edit of a file. What has a validity window begins and
// ends by the server's clock, with no event at all.
//
// # What remains
//
// Every decision, explanation, redemption, approval, effect, revocation, reload,
// start and stop is a record of the log, whose Merkle tree and signed checkpoints show whether any was changed
// or taken out. An ALLOW of a write, and a redemption, is on
// the disk before it is given.
//
// # Failing closed
//
// Unknown, unspecified, error, timeout, stale, full: deny, with a code that
// says which. The zero [Outcome] and the zero [Decision] deny. What could not
// be recorded is not answered.
//
// # Where a change goes
//
// Imports run one way:
//
//	cmd -> {server, etcd} -> pdp -> {decide, grant, approval, effect, token, audit} -> {keyring, snapshot} ->
//	{policy, contract, entities, revocation} -> {definition, target} -> writ -> canon
//
// canon reads and digests JSON. definition, target, contract, entities,
// revocation and policy each hold one noun and its rules. bundle turns files
// into a snapshot and follows a directory; etcd follows a cluster; mutation
// tests bundles. decide is pure: one control, one file. token verifies access
// tokens. audit keeps the log, and the rooms in it read, verify and export it.
// keyring signs and opens; grant and approval are what is signed, with the rules
// of ledgers and reviews; effect compares.
// pdp adds the clock and the log and is the only maker of an answer. server
// speaks gRPC, and JSON over HTTP. A new code is one line in codes.go,
// one control in decide and one case in decide/testdata.
//
// [snapshot]: https://pkg.go.dev/github.com/writ-pdp/writ/snapshot
package writ
