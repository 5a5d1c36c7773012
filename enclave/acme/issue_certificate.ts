/**
 * Obtains a certificate by ACME (RFC 8555): account, order, one challenge per name, finalize. Written here because existing
 * libraries would add fifty packages to an image that is meant to be audited.
 */

import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { concatBytes, equalBytes, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { derOfPem, pemOfDer } from '../../protocol/x509/certificate'
import { KEY_PATHS, type TlsMaterial } from '../contract'
import * as der from '../der'
import { ACME_LIMITS, ACME_RETRY_AFTER_MAX_MS, type AcmeLimits, CHAIN_CERTIFICATES_MAX } from '../limits'
import * as x509 from '../x509'
import {
  type AccountKey,
  type AcmeAnswer,
  AcmeFailure,
  accountKey,
  base64url,
  problemOf,
  SignedRequests,
} from './signed_requests'

const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'

/** DER of a certificate signing request (RFC 2986) for a P-256 key. The names are in the extension; the subject is empty. */
function certificateRequest(names: readonly string[], key: KeyObject): Uint8Array {
  const extensions = der.sequence(x509.subjectAlternativeNames(names))
  const info = der.sequence(
    der.smallInteger(0),
    der.sequence(),
    x509.spkiOf(key),
    der.explicit(0, der.sequence(der.oid(EXTENSION_REQUEST), der.set(extensions))),
  )
  return x509.signedSequence(info, key)
}

const ACME_IDENTIFIER = '1.3.6.1.5.5.7.1.31'
const DAY_MS = 86_400_000

type ChallengeCertificate = { cert_pem: string; key_pem: string }

/** The certificate that answers a TLS-ALPN-01 challenge: it only proves control of the name. */
export function challengeCertificate(
  name: string,
  key_authorization: string,
  now_ms: number,
): ChallengeCertificate {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = { common_name: name.slice(0, 64), organization: 'ACME challenge' }
  const certificate = x509.issueCertificate({
    subject,
    issuer: subject,
    subject_key: privateKey,
    issuer_key: privateKey,
    serial: x509.randomSerial(),
    not_before_ms: now_ms - DAY_MS,
    not_after_ms: now_ms + DAY_MS,
    extensions: [
      x509.basicConstraints(false),
      x509.keyUsage(0),
      x509.subjectAlternativeNames([name]),
      x509.extension(ACME_IDENTIFIER, true, der.octets(sha256(utf8(key_authorization)))),
    ],
  })
  return {
    cert_pem: pemOfDer(certificate, 'CERTIFICATE'),
    key_pem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

export type IssuedCertificate = TlsMaterial & { not_before_ms: number; account_url: string }
/** As issued and as stored. */
type CertificateText = Pick<IssuedCertificate, 'cert_pem' | 'key_pem' | 'account_url'>

/**
 * Accepts a certificate only for our key and all our names, valid now.
 * @throws AcmeFailure `certificate` with `shape`, `key`, `names` or `time`.
 */
export function issuedCertificate(
  { cert_pem, key_pem, account_url }: CertificateText,
  names: readonly string[],
  now_ms: number,
): IssuedCertificate {
  const chain = derOfPem(cert_pem, 'CERTIFICATE')
  if (chain === undefined || chain.length === 0 || chain.length > CHAIN_CERTIFICATES_MAX)
    throw new AcmeFailure('certificate', 'shape')
  const leaf = parsed(chain[0]!)
  const spki = x509.spkiOf(createPrivateKey(key_pem))
  if (!equalBytes(x509.spkiOf(leaf.publicKey), spki)) throw new AcmeFailure('certificate', 'key')
  const certified = new Set((leaf.subjectAltName ?? '').split(', '))
  if (!names.every((name) => certified.has(`DNS:${name}`))) throw new AcmeFailure('certificate', 'names')
  const [not_before_ms, not_after_ms] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)]
  // Also rejects dates that do not parse (NaN).
  if (!(not_before_ms < not_after_ms && now_ms < not_after_ms)) throw new AcmeFailure('certificate', 'time')
  return { cert_pem, key_pem, account_url, spki_sha256: sha256(spki), not_before_ms, not_after_ms }
}

function parsed(der: Uint8Array): X509Certificate {
  try {
    return new X509Certificate(der)
  } catch {
    throw new AcmeFailure('certificate', 'shape')
  }
}

const [NONCE_BYTES, TAG_BYTES] = [12, 16]

/** Stores certificate and key across restarts, sealed under a key of this app, because authorities limit issuance. */
export type SealedStore = {
  path: string
  /** 32 bytes, used only for this. */
  key: Uint8Array
  /** Authenticated with the file, like `names`: it does not open for others. */
  directory_url: string
  names: readonly string[]
}

/** AES-256-GCM with a random nonce; the file is replaced atomically. */
export function sealCertificate(store: SealedStore, certificate: IssuedCertificate): void {
  const nonce = randomBytes(NONCE_BYTES)
  const { cert_pem, key_pem, account_url } = certificate
  const cipher = createCipheriv('aes-256-gcm', store.key, nonce)
  cipher.setAAD(context(store))
  const sealed = concatBytes(
    cipher.update(utf8(JSON.stringify({ cert_pem, key_pem, account_url }))),
    cipher.final(),
  )
  mkdirSync(dirname(store.path), { recursive: true, mode: 0o700 })
  writeFileSync(`${store.path}.new`, concatBytes(nonce, sealed, cipher.getAuthTag()), { mode: 0o600 })
  renameSync(`${store.path}.new`, store.path)
}

/** Undefined when the file is missing or damaged, was sealed for another directory or names, or the certificate has expired. */
export function unsealCertificate(store: SealedStore, now_ms: number): IssuedCertificate | undefined {
  if (!existsSync(store.path)) return undefined
  const bytes = new Uint8Array(readFileSync(store.path))
  if (bytes.length <= NONCE_BYTES + TAG_BYTES) return undefined
  try {
    const decipher = createDecipheriv('aes-256-gcm', store.key, bytes.subarray(0, NONCE_BYTES))
    decipher.setAAD(context(store))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    const opened = concatBytes(decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final())
    return issuedCertificate(JSON.parse(Buffer.from(opened).toString('utf8')), store.names, now_ms)
  } catch (error) {
    if (error instanceof AcmeFailure || (error as Error).name === 'Error') return undefined
    throw error
  }
}

/** Additional authenticated data: the path of the sealing key, the directory and the names. */
function context({ directory_url, names }: SealedStore): Uint8Array {
  return utf8(JSON.stringify([KEY_PATHS.acme_certificate, directory_url, ...names]))
}

export type Challenge = {
  /** DNS name to prove. */
  name: string
  /** Token and key thumbprint (RFC 8555 section 8.1). */
  key_authorization: string
}
export interface ChallengeSolver {
  readonly type: 'tls-alpn-01' | 'dns-01'
  /** Resolves when the answer is visible from outside; the returned function removes it. */
  present(challenge: Challenge): Promise<() => Promise<void>>
}
type AcmeOrder = {
  directory_url: string
  /** Trusted instead of the public authorities, PEM: for a private directory. */
  root_pem?: string
  /** 32 bytes that determine the account. */
  account_seed: Uint8Array
  names: readonly string[]
  solver: ChallengeSolver
  limits?: Partial<AcmeLimits>
}
type Step = {
  requests: SignedRequests
  account_url: string
  key: AccountKey
  solver: ChallengeSolver
  limits: AcmeLimits
}

/** A new P-256 key and the chain issued for it. @throws AcmeFailure */
export async function issueCertificate(order: AcmeOrder): Promise<IssuedCertificate> {
  const limits = { ...ACME_LIMITS, ...order.limits }
  const key = accountKey(order.account_seed)
  const requests = await SignedRequests.open(order.directory_url, key, limits.call_ms, order.root_pem)
  const account_url = await requests.openAccount()
  const step: Step = { requests, account_url, key, solver: order.solver, limits }
  const identifiers = order.names.map((value) => ({ type: 'dns', value }))
  const created = await requests.post('order', requests.directory.newOrder, { identifiers })
  const order_url = created.headers.get('location')
  const { authorizations } = created.json
  if (!Array.isArray(authorizations) || authorizations.length > order.names.length)
    throw new AcmeFailure('order', 'shape')
  // Sequential: names may share a challenge record or a port.
  for (const url of authorizations) await authorize(step, url, order.names)
  return finalize(step, order_url, created, order.names)
}

async function authorize(step: Step, url: unknown, names: readonly string[]): Promise<void> {
  const { requests, key, solver } = step
  const { json } = await requests.post('order', url)
  if (json['status'] === 'valid') return
  const name = (json['identifier'] as { value?: unknown } | undefined)?.value
  const offered = (Array.isArray(json['challenges']) ? json['challenges'] : []) as Record<string, unknown>[]
  const challenge = offered.find(({ type }) => type === solver.type)
  if (challenge === undefined) throw new AcmeFailure('challenge', 'not offered')
  const { token } = challenge
  if (typeof name !== 'string' || !names.includes(name)) throw new AcmeFailure('challenge', 'shape')
  if (typeof token !== 'string' || !/^[A-Za-z0-9_-]{16,256}$/.test(token))
    throw new AcmeFailure('challenge', 'shape')
  const remove = await solver.present({ name, key_authorization: `${token}.${key.thumbprint}` })
  try {
    await requests.post('challenge', challenge['url'], {})
    await decided(step, 'challenge', url, 'valid')
  } finally {
    // A record that remains is harmless, so this must not fail the order.
    await remove().catch(() => undefined)
  }
}

async function finalize(
  step: Step,
  order_url: string | null,
  created: AcmeAnswer,
  names: readonly string[],
): Promise<IssuedCertificate> {
  const { requests, account_url } = step
  await decided(step, 'order', order_url, 'ready')
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const csr = base64url(certificateRequest(names, privateKey))
  await requests.post('finalize', created.json['finalize'], { csr })
  const { json } = await decided(step, 'finalize', order_url, 'valid')
  const { text } = await requests.post('certificate', json['certificate'])
  const key_pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  return issuedCertificate({ cert_pem: text, key_pem, account_url }, names, Date.now())
}

/** Polls until the status is `wanted`. @throws AcmeFailure when it ends in another status, or takes too long. */
async function decided(step: Step, what: string, url: unknown, wanted: string): Promise<AcmeAnswer> {
  const { requests, limits } = step
  const until = performance.now() + limits.decision_ms
  for (;;) {
    const answer = await requests.post(what, url)
    const { status } = answer.json
    if (status === wanted || status === 'valid') return answer
    if (status !== 'pending' && status !== 'processing' && status !== 'ready')
      throw new AcmeFailure(what, errorOf(answer))
    if (performance.now() > until) throw new AcmeFailure(what, 'timeout')
    const asked_s = Number(answer.headers.get('retry-after') ?? 0)
    await Bun.sleep(
      Math.max(limits.poll_ms, Math.min(asked_s > 0 ? asked_s * 1000 : 0, ACME_RETRY_AFTER_MAX_MS)),
    )
  }
}

function errorOf({ json }: AcmeAnswer): string {
  const challenges = (Array.isArray(json['challenges']) ? json['challenges'] : []) as Record<
    string,
    unknown
  >[]
  const failed = [json, ...challenges].find(({ error }) => typeof error === 'object' && error !== null)
  return failed === undefined ? 'invalid' : problemOf({ json: failed['error'] as Record<string, unknown> })
}

type DnsApi = {
  /** https, without `/present`. */
  url: string
  /** `user:password`, or empty. Use an account that can write only challenge records, in a delegated zone. */
  credentials: string
  /** Target of the CNAME of `_acme-challenge.NAME`; empty writes `_acme-challenge.NAME` itself. */
  record_name: string
  /** Trusted instead of the public authorities, PEM. */
  root_pem?: string
  /** Longest wait for an answer. */
  call_ms: number
}

/**
 * Answers DNS-01 challenges through an HTTP API of the operator, in the format known to ACME clients as `httpreq`:
 * `POST URL/present` and `POST URL/cleanup` with `{"fqdn", "value"}` and basic authentication.
 */
export function dnsSolver(api: DnsApi): ChallengeSolver {
  return {
    type: 'dns-01',
    async present({ name, key_authorization }) {
      const record = api.record_name === '' ? `_acme-challenge.${name}` : api.record_name
      const value = createHash('sha256').update(key_authorization).digest('base64url')
      await call(api, 'present', `${record}.`, value)
      return () => call(api, 'cleanup', `${record}.`, value)
    },
  }
}

async function call(api: DnsApi, operation: string, fqdn: string, value: string): Promise<void> {
  const { url, credentials, root_pem, call_ms } = api
  const authorization = `Basic ${Buffer.from(credentials).toString('base64')}`
  let ok = false
  try {
    const answer = await fetch(`${url.replace(/\/$/, '')}/${operation}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(credentials === '' ? {} : { authorization }) },
      body: JSON.stringify({ fqdn, value }),
      redirect: 'error',
      signal: AbortSignal.timeout(call_ms),
      ...(root_pem === undefined ? {} : { tls: { ca: root_pem } }),
    })
    ok = answer.ok
    await answer.body?.cancel()
  } catch (error) {
    throw new AcmeFailure('dns', (error as Error).name === 'TimeoutError' ? 'timeout' : 'connection')
  }
  if (!ok) throw new AcmeFailure('dns', 'status')
}
