/** Errors of an ACME authority: each ends in a named failure, never in a certificate that was not asked for. */

import { afterEach, describe, expect, test } from 'bun:test'
import { createPublicKey, generateKeyPairSync, verify, X509Certificate } from 'node:crypto'
import {
  type Challenge,
  challengeCertificate,
  dnsSolver,
  issueCertificate,
} from '../../../enclave/acme/issue_certificate'
import { AcmeFailure } from '../../../enclave/acme/signed_requests'
import type { AcmeLimits } from '../../../enclave/limits'
import * as x509 from '../../../enclave/x509'
import { pemOfDer } from '../../../protocol/x509/certificate'

type Asked = { url: string; header: Record<string, unknown>; payload: unknown }
/** Undefined answers as the protocol has it. */
type Bend = (path: string, asked: Asked | undefined, origin: string) => Response | undefined

type Authority = {
  directory_url: string
  root_pem: string
  readonly asked: Asked[]
  close(): Promise<void>
}

const NAME = 'venue.example.org'
let nonces = 0
const HEADERS = () => ({ 'replay-nonce': `nonce-${nonces++}` })
const answer = (body: object, status = 200, more: Record<string, string> = {}): Response =>
  Response.json(body, { status, headers: { ...HEADERS(), ...more } })
const problem = (type: string, status = 400): Response =>
  answer({ type: `urn:ietf:params:acme:error:${type}`, detail: 'a sentence nobody repeats' }, status)

/** A certificate for another key than the one asked for. */
function foreignCertificate(names: readonly string[], now_ms: number, days = 90): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return certificateFor(privateKey, names, now_ms, days)
}

function certificateFor(
  key: Parameters<typeof x509.spkiOf>[0],
  names: readonly string[],
  now_ms: number,
  days: number,
): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = { common_name: 'test', organization: 'test' }
  const der = x509.issueCertificate({
    subject: name,
    issuer: name,
    subject_key: key,
    issuer_key: privateKey,
    serial: Uint8Array.of(1),
    not_before_ms: now_ms - 86_400_000,
    not_after_ms: now_ms + days * 86_400_000,
    extensions: [x509.subjectAlternativeNames(names)],
  })
  return pemOfDer(der, 'CERTIFICATE')
}

/** The key of a certificate request: its one P-256 SubjectPublicKeyInfo. */
function keyOf(csr: Uint8Array) {
  const prefix = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex')
  const at = Buffer.from(csr).indexOf(prefix)
  return createPublicKey({ key: Buffer.from(csr.subarray(at, at + 91)), format: 'der', type: 'spki' })
}

