/** Defines accounts and the trading keys bound to them, and applies the operator-signed records that create and change them. */
import type { EventSeq, SlotNumber } from '../../../protocol/units'
import type { CommandOf } from '../../commands'
import { LIMITS } from '../../limits'
import type { HandleList } from '../../memory/handle_list'
import type { InstrumentState } from './instrument'
import { type Answer, type RefusedOutcome, refuse } from './outcome'
import type { PriceLevels } from './price_levels'
import type { State } from './state'

/** Exists from its first accepted record on. */
export type Account = {
  readonly account_id: string
  version: number
  status: 'active' | 'suspended'
  orders_live_max: number
  keys_max: number
  record: Uint8Array
  /** Number of the newest event; events are gapless from 1. */
  seq: EventSeq
  keys: TradingKey[]
  /** Live orders of all keys. */
  live: number
  /** Limit prices of live orders by instrument, for the self-cross check. */
  exposures: Map<InstrumentState, Exposure>
  /** Sockets with cancel-on-disconnect armed. */
  armed: Set<string>
}

/** A trading key, bound for the whole generation to the account of its first accepted command. */
export type TradingKey = {
  /** Position in the order of binding. */
  readonly index: number
  readonly bytes: Uint8Array
  /** base58. */
  readonly text: string
  readonly account: Account
  place_nonce: bigint
  cancel_nonce: bigint
  /** Slot at which the dead-man timer fires; 0 = not armed. */
  dead_man_slot: SlotNumber
  /** Live orders, in the order of arrival. */
  readonly orders: HandleList
}

/** Numbers of live orders by limit price in ticks. */
type Exposure = { readonly buy: PriceLevels; readonly sell: PriceLevels }

export function newAccount(account_id: string): Account {
  return {
    account_id,
    version: 0,
    status: 'active',
    orders_live_max: 0,
    keys_max: 0,
    record: new Uint8Array(),
    seq: 0,
    keys: [],
    live: 0,
    exposures: new Map(),
    armed: new Set(),
  }
}

/** The bound trading key of these bytes. */
export function keyOf(
  { key_index, key_list }: Pick<State, 'key_index' | 'key_list'>,
  bytes: Uint8Array,
): TradingKey | undefined {
  const place = key_index.indexOf(bytes)
  return place === undefined ? undefined : key_list[place]
}

/**
 * Refuses `record_stale` unless the version is above the known one, and `order_limit` when the accounts could have more live
 * orders than the venue: then the refusal of one account would reveal the orders of others.
 */
export function decideAccountRecord(
  state: State,
  command: CommandOf<'account_record'>,
): { ok: true } | RefusedOutcome {
  const version = state.accounts.get(command.account_id)?.version ?? 0
  if (command.version <= version) return refuse('record_stale')
  let orders = command.orders_live_max
  for (const { account_id, orders_live_max, live } of state.accounts.values()) {
    if (account_id !== command.account_id) orders += Math.max(orders_live_max, live)
    else if (live > command.orders_live_max) orders += live - command.orders_live_max
  }
  return orders > LIMITS.orders_live_max ? refuse('order_limit') : { ok: true }
}

export function applyAccountRecord(state: State, command: CommandOf<'account_record'>): Answer {
  const account = state.accounts.get(command.account_id) ?? newAccount(command.account_id)
  account.version = command.version
  account.status = command.status
  account.orders_live_max = command.orders_live_max
  account.keys_max = command.keys_max
  account.record = command.record
  state.accounts.set(account.account_id, account)
  return { kind: 'done' }
}
