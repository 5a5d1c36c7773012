/** Whether the venue can take a command at all just now: the last checks, all answered 503. */
import { LIMITS } from '../limits'
import type { Signer } from './check_signer'
import { type Env, type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

/** Refuses what `env` says first, then `matching_unavailable` while the venue is halted. */
export function checkSubsystems(state: State, env: Env): RefusedOutcome | undefined {
  if (state.halted !== undefined) return refuse('matching_unavailable', { subsystem: 'matching' })
  if (env.unavailable === undefined) return undefined
  const subsystem = { matching_unavailable: 'matching', settlement_unavailable: 'settlement' }[
    env.unavailable as string
  ]
  return refuse(env.unavailable, subsystem === undefined ? {} : { subsystem })
}

/** Refuses `order_limit`; `released` orders leave with this command. */
export function checkOrderLimit(state: State, signer: Signer, released: number): RefusedOutcome | undefined {
  if (state.orders.size - released >= LIMITS.orders_live_max) return refuse('order_limit')
  if (signer.account.live - released >= signer.account.orders_live_max) return refuse('order_limit')
  return undefined
}

/** Refuses `key_limit` for a key that would be bound now. */
export function checkKeyLimit(signer: Signer, fresh = 1): RefusedOutcome | undefined {
  if (signer.key !== undefined) return undefined
  return signer.account.keys.length + fresh > signer.account.keys_max ? refuse('key_limit') : undefined
}

/** Refuses `settlement_backlog`. */
export function checkBacklog(state: State): RefusedOutcome | undefined {
  const { unlanded, waiting } = state.settlement
  const full = unlanded > LIMITS.unlanded_place_max || waiting.length >= LIMITS.payments_waiting_max
  return full ? refuse('settlement_backlog', { subsystem: 'settlement' }) : undefined
}
