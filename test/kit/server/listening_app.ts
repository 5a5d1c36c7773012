/** An app whose liveness and fills stream work and nothing else is asked of it. */
import type { Enclave } from '../../../enclave/contract'
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
