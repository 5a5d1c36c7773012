/**
 * Obtains a certificate by ACME (RFC 8555): account, order, one challenge per name, finalize. Written here because existing
 * libraries would add fifty packages to an image that is meant to be audited.
 */
import { createHash, generateKeyPairSync } from 'node:crypto'
import { ACME_LIMITS, ACME_RETRY_AFTER_MAX_MS, type AcmeLimits } from '../limits'
import { certificateRequest, type IssuedCertificate, issuedCertificate } from './certificates'
import {
  type AccountKey,
  type AcmeAnswer,
  AcmeFailure,
  accountKey,
  base64url,
  problemOf,
  SignedRequests,
} from './signed_requests'

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
