/** Listeners for tests: an app on a free port, and TLS material that nobody trusts. */
import { createHash, X509Certificate } from 'node:crypto'
import type { Enclave, TlsMaterial } from '../../../enclave/contract'
import { generateTls } from '../../../enclave/x509'
import type { Venue } from '../../../engine/venue'
import { type App, createApp } from '../../../server/edge/app'
import { openLog } from '../../../server/edge/log'
import { only, StandingClock, session } from './harness'

export function listeningApp(): App {
  const clock = new StandingClock()
  const venue = only<Venue>('venue', {
    time: () => ({ slot: 1, unix_ms: 2, slot_ms: 400 }),
    authenticate: () => session(clock),
    caughtUp: () => undefined,
    takeLimit: () => ({ capacity: 1, refill_per_s: 1, remaining: 1, retry_after_ms: 0 }),
    subscribe: async () => ({ seq_first: 1, seq_last: 0, seqNow: () => 0, renew() {}, close() {} }),
  })
  const log = openLog(() => undefined, clock.unixMs)
  return createApp({ venue, enclave: only<Enclave>('enclave', {}), options: { version: '1', clock, log } })
}

export function tlsMaterial(): TlsMaterial {
  return generateTls([], Date.now())
}

/** SHA-256 of a certificate's SubjectPublicKeyInfo, hex. */
export function spkiOf(certificate: string | Uint8Array): string {
  const { publicKey } = new X509Certificate(certificate)
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
}
