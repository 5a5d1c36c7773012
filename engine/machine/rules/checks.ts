/** Checks that several commands share: signer, expiry, nonce, availability and capacity; binds trading keys. */

import { encodeBase58 } from '../../../protocol/base58'
import type { SlotNumber } from '../../../protocol/units'
import { LIMITS } from '../../limits'
import { newList } from '../../memory/rows'
import { type Account, keyOf, type TradingKey } from '../state/account'
import { type Env, type RefusedOutcome, refuse } from '../state/outcome'
import { type State, settingsOf } from '../state/state'

export type Signer = {
  ok: true
  account: Account
  /** base58 of the trading key. */
  text: string
  bytes: Uint8Array
  /** Undefined until the first accepted command binds it. */
  key: TradingKey | undefined
}

/** @throws Error for an account without a record, which has no sessions */
export function accountOf(state: State, account_id: string): Account {
  const account = state.accounts.get(account_id)
  if (account === undefined) throw new Error('a command names an account without a record')
  return account
}

/** Refuses `key_bound`: a trading key belongs to the first account that used it. */
export function checkSigner(state: State, account_id: string, bytes: Uint8Array): Signer | RefusedOutcome {
  const account = accountOf(state, account_id)
  const key = keyOf(state, bytes)
  if (key !== undefined && key.account !== account) return refuse('key_bound')
  return { ok: true, account, text: key?.text ?? encodeBase58(bytes), bytes, key }
}

/** Keys must be added in the order of their index. */
export function addKey(state: State, key: TradingKey): void {
  state.keys.set(key.text, key)
  state.key_index.append(key.bytes)
  state.key_list.push(key)
}

/** The key of a signer, bound now if this is its first accepted command. */
export function bindKey(state: State, signer: Signer): TradingKey {
  const known = signer.key ?? state.keys.get(signer.text)
  if (known !== undefined) return known
  const key: TradingKey = {
    index: state.keys.size,
    bytes: signer.bytes,
    text: signer.text,
    account: signer.account,
    place_nonce: 0n,
    cancel_nonce: 0n,
    dead_man_slot: 0,
    orders: newList(),
  }
  addKey(state, key)
  signer.account.keys.push(key)
  return key
}

/** Refuses `expiry_too_soon` before `first_slot` and `expiry_too_far` beyond the maximum life of an order. */
export function checkExpiry(
  state: State,
  expiry_slot: SlotNumber,
  first_slot: SlotNumber,
): RefusedOutcome | undefined {
  if (expiry_slot < first_slot) return refuse('expiry_too_soon')
  if (expiry_slot > state.slot + settingsOf(state).order_life_slots_max) return refuse('expiry_too_far')
  return undefined
}

/**
 * Refuses `nonce_stale` with `nonce_last` unless the nonce exceeds all accepted ones of its counter. Commands that create
 * notes share one counter of the key, commands that cancel the other.
 */
export function checkNonce(
  key: TradingKey | undefined,
  counter: 'place_nonce' | 'cancel_nonce',
  nonce: bigint,
): RefusedOutcome | undefined {
  const last = key === undefined ? 0n : key[counter]
  return nonce > last ? undefined : refuse('nonce_stale', { nonce_last: last.toString() })
}

/** Refuses `matching_unavailable` while the venue is halted, then the code of `env`. */
export function checkSubsystems(state: State, env: Env): RefusedOutcome | undefined {
  if (state.halted !== undefined) return refuse('matching_unavailable', { subsystem: 'matching' })
  if (env.unavailable === undefined) return undefined
  const subsystem = { matching_unavailable: 'matching', settlement_unavailable: 'settlement' }[
    env.unavailable as string
  ]
  return refuse(env.unavailable, subsystem === undefined ? {} : { subsystem })
}

/** Refuses `reopening` while the venue takes no new orders after a stall of the chain. */
export function checkReopened({ slot, reopens_slot }: State): RefusedOutcome | undefined {
  return slot < reopens_slot ? refuse('reopening', { reopens_slot }) : undefined
}

/**
 * Refuses `account_order_limit`; the command itself removes `released` orders. The bounds of all accounts add up to at most
 * the venue's, so no refusal depends on the orders of others.
 */
export function checkOrderLimit({ account }: Signer, released: number): RefusedOutcome | undefined {
  return account.live - released >= account.limits.orders_live_max ? refuse('account_order_limit') : undefined
}

/**
 * Refuses `commit_undecided` when as many commands of the account wait for the decision as it may have, or has, live orders:
 * a lower limit stops no cancel.
 */
export function checkWaiting({ closed }: State, account: Account): RefusedOutcome | undefined {
  const most = Math.max(account.limits.orders_live_max, account.live)
  return closed !== undefined && closed.countOf(account) >= most ? refuse('commit_undecided') : undefined
}

/** Refuses `account_key_limit` if the key is not bound yet and there is no room for `fresh` more keys. */
export function checkKeyLimit(signer: Signer, fresh = 1): RefusedOutcome | undefined {
  if (signer.key !== undefined) return undefined
  const { keys, limits } = signer.account
  return keys.length + fresh > limits.keys_max ? refuse('account_key_limit') : undefined
}

export function checkBacklog(state: State): RefusedOutcome | undefined {
  const { unlanded, waiting } = state.settlement
  const full = unlanded > LIMITS.unlanded_place_max || waiting.length >= LIMITS.payments_waiting_max
  return full ? refuse('settlement_backlog', { subsystem: 'settlement' }) : undefined
}
