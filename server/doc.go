// Package server is the door to a [pdp.PDP], over gRPC and as JSON over HTTP:
// it says who may knock, how hard, and with what, and it turns messages into
// nouns and answers into messages. It decides nothing.
//
// # What a call passes, in this order
//
//  1. The listener: loopback or a local socket, unless callers elsewhere can
//     show client certificates. With TLS the handshake judges these.
//     A connection is read at its pace: one that brings little but what is
//     refused is read slowly, and then closed. docs/limits.md has all limits.
//  2. The tap, before a stream exists: the call gets its deadline, so that
//     someone who never finishes a message is cut off like anyone else.
//  3. The gate, before any of the message is read: the call's one
//     credential must be that of a caller in the bundle in force, the policies of the bundle in force must give the
//     caller the right to the method, and neither its rate nor its calls in
//     flight may be exhausted. From here on a panic is an answer, not the end
//     of the process.
//  4. The call's start: while several callers call, the calls of each start
//     apart.
//  5. The strict reader, on the message's bytes: a field that the message does
//     not declare, at any depth, is refused, and so is a single field given
//     twice: different readers would read different things.
//  6. The conversion. What is wrong with a proposal is a decision
//     (MALFORMED_PROPOSAL), recorded like any other; what is wrong with a
//     request is an error.
//
// # JSON over HTTP
//
// The second listener offers the unary methods to those without gRPC: POST the
// request message as JSON to /writ.v1.DecisionService/Decide, with the same
// client certificate, or bearer secret as Authorization. It is the unary Connect protocol
// (connectrpc.com/docs/protocol) with JSON alone. Such a call passes the same
// gate: the same callers, rights, quotas and deadlines, counted together with
// gRPC's. Before it comes a guard against web pages: a Host header that is not
// this listener's own and any Origin header are refused. After it the body is
// read, at most as many bytes as a message may have, by a strict reader of its
// own. /healthz says that the process is up, /readyz whether it can decide and
// what is wrong all the same, and /metrics has the numbers: without a secret,
// the latter two to this machine alone.
//
// Errors are the same, with the HTTP status that Connect gives to their code,
// but for 403 from the guard, 404 for a path that is no unary method, 405, 415,
// and 413 for a body that is too large. What net/http answers by itself (400
// for what is no HTTP, 431 for a header over its limit, 505) is plain text.
//
// # Errors
//
// A denial is a normal response. A gRPC error means that nothing was decided:
// each carries one google.rpc.ErrorInfo of the domain "writ.dev" with a
// [Reason], says nothing about the inside of the server, and counts as a
// denial for every client. What the transport answers by itself carries none:
// a header list, message or number of streams over its limit, a message that
// is cut off or whose deadline passes before it is there, a compression (none
// is installed), a method name that is none.
//
// # Who may knock
//
// A caller is known by the client certificate of its connection, by its user at
// a Unix-domain socket, or by a secret. A certificate is judged at the handshake
// and again at each call: it must be valid then, lead to a CA of the trust
// bundle then, and name exactly one caller of the bundle in force then. So what
// is replaced, withdrawn or expires counts no more at the next call of a
// connection that lives on; see [TLS] for the files. A call with a certificate
// and a secret is refused.
//
// At each start [NewCredentials] makes three secrets, one for hosts, one for MCP
// servers and one for operators and approvers, in files that only this user can
// read. Whoever can read one is the caller of the bundle in force that it stands
// for. Being on
// the same machine is not enough, and being on another is too far.
package server
