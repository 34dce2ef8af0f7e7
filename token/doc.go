// Package token verifies access tokens: JSON Web Tokens (RFC 7519, RFC 9068)
// signed under the keys of the issuers that a bundle names, as RFC 8725 wants
// it done.
//
// [Verifier.Verify] makes of a raw token a [writ.Token]: what it says, or why
// it says nothing. Whether what it says is enough, for whom, for which server,
// for how long, is decided by the control TOKEN of package decide.
//
// # What is accepted
//
// A signed JWT in compact form (RFC 7515, section 7.1) of at most [MaxSize]
// bytes: no encryption, no nesting, no detached or unencoded payload. Its
// header may hold alg, kid and typ, and hints that are not followed (cty, x5t,
// x5t#S256); keys and places of keys (jwk, jku, x5c, x5u), crit, zip and
// whatever else are refused. Header and claims are JSON objects without
// repeated names.
//
// alg must be one that the issuer's entry allows, asymmetric always, and fit
// the key: a key of P-256 verifies ES256 and nothing else. typ must be one of
// the issuer's, by default at+jwt (RFC 9068, section 4). iss chooses the
// issuer; a key of one issuer never verifies a token of another. With a kid
// only keys of that kid are tried; without one, only where a single key of the
// issuer fits.
//
// # Keys
//
// An issuer's keys (RFC 7517) stand in the bundle or are fetched from its URL
// ([Keys]): over TLS, from that host alone, without redirects, not from private
// addresses unless the bundle says so, at most 1 MiB within 5 seconds. They
// are fetched again every five minutes while tokens come, and when a token
// names a key that is not among them, at most once in ten seconds for each
// issuer. While fetching fails the last ones serve on for the issuer's bound,
// then none do.
//
// # Seen before
//
// A token that has been verified is not verified again while its key is still
// among the issuer's: it is known by its SHA-256. Nothing else is remembered
// about it: expiry, audience, revocation are judged at each call.
package token
