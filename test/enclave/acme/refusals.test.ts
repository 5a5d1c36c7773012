/** What an ACME authority may do wrong: each ends in a named failure, never in a certificate that was not asked for. */
import { afterEach, describe, expect, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { type Challenge, dnsSolver, issueCertificate } from '../../../enclave/acme/issue_certificate'
import { AcmeFailure } from '../../../enclave/acme/signed_requests'
import type { AcmeLimits } from '../../../enclave/limits'
import { generateTls } from '../../../enclave/x509'
import {
  type Authority,
  answer,
  type Bend,
  foreignCertificate,
  openAuthority,
  problem,
} from './open_authority'

const NAME = 'venue.example.org'
const LIMITS: AcmeLimits = { call_ms: 5_000, poll_ms: 1, decision_ms: 20 }

let authority: Authority
afterEach(() => authority.close())

function issue(bend: Bend, more: Parameters<typeof openAuthority>[1] = {}, limits: Partial<AcmeLimits> = {}) {
  authority = openAuthority(bend, more)
  const presented: Challenge[] = []
  const taken: Challenge[] = []
  const order = issueCertificate({
    directory_url: authority.directory_url,
    root_pem: authority.root_pem,
    account_seed: new Uint8Array(32).fill(3),
    names: [NAME],
    limits: { ...LIMITS, ...limits },
    solver: {
      type: 'dns-01',
      async present(challenge) {
        presented.push(challenge)
        return async () => void taken.push(challenge)
      },
    },
  })
  return { order, presented, taken }
}

async function failure(order: Promise<unknown>): Promise<string> {
  try {
    await order
  } catch (error) {
    expect(error).toBeInstanceOf(AcmeFailure)
    return (error as AcmeFailure).message
  }
  return 'issued'
}

test('an authority that keeps the protocol issues for a fresh key each time, and each request is signed once', async () => {
  const { order, presented, taken } = issue(() => undefined)
  const certificate = await order
  expect(certificate.account_url).toBe(authority.directory_url.replace('directory', 'account/1'))
  expect(new X509Certificate(certificate.cert_pem).subjectAltName).toBe(`DNS:${NAME}`)
  expect(presented.length).toBe(1)
  expect(presented[0]!.key_authorization).toMatch(/^a-token-of-the-authority\.[A-Za-z0-9_-]{43}$/)
  expect(taken).toEqual(presented)
  const headers = authority.asked.map(({ header }) => header)
  expect(new Set(headers.map(({ nonce }) => nonce)).size).toBe(headers.length)
  for (const { url, header } of authority.asked) expect(header['url']).toBe(url)
  // The key goes out once; from then on the account names it.
  expect(headers.map((header) => 'jwk' in header)).toEqual([true, ...headers.slice(1).map(() => false)])
})

test('the account key is the same for the same seed and another for another', async () => {
  const { accountKey } = await import('../../../enclave/acme/signed_requests')
  const [one, again, other] = [3, 3, 4].map((fill) => accountKey(new Uint8Array(32).fill(fill)))
  expect(again!.jwk).toEqual(one!.jwk)
  expect(other!.thumbprint).not.toBe(one!.thumbprint)
})

test('the wait that an authority asks for is kept', async () => {
  const looks: number[] = []
  const { order } = issue(
    (path) => {
      if (path !== 'order') return undefined
      looks.push(performance.now())
      return looks.length === 1 ? answer({ status: 'processing' }, 200, { 'retry-after': '1' }) : undefined
    },
    {},
    { decision_ms: 20_000 },
  )
  await order
  expect(looks[1]! - looks[0]!).toBeGreaterThan(990)
})

test('an interface of the DNS that rejects, hangs or is not there is named as such', async () => {
  const own = generateTls([], Date.now())
  const never = Promise.withResolvers<Response>()
  const api = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: own.cert_pem, key: own.key_pem },
    fetch: ({ url }) => {
      if (url.includes('/hangs/')) return never.promise
      return new Response('', { status: url.includes('/rejects/') ? 500 : 200 })
    },
  })
  const present = async (path: string) => {
    const url = `https://127.0.0.1:${api.port}/${path}`
    const solver = dnsSolver({ url, credentials: '', record_name: '', root_pem: own.cert_pem, call_ms: 500 })
    return failure(solver.present({ name: NAME, key_authorization: 'a.b' }))
  }
  expect(await present('takes')).toBe('issued')
  expect(await present('rejects')).toBe('ACME dns: status')
  expect(await present('hangs')).toBe('ACME dns: timeout')
  await api.stop(true)
  expect(await present('takes')).toBe('ACME dns: connection')
})

const on = (path: string, response: (origin: string) => Response): Bend => {
  return (asked_path, _asked, origin) => (asked_path === path ? response(origin) : undefined)
}

