/** Defines accounts, their credentials and the trading keys bound to them. */
import type { EventSeq, SlotNumber } from '../../../protocol/units'
import type * as wire from '../../../protocol/wire/trading'
import type { Credential, JournaledToken } from '../../commands'
import type { HandleList } from '../../memory/rows'
import type { PriceLevels } from './exposure'
import type { InstrumentState } from './instrument'
import type { State } from './state'

/** What `GET /account` lists of an `account.changed` event. */
export type Change = Pick<wire.AccountEvent, 'seq' | 'slot' | 'unix_ms'> & wire.AccountChange

/** Exists from its admission on. */
export type Account = {
  readonly account_id: string
  readonly account_key: Uint8Array
  /** Of the operator's newest record. */
  version: number
  state: wire.AdmissionRequest['state']
  limits: wire.AccountLimits
  /** The bound on live orders before it was lowered, which counts until the orders accepted under it have expired. */
  orders_held: { max: number; until_slot: SlotNumber }
  /** Of the newest credential body, a revoking one included. */
  credential_version: number
  credentials: (Credential & { created_slot: SlotNumber })[]
  /** In the order of their issue; one whose time has passed is removed when the next is issued. */
  tokens: Token[]
  /** The newest ones, oldest first. */
  changes: Change[]
  /** Number of the newest event; events are gapless from 1. */
  seq: EventSeq
  keys: TradingKey[]
  /** Live orders of all keys. */
  live: number
  /** Limit prices of live orders by instrument, for the self-cross check. */
  exposures: Map<InstrumentState, Exposure>
  /** Sockets with cancel-on-disconnect armed, the newest last. */
  armed: Set<string>
}

type Token = JournaledToken & Pick<Credential, 'credential_id'>

/** A trading key, bound to the account of its first accepted command until a rebind moves it. */
export type TradingKey = {
  /** Position in the order of binding. */
  readonly index: number
  readonly bytes: Uint8Array
  /** base58. */
  readonly text: string
  /** Changes by a rebind only. */
  account: Account
  place_nonce: bigint
  cancel_nonce: bigint
  /** Slot at which the dead-man timer fires; 0 = not armed. */
  dead_man_slot: SlotNumber
  /** Live orders, in the order of arrival. */
  readonly orders: HandleList
}

/** Numbers of live orders by limit price in ticks. */
type Exposure = { readonly buy: PriceLevels; readonly sell: PriceLevels }

export function newAccount(account_id: string, account_key: Uint8Array): Account {
  return {
    account_id,
    account_key,
    version: 0,
    state: 'active',
    limits: { rate_capacity: 1, rate_refill_per_s: 1, orders_live_max: 0, keys_max: 0 },
    orders_held: { max: 0, until_slot: 0 },
    credential_version: 0,
    credentials: [],
    tokens: [],
    changes: [],
    seq: 0,
    keys: [],
    live: 0,
    exposures: new Map(),
    armed: new Set(),
  }
}

/** The node whose socket has this name. */
export const nodeOf = (origin: string): string => origin.slice(0, origin.indexOf('.') + 1)

/** The bound trading key of these bytes. */
export function keyOf(
  { key_index, key_list }: Pick<State, 'key_index' | 'key_list'>,
  bytes: Uint8Array,
): TradingKey | undefined {
  const place = key_index.indexOf(bytes)
  return place === undefined ? undefined : key_list[place]
}
