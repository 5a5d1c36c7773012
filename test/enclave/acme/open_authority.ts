/** An ACME authority that keeps the protocol except where a test bends it: each answer can be replaced by another. */
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import * as x509 from '../../../enclave/x509'
import { generateTls } from '../../../enclave/x509'
import { pemOfDer } from '../../../protocol/pem'

type Asked = { url: string; header: Record<string, unknown>; payload: unknown }
/** Undefined answers as the protocol has it. */
export type Bend = (path: string, asked: Asked | undefined, origin: string) => Response | undefined

export type Authority = {
  directory_url: string
  root_pem: string
  readonly asked: Asked[]
  close(): Promise<void>
}

const NAME = 'venue.example.org'
let nonces = 0
const HEADERS = () => ({ 'replay-nonce': `nonce-${nonces++}` })
export const answer = (body: object, status = 200, more: Record<string, string> = {}): Response =>
  Response.json(body, { status, headers: { ...HEADERS(), ...more } })
export const problem = (type: string, status = 400): Response =>
  answer({ type: `urn:ietf:params:acme:error:${type}`, detail: 'a sentence nobody repeats' }, status)

/** A certificate for another key than the one asked for. */
export function foreignCertificate(names: readonly string[], now_ms: number, days = 90): string {
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
export function openAuthority(bend: Bend, issue: { names?: string[]; days?: number } = {}): Authority {
  const own = generateTls([], Date.now())
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
