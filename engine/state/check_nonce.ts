/** The two counters of a trading key: what creates notes shares one, what cancels the other. */
import type { TradingKey } from './account'
import { type RefusedOutcome, refuse } from './outcome'

/** Refuses `nonce_stale` with `nonce_last` unless the nonce is above every accepted one of its counter. */
export function checkNonce(
  key: TradingKey | undefined,
  counter: 'place_nonce' | 'cancel_nonce',
  nonce: bigint,
): RefusedOutcome | undefined {
  const last = key === undefined ? 0n : key[counter]
  return nonce > last ? undefined : refuse('nonce_stale', { nonce_last: last.toString() })
}
