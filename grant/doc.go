// Package grant holds the decision point's permission for one exact call,
// once: its form, and the ledger that lets it be redeemed once.
//
// # The grant
//
// A grant is a compact JWS of type writ-grant+jwt (package keyring says what
// that is byte for byte), at most 4 KiB. Its payload is [Claims] in the RFC
// 8785 form of
//
//	{"act":  {"iss"?, "sub", …, "act"?}?,                     RFC 8693, section 4.1
//	 "aud":  the server's id,                                 RFC 7519, section 4.1.3
//	 "authorization_details": [{                              RFC 9396
//	    "type": "mcp_tool_call", "actions": […], "locations": […],
//	    "call_digest", "contract_digest", "policy_digest", "proposal_digest"}],
//	 "basis": […]?,                                           see [Basis]
//	 "cnf":  {"jkt"?, "x5t#S256"?}?,                          RFC 7800
//	 "exp", "iat": whole seconds since 1970,
//	 "idempotency_key", "instance", "iss", "jti", "rev",
//	 "sub": …, "sub_id": {"format": "iss_sub", "iss", "sub"}, RFC 9493, section 3.2.3
//	 "tenant"?}
//
// Members marked ? are left out where they are empty. There are no others, and
// each grant has one text: what [Open] accepts, [Mint] writes again byte for
// byte under the same key.
//
// A grant that opens is no authority to act. That comes from redeeming it.
package grant