/** @param issue names and days of the certificate it issues. */
function openAuthority(bend: Bend, issue: { names?: string[]; days?: number } = {}): Authority {
  const own = x509.generateTls([], Date.now())
  const asked: Asked[] = []
  let jwk: object | undefined
  let certificate = ''
  let challenged = false
  const server: ReturnType<typeof Bun.serve> = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: own.cert_pem, key: own.key_pem },
    async fetch(request): Promise<Response> {
      const path = new URL(request.url).pathname.slice(1)
      const origin = `https://127.0.0.1:${server.port}`
      const one = request.method === 'POST' ? readSigned(request.url, await request.json()) : undefined
      if (one !== undefined) asked.push(one)
      return bend(path, one, origin) ?? usual(path, one, origin)
    },
  })
  function readSigned(url: string, body: { protected: string; payload: string; signature: string }): Asked {
    const header = JSON.parse(Buffer.from(body.protected, 'base64url').toString())
    jwk ??= header.jwk
    const key = createPublicKey({ key: jwk as never, format: 'jwk' })
    const signed = Buffer.from(`${body.protected}.${body.payload}`)
    const signature = Buffer.from(body.signature, 'base64url')
    if (!verify('sha256', signed, { key, dsaEncoding: 'ieee-p1363' }, signature)) throw new Error('forged')
    const payload =
      body.payload === '' ? undefined : JSON.parse(Buffer.from(body.payload, 'base64url').toString())
    return { url, header, payload }
  }
  function usual(path: string, one: Asked | undefined, origin: string): Response {
    const at = (name: string) => `${origin}/${name}`
    const order = (status: string) => ({
      status,
      authorizations: [at('authorization')],
      finalize: at('finalize'),
      certificate: at('certificate'),
    })
    if (path === 'directory')
      return answer({ newNonce: at('nonce'), newAccount: at('account'), newOrder: at('order-new') })
    if (path === 'account') return answer({}, 201, { location: at('account/1') })
    if (path === 'order-new') return answer(order('pending'), 201, { location: at('order') })
    if (path === 'authorization') {
      const challenges = [{ type: 'dns-01', url: at('challenge'), token: 'a-token-of-the-authority' }]
      const status = challenged ? 'valid' : 'pending'
      return answer({ status, identifier: { type: 'dns', value: NAME }, challenges })
    }
    if (path === 'challenge') challenged = true
    if (path === 'finalize') {
      const { csr } = one!.payload as { csr: string }
      const key = keyOf(Buffer.from(csr, 'base64url'))
      certificate = certificateFor(key, issue.names ?? [NAME], Date.now(), issue.days ?? 90)
    }
    if (path === 'order') return answer(order(certificate === '' ? 'ready' : 'valid'))
    if (path === 'certificate') return new Response(certificate, { headers: HEADERS() })
    return answer({})
  }
  return {
    directory_url: `https://127.0.0.1:${server.port}/directory`,
    root_pem: own.cert_pem,
    asked,
    close: () => server.stop(true),
  }
}

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
  // An account outlives builds.
  expect(one!.thumbprint).toBe('hR6vOpy731xBum1YO_ljD1qDzakrVaGNAZPHf8PUj7U')
})

test('a certificate that answers a challenge is of no authority, and its critical extensions say so', () => {
  const { cert_pem } = challengeCertificate(NAME, 'a.b', Date.now())
  const certificate = new X509Certificate(cert_pem)
  expect(certificate.subjectAltName).toBe(`DNS:${NAME}`)
  const hex = certificate.raw.toString('hex')
  // Basic constraints without a member, key usage, the challenge's own extension.
  for (const part of ['0603551d130101ff04023000', '0603551d0f0101ff', '06082b0601050507011f0101ff'])
    expect(hex).toContain(part)
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
  const own = x509.generateTls([], Date.now())
  const never = Promise.withResolvers<Response>()
  const records: string[] = []
  const api = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: own.cert_pem, key: own.key_pem },
    fetch: async (request) => {
      const { url } = request
      if (url.includes('/hangs/')) return never.promise
      records.push(((await request.json()) as { fqdn: string }).fqdn)
      return new Response('', { status: url.includes('/rejects/') ? 500 : 200 })
    },
  })
  const present = async (path: string, record_name = '') => {
    const url = `https://127.0.0.1:${api.port}/${path}`
    const solver = dnsSolver({ url, credentials: '', record_name, root_pem: own.cert_pem, call_ms: 500 })
    return failure(solver.present({ name: NAME, key_authorization: 'a.b' }))
  }
  expect(await present('takes')).toBe('issued')
  expect(await present('takes', 'proofs.example.net')).toBe('issued')
  expect(records).toEqual([`_acme-challenge.${NAME}.`, 'proofs.example.net.'])
  expect(await present('rejects')).toBe('ACME dns: status')
  expect(await present('hangs')).toBe('ACME dns: timeout')
  await api.stop(true)
  expect(await present('takes')).toBe('ACME dns: connection')
})

const on = (path: string, response: (origin: string) => Response): Bend => {
  return (asked_path, _asked, origin) => (asked_path === path ? response(origin) : undefined)
}

describe('an authority fails the order when', () => {
  let looks = 0
  const wrongProof = () => looks++ > 0
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
    [
      'it finds the proof wrong',
      'challenge: dns',
      (path, asked) =>
        path === 'authorization' && asked !== undefined && wrongProof()
          ? answer({
              status: 'invalid',
              identifier: { type: 'dns', value: NAME },
              challenges: [{ type: 'dns-01', error: { type: 'urn:ietf:params:acme:error:dns' } }],
            })
          : undefined,
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

  test('its certificate is for other names or has ended', async () => {
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

  test('its certificate is of an unnamed authority', async () => {
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
