// jose's side of the tests of grants and approvals: one line for each vector.
//
//   signed.mjs < vectors.json
//
// This is what anybody can check offline with a stock library. It is no
// authority to act.
import { createLocalJWKSet, jwtVerify } from 'jose'
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'

const file = JSON.parse(readFileSync(0, 'utf8'))
const keys = createLocalJWKSet(file.jwks)

for (const v of [...file.positives, ...file.negatives]) {
  try {
    // Who opens an approval does not judge its times: it is asked before it ends.
    const { payload, protectedHeader } = await jwtVerify(v.token, keys, {
      algorithms: ['EdDSA'], typ: file.type, issuer: file.issuer, audience: file.audience,
      requiredClaims: ['exp', 'iat', 'iss', 'jti', 'sub'], currentDate: new Date(file.now * 1000),
    })
    const header = { alg: 'EdDSA', kid: protectedHeader.kid, typ: file.type }
    if (v.token.length > 4096 || !header.kid || !isDeepStrictEqual({ ...protectedHeader }, header)) throw new Error('size or header')
    if (payload.instance !== file.instance || payload.iat > file.now + 5) throw new Error('instance or iat')
    console.log(JSON.stringify({ name: v.name, accept: true, same: 'claims' in v && isDeepStrictEqual(payload, JSON.parse(v.claims)) }))
  } catch (e) { // whatever it throws, it refuses
    console.log(JSON.stringify({ name: v.name, accept: false, why: String(e).slice(0, 200) }))
  }
}