describe('an authority fails the order when', () => {
  const bends: [string, string, Bend][] = [
    [
      'its directory leads out of TLS',
      'directory: shape',
      on('directory', (origin) => {
        const plain = origin.replace('https', 'http')
        return answer({ newNonce: `${plain}/n`, newAccount: `${origin}/a`, newOrder: `${origin}/o` })
      }),
    ],
    ['its directory is no directory', 'directory: shape', on('directory', () => new Response('<html>'))],
    [
      'it redirects',
      'directory: connection',
      on('directory', (origin) => Response.redirect(`${origin}/other`)),
    ],
    ['it answers without end', 'directory: shape', on('directory', () => new Response('x'.repeat(300_000)))],
    ['it gives no nonce', 'nonce: shape', on('nonce', () => new Response(null))],
    ['it refuses every nonce', 'account: badNonce', on('account', () => problem('badNonce'))],
    [
      'it refuses the account',
      'account: externalAccountRequired',
      on('account', () => problem('externalAccountRequired', 403)),
    ],
    ['it names no account', 'account: shape', on('account', () => answer({}, 201))],
    ['it limits the rate', 'order: rateLimited', on('order-new', () => problem('rateLimited', 429))],
    [
      'its error has a type of its own',
      'order: status',
      on('order-new', () => answer({ type: 'x y <b>' }, 500)),
    ],
    [
      'it asks for more proofs than names',
      'order: shape',
      on('order-new', (origin) =>
        answer({ authorizations: [`${origin}/a`, `${origin}/b`] }, 201, { location: `${origin}/order` }),
      ),
    ],
    [
      'it asks to prove another name',
      'challenge: shape',
      on('authorization', (origin) =>
        answer({
          status: 'pending',
          identifier: { type: 'dns', value: 'other.example.org' },
          challenges: [{ type: 'dns-01', url: `${origin}/challenge`, token: 'a-token-of-the-authority' }],
        }),
      ),
    ],
    [
      'its token is not one',
      'challenge: shape',
      on('authorization', (origin) =>
        answer({
          status: 'pending',
          identifier: { type: 'dns', value: NAME },
          challenges: [{ type: 'dns-01', url: `${origin}/challenge`, token: 'a token.with\nmore' }],
        }),
      ),
    ],
    [
      'it does not offer the challenge',
      'challenge: not offered',
      on('authorization', () =>
        answer({
          status: 'pending',
          identifier: { type: 'dns', value: NAME },
          challenges: [{ type: 'http-01' }],
        }),
      ),
    ],
    ['it refuses the request', 'finalize: badCSR', on('finalize', () => problem('badCSR'))],
    [
      'it issues for another key',
      'certificate: key',
      on(
        'certificate',
        () => new Response(foreignCertificate([NAME], Date.now()), { headers: { 'replay-nonce': 'n' } }),
      ),
    ],
    ['what it issues is no certificate', 'certificate: shape', on('certificate', () => answer({}))],
  ]
  for (const [why, expected, bend] of bends)
    test(why, async () => {
      const { order } = issue(bend)
      expect(await failure(order)).toBe(`ACME ${expected}`)
    })

  test('what it issues is for other names or has ended', async () => {
    const names = issue(() => undefined, { names: ['other.example.org'] })
    expect(await failure(names.order)).toBe('ACME certificate: names')
    await authority.close()
    const ended = issue(() => undefined, { days: -0.5 })
    expect(await failure(ended.order)).toBe('ACME certificate: time')
  })

  test('it never decides', async () => {
    const { order, presented, taken } = issue((path, _asked, origin) =>
      path === 'authorization'
        ? answer({
            status: 'pending',
            identifier: { type: 'dns', value: NAME },
            challenges: [{ type: 'dns-01', url: `${origin}/challenge`, token: 'a-token-of-the-authority' }],
          })
        : undefined,
    )
    expect(await failure(order)).toBe('ACME challenge: timeout')
    // The answer is taken away also after a failure.
    expect(taken).toEqual(presented)
  })

  test('its certificate is of an authority nobody named', async () => {
    authority = openAuthority(() => undefined)
    const other = openAuthority(() => undefined)
    const order = issueCertificate({
      directory_url: authority.directory_url,
      root_pem: other.root_pem,
      account_seed: new Uint8Array(32),
      names: [NAME],
      solver: { type: 'dns-01', present: async () => async () => undefined },
    })
    expect(await failure(order)).toBe('ACME directory: connection')
    await other.close()
  })
})

test('a nonce that is refused now and then costs a request, not the certificate', async () => {
  let refused = 0
  const { order } = issue((path) => {
    if (path !== 'order-new' || refused === 3) return undefined
    refused += 1
    return problem('badNonce')
  })
  await order
  expect(refused).toBe(3)
})
