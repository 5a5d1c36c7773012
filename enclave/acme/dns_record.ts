/**
 * Answers DNS-01 challenges through an HTTP API of the operator, in the format known to ACME clients as `httpreq`:
 * `POST URL/present` and `POST URL/cleanup` with `{"fqdn", "value"}` and basic authentication.
 */

import { createHash } from 'node:crypto'
import type { ChallengeSolver } from './issue_certificate'
import { AcmeFailure } from './signed_requests'

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
