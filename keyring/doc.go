// Package keyring holds the keys that grants and approvals are signed with,
// and opens what was signed.
//
// # Form
//
// Everything is a JWS (RFC 7515) in compact form, signed with Ed25519 (RFC
// 8037), whose protected header is always these bytes, with a key's id and one
// of the [Type] values in place:
//
//	{"alg":"EdDSA","kid":"…","typ":"…"}
//
// Whoever opens compares the bytes. So no token can choose its algorithm,
// bring a key, name the place of one, or pass for one of another type: such
// members can't be written. Base64url has one form: no padding, no white
// space, no stray bits. One payload under one key is one text.
//
// # Keys
//
// A key's id is its thumbprint (RFC 7638), so it names no other key. A [Ring]
// makes its keys itself, keeps them in memory only and takes a new one each
// day; one that has been retired still verifies for as long as what it signed
// may live. A restart forgets them all, and voids what is open. Several replicas
// have a key in a file each instead; a deployment's root key, which signs
// nothing else, certifies it by a [Replica] statement, and that is how the other
// replicas know it.
//
// Nothing here has a clock: the time comes with each call.
package keyring
