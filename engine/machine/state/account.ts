/** Defines accounts, their credentials and trading keys, and prevents self-crosses of each (matching.md rule 2). */
import type { EventSeq, SlotNumber, Ticks } from '../../../protocol/units'
import type * as wire from '../../../protocol/wire/trading'
import type { Side } from '../../../protocol/wire/trading'
import type { Credential, JournaledToken } from '../../commands'
import type { HandleList } from '../../memory/rows'
import type { InstrumentState } from './instrument'
import type { Order, OrderFacts } from './order'
import type { State } from './state'

/** An `account.changed` event as `GET /account` lists it. */
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

/** Whether an order of this account would overlap one of its live orders other than `except`. */
export function crossesOwn(
  account: Account,
  instrument: InstrumentState,
  side: Side,
  ticks: Ticks,
  except?: Order,
): boolean {
  const exposure = account.exposures.get(instrument)
  if (exposure === undefined) return false
  const left_out = except?.instrument === instrument && except.side !== side ? except.ticks : undefined
  if (side === 'buy') {
    const lowest = exposure.sell.lowest(left_out)
    return lowest !== undefined && lowest <= ticks
  }
  const highest = exposure.buy.highest(left_out)
  return highest !== undefined && highest >= ticks
}

type Exposed = Pick<OrderFacts, 'key' | 'instrument' | 'side' | 'ticks'>

export function addExposure(order: Exposed): void {
  const { account } = order.key
  let exposure = account.exposures.get(order.instrument)
  if (exposure === undefined) {
    exposure = { buy: new PriceLevels(), sell: new PriceLevels() }
    account.exposures.set(order.instrument, exposure)
  }
  exposure[order.side].add(order.ticks)
}

export function removeExposure(order: Exposed): void {
  const { exposures } = order.key.account
  const exposure = exposures.get(order.instrument)!
  exposure[order.side].remove(order.ticks)
  if (exposure.buy.size === 0 && exposure.sell.size === 0) exposures.delete(order.instrument)
}

const LEVELS_MIN = 4
const EMPTY = new Uint32Array(0)

/**
 * A sorted array of (tick, count) pairs. Not a map: garbage collection would scan thousands of entries that each order
 * changes. Inserting a level moves the later ones in one copy.
 */
export class PriceLevels {
  private levels: Uint32Array = EMPTY
  private count = 0

  /** Number of prices with orders. */
  get size(): number {
    return this.count
  }

  /** The lowest tick with an order; one order at `except` is not counted. */
  lowest(except?: Ticks): Ticks | undefined {
    const at = this.isAlone(0, except) ? 1 : 0
    return at < this.count ? this.levels[2 * at] : undefined
  }

  /** The highest tick with an order; one order at `except` is not counted. */
  highest(except?: Ticks): Ticks | undefined {
    const at = this.isAlone(this.count - 1, except) ? this.count - 2 : this.count - 1
    return at >= 0 ? this.levels[2 * at] : undefined
  }

  add(tick: Ticks): void {
    const at = this.placeOf(tick)
    if (this.isAt(at, tick)) {
      this.levels[2 * at + 1]! += 1
      return
    }
    if (2 * this.count === this.levels.length) this.resize(Math.max(LEVELS_MIN, 2 * this.count), this.levels)
    this.levels.copyWithin(2 * at + 2, 2 * at, 2 * this.count)
    this.levels[2 * at] = tick
    this.levels[2 * at + 1] = 1
    this.count += 1
  }

  /** @throws Error when no order is at this tick */
  remove(tick: Ticks): void {
    const at = this.placeOf(tick)
    if (!this.isAt(at, tick)) throw new Error('no order lies at this price')
    this.levels[2 * at + 1]! -= 1
    if (this.levels[2 * at + 1]! > 0) return
    this.levels.copyWithin(2 * at, 2 * at + 2, 2 * this.count)
    this.count -= 1
    if (this.levels.length > 2 * LEVELS_MIN && 8 * this.count <= this.levels.length)
      this.resize(this.levels.length / 4, this.levels.subarray(0, 2 * this.count))
  }

  /** Whether exactly one order is at level `at`, and its tick is `tick`. */
  private isAlone(at: number, tick: Ticks | undefined): boolean {
    return tick !== undefined && this.isAt(at, tick) && this.levels[2 * at + 1] === 1
  }

  private isAt(at: number, tick: Ticks): boolean {
    return at >= 0 && at < this.count && this.levels[2 * at] === tick
  }

  /** The first level at or above `tick`. */
  private placeOf(tick: Ticks): number {
    let from = 0
    let to = this.count
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.levels[2 * middle]! < tick) from = middle + 1
      else to = middle
    }
    return from
  }

  private resize(levels: number, kept: Uint32Array): void {
    const resized = new Uint32Array(2 * levels)
    if (this.count > 0) resized.set(kept)
    this.levels = resized
  }
}
