// jose's side of the tests of access tokens.
//
//   tokens.mjs make                  a token of each algorithm, with the JWK set
//   tokens.mjs check < vectors.json  one line for each vector: what jose says
import { createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose'
import { readFileSync } from 'node:fs'

const input = JSON.parse(readFileSync(0, 'utf8'))

if (process.argv[2] === 'make') {
  const keys = []
  const tokens = []
  for (const alg of ['EdDSA', 'Ed25519', 'ES256', 'ES384', 'ES512', 'PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512']) {
    const kid = 'js-' + alg
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
    keys.push({ ...(await exportJWK(publicKey)), kid, alg, use: 'sig' })
    tokens.push({ alg, kid, token: await new SignJWT(input).setProtectedHeader({ alg, kid, typ: 'at+jwt' }).sign(privateKey) })
  }
  console.log(JSON.stringify({ jwks: { keys }, tokens }))
} else {
  const keys = createLocalJWKSet(input.keys[input.issuer])
  for (const v of input.vectors) {
    try {
      await jwtVerify(v.token, keys, {
        issuer: input.issuer, audience: input.audience, algorithms: input.algorithms, typ: 'at+jwt', requiredClaims: ['exp', 'sub'],
      })
      console.log(JSON.stringify({ name: v.name, accept: true }))
    } catch (e) { // whatever it throws, it refuses
      console.log(JSON.stringify({ name: v.name, accept: false, why: String(e).slice(0, 200) }))
    }
  }
}
