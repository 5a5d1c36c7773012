/** Checks that several commands share: signer, expiry, nonce, note, capacity. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import type { NoteFact } from '../../commands'
import { LIMITS } from '../../limits'
import { newList } from '../../memory/handle_list'
import type { Account, TradingKey } from '../state/account'
import type { Note } from '../state/note'
import { type Env, type RefusedOutcome, refuse } from '../state/outcome'
import { type State, settingsOf } from '../state/state'

// Who may sign for whom: trading keys stay with the account that used them first.

export type Signer = {
  ok: true
  account: Account
  /** base58 of the trading key. */
  text: string
  bytes: Uint8Array
  /** Undefined until the first accepted command binds it. */
  key: TradingKey | undefined
}

/** @throws Error for an account without a record: sessions exist only for accounts. */
export function accountOf(state: State, account_id: string): Account {
  const account = state.accounts.get(account_id)
  if (account === undefined) throw new Error('a command names an account without a record')
  return account
}

/** Refuses `key_bound`. */
export function checkSigner(state: State, account_id: string, bytes: Uint8Array): Signer | RefusedOutcome {
  const account = accountOf(state, account_id)
  const place = state.key_index.indexOf(bytes)
  const key = place === undefined ? undefined : state.key_list[place]
  if (key !== undefined && key.account !== account) return refuse('key_bound')
  return { ok: true, account, text: key?.text ?? encodeBase58(bytes), bytes, key }
}

/** Makes a key known; keys come in the order of their index. */
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

// How near and how far an expiry slot may lie.

/** Refuses `expiry_too_soon` before `first_slot` and `expiry_too_far` beyond the longest life of an order. */
export function checkExpiry(
  state: State,
  expiry_slot: number,
  first_slot: number,
): RefusedOutcome | undefined {
  if (expiry_slot < first_slot) return refuse('expiry_too_soon')
  if (expiry_slot > state.slot + settingsOf(state).order_life_slots_max) return refuse('expiry_too_far')
  return undefined
}

// The two counters of a trading key: what creates notes shares one, what cancels the other.

/** Refuses `nonce_stale` with `nonce_last` unless the nonce is above every accepted one of its counter. */
export function checkNonce(
  key: TradingKey | undefined,
  counter: 'place_nonce' | 'cancel_nonce',
  nonce: bigint,
): RefusedOutcome | undefined {
  const last = key === undefined ? 0n : key[counter]
  return nonce > last ? undefined : refuse('nonce_stale', { nonce_last: last.toString() })
}

// Whether a note can back a command: known or opened, owned, of the right mint, unspent and unused.

/** What an opening shows of a note that is not in the state yet. */
export type OpenedNote = {
  owner: string
  mint: number
  amount: bigint
  commitment: Uint8Array
  blinding: Uint8Array
  nullifier: Uint8Array
  leaf_index: number
}
/** Applying the command makes a `fresh` note known. */
export type NoteFound = { ok: true; note: Note; fresh: false } | { ok: true; note: OpenedNote; fresh: true }

type Wanted = {
  commitment: Uint8Array
  opening: NoteFact | undefined
  /** base58 of the signing key. */
  owner: string
  /** Index of the mint it must have; undefined = any configured mint. */
  mint: number | undefined
  /** A note in use that this command itself releases (modify). */
  released?: Note | undefined
}

/**
 * Refuses, in this order, `note_unknown`, `note_not_owned`, `note_wrong_mint`, `note_spent` and `note_in_use`
 * (protocol.md "Order of checks").
 */
export function checkNote(state: State, wanted: Wanted): NoteFound | RefusedOutcome {
  const known = state.notes.find(wanted.commitment)
  if (known === undefined) return checkForgotten(state, wanted) ?? checkOpening(state, wanted)
  if (known.owner !== wanted.owner) return refuse('note_not_owned')
  if (wanted.mint !== undefined && known.mint !== wanted.mint) return refuse('note_wrong_mint')
  if (known.status === 'spent') return refuse('note_spent')
  if (known.status !== 'free' && !known.is(wanted.released)) return refuse('note_in_use')
  return { ok: true, note: known, fresh: false }
}

/** A note that a finalized batch spent is dropped from memory; only who owned it is kept. */
function checkForgotten(state: State, wanted: Wanted): RefusedOutcome | undefined {
  const leaf_index = state.leaves.indexOf(wanted.commitment)
  const owner = leaf_index === undefined ? 0 : (state.spent_owners[leaf_index] ?? 0)
  if (owner === 0) return undefined
  return refuse(state.keys.get(wanted.owner)?.index === owner - 1 ? 'note_spent' : 'note_not_owned')
}

function checkOpening(state: State, wanted: Wanted): NoteFound | RefusedOutcome {
  const { commitment, opening } = wanted
  // The commitment of an opening covers the signing key as owner, so a foreign note never opens.
  if (opening === undefined || !equalBytes(opening.commitment, commitment)) return refuse('note_unknown')
  const leaf_index = leafOf(state, opening)
  if (leaf_index === undefined) return refuse('note_unknown')
  const mint = state.mints.findIndex((one) => equalBytes(one.bytes, opening.mint))
  if (mint === -1 || (wanted.mint !== undefined && mint !== wanted.mint)) return refuse('note_wrong_mint')
  if (state.nullifiers.has(opening.nullifier)) return refuse('note_spent')
  if (state.settlement.exits.has(opening.nullifier.toHex())) return refuse('note_in_use')
  const { amount, blinding, nullifier } = opening
  const note = { owner: wanted.owner, mint, amount, commitment, blinding, nullifier, leaf_index }
  return { ok: true, note, fresh: true }
}

/** Where the opened note stands among the finalized leaves: where it says (deposit form), else anywhere. */
function leafOf(state: State, opening: NoteFact): number | undefined {
  if (opening.leaf_index === undefined) return state.leaves.indexOf(opening.commitment)
  if (opening.leaf_index >= state.leaves.size) return undefined
  return equalBytes(state.leaves.at(opening.leaf_index), opening.commitment) ? opening.leaf_index : undefined
}

// Whether the venue can take a command at all just now: the last checks, all answered 503.

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
