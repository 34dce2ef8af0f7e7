// An OpenID Connect provider on loopback, and two access tokens of it: one that
// a user logged in for (authorization code with PKCE, RFC 7636) and one of the
// client's own (client credentials). It ends when its standard input does.
//
//   provider.mjs RESOURCE SCOPE
import { exportJWK, generateKeyPair } from 'jose'
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import Provider from 'oidc-provider'

const [resource, scope] = process.argv.slice(2)
const redirect = 'https://desk.example/callback'
const secret = randomBytes(16).toString('hex')

const server = createServer()
await new Promise((listening) => server.listen(0, '127.0.0.1', listening))
const issuer = `http://127.0.0.1:${server.address().port}`

const { privateKey } = await generateKeyPair('ES256', { extractable: true })
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'desk', client_secret: secret, redirect_uris: [redirect], response_types: ['code'],
    grant_types: ['authorization_code', 'client_credentials'], token_endpoint_auth_method: 'client_secret_basic',
    id_token_signed_response_alg: 'ES256',
  }],
  cookies: { keys: [randomBytes(16).toString('hex')] },
  jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: 'provider-1' }] },
  scopes: ['openid'],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope, audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  async loadExistingGrant(ctx) {
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId })
    grant.addOIDCScope('openid')
    grant.addResourceScope(resource, scope)
    await grant.save()
    return grant
  },
})
const answer = provider.callback()
server.on('request', (req, res) => {
  if (req.url.startsWith('/interaction/')) {
    provider.interactionFinished(req, res, { login: { accountId: 'ann' } }) // whoever comes is ann
  } else {
    answer(req, res)
  }
})

// get follows redirects as a browser would, with cookies, to the client's own.
async function get(url, cookies = new Map()) {
  for (let i = 0; i < 10; i++) {
    const cookie = [...cookies].map(([k, v]) => `${k}=${v}`).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const set of response.headers.getSetCookie()) {
      const [pair] = set.split(';')
      const [name, value] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
      if (value) cookies.set(name, value)
      else cookies.delete(name)
    }
    const next = response.headers.get('location')
    if (!next) throw new Error(`${url}: ${response.status} ${await response.text()}`)
    url = new URL(next, url).href
    if (url.startsWith(redirect)) return new URL(url)
  }
  throw new Error('too many redirects')
}

async function token(parameters) {
  const response = await fetch(`${issuer}/token`, {
    method: 'POST',
    headers: { authorization: 'Basic ' + Buffer.from(`desk:${secret}`).toString('base64') },
    body: new URLSearchParams({ resource, ...parameters }),
  })
  const body = await response.json()
  if (!body.access_token) throw new Error(JSON.stringify(body))
  return body
}

const verifier = randomBytes(32).toString('base64url')
const back = await get(`${issuer}/auth?` + new URLSearchParams({
  client_id: 'desk', response_type: 'code', redirect_uri: redirect, scope: `openid ${scope}`, resource,
  code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
}))
const user = await token({ grant_type: 'authorization_code', code: back.searchParams.get('code'), redirect_uri: redirect, code_verifier: verifier })
const own = await token({ grant_type: 'client_credentials', scope })
console.log(JSON.stringify({ issuer, user: user.access_token, id: user.id_token, own: own.access_token }))

process.stdin.on('end', () => process.exit(0)).resume()
