/** Defines the whole state of the venue, and its versions of rules and formats. Only apply functions write it. */
import { decodeBase58 } from '../../../protocol/base58'
import { fromHex } from '../../../protocol/bytes'
import type { Amount, SlotNumber } from '../../../protocol/units'
import type { HaltReason, Settings } from '../../commands'
import { LIMITS } from '../../limits'
import type { HashSeed } from '../../memory/id_table'
import { RowQueue } from '../../memory/row_queue'
import { OrderPool } from '../book/order_pool'
import type { Account, TradingKey } from './account'
import { type Settlement, SPENT_BYTES } from './batch'
import type { ClosedBatch } from './closed'
import type { InstrumentState } from './instrument'
import { FinalOrders, LiveOrders } from './live_orders'
import { Notes, RETIRED_BYTES } from './note'

/** Defines the whole state of the venue. Only apply functions write it; decide functions read it. */

type Mint = {
  readonly bytes: Uint8Array
  /** base58. */
  readonly text: string
  readonly min_withdraw: Amount
  readonly withdraw_fee: Amount
}

/** An epoch that this venue intends to open or has opened; `slot` is 0 until it is finalized on chain. */
type Epoch = {
  readonly epoch: number
  readonly boot_nonce: Uint8Array
  readonly generation: number
  readonly settlement_key: Uint8Array
  readonly signature: Uint8Array
  readonly transaction: Uint8Array
  slot: SlotNumber
}

export type State = {
  /** Version of rules and formats: every build that carries it decides and encodes in the same way. */
  version: number
  settings: Settings | undefined
  mints: Mint[]
  fee_key: Uint8Array
  fee_anchor: Uint8Array
  /** Newest confirmed slot. */
  slot: SlotNumber
  /** Orders are accepted again from this slot on; a stall of the chain sets it. */
  reopens_slot: SlotNumber
  /** Chain time of the newest command. */
  unix_ms: number
  /** The open epoch; 0 before the first. */
  epoch: number
  readonly epochs: Epoch[]
  halted: HaltReason | undefined
  /** By node with armed sockets that is absent, how much of its grace period is over; the next leader continues it. */
  readonly absent: Map<string, number>
  readonly accounts: Map<string, Account>
  /** Owner of each credential, by credential id in hex. */
  readonly credentials: Map<string, Account>
  /** By base58, in the order of binding; keys are never removed. */
  readonly keys: Map<string, TradingKey>
  /** The same keys by their bytes, which saves base58 encoding. */
  readonly key_index: RowQueue
  readonly key_list: TradingKey[]
  /** By symbol, in the order of configuration. */
  readonly instruments: Map<string, InstrumentState>
  /** The same instruments by their index. */
  readonly instrument_list: InstrumentState[]
  /** The batch that waits for the chain's decision; at most one. */
  closed: ClosedBatch | undefined
  readonly pool: OrderPool
  readonly orders: LiveOrders
  /** In the order in which they closed. These four begin with the oldest row that a lookup may need in memory (`past.ts`). */
  readonly finals: FinalOrders
  /** Keys with an armed dead-man timer, by the slot at which it fires. */
  readonly timers: Map<SlotNumber, Set<TradingKey>>
  readonly notes: Notes
  /** Finalized leaves of the note tree. */
  readonly leaves: RowQueue
  /** Spent nullifiers with their batch, in the order of the spent log. */
  readonly nullifiers: RowQueue
  /** Commitments with a finalized leaf that a finalized batch spent, with the owning key. */
  readonly retired: RowQueue
  settlement: Settlement
}

/**
 * @param seed of the id tables
 * @param orders that the book allocates for at once; growing beyond copies its arrays, which takes a pause
 */
export function createState(seed: HashSeed, orders?: number): State {
  const key_list: TradingKey[] = []
  const instrument_list: InstrumentState[] = []
  const key_index = new RowQueue(32, 32, seed)
  const notes = new Notes({ key_index, key_list }, seed)
  const pool = new OrderPool(orders)
  return {
    version: FIRST_VERSION,
    settings: undefined,
    mints: [],
    fee_key: new Uint8Array(32),
    fee_anchor: new Uint8Array(32),
    slot: 0,
    reopens_slot: 0,
    unix_ms: 0,
    epoch: 0,
    epochs: [],
    halted: undefined,
    absent: new Map(),
    accounts: new Map(),
    credentials: new Map(),
    keys: new Map(),
    key_index,
    key_list,
    instruments: new Map(),
    instrument_list,
    closed: undefined,
    pool,
    orders: new LiveOrders({ keys: key_list, instruments: instrument_list, notes, pool }, seed),
    finals: new FinalOrders(key_list, seed),
    timers: new Map(),
    notes,
    leaves: new RowQueue(32, 32, seed),
    nullifiers: new RowQueue(32, SPENT_BYTES, seed),
    retired: new RowQueue(32, RETIRED_BYTES, seed),
    settlement: {
      batches: new Map(),
      last_batch: 0,
      last_hashed: 0,
      unlanded: 0,
      waiting: [],
      payments: new Map(),
      queued: new Map(),
      next_payout: 1,
      payouts_open: 0,
      queue_capacity: LIMITS.queue_capacity_first,
      exits: new Map(),
      fees: [],
      fee_day: 0,
      leaf_count_min: 0,
      landed: undefined,
    },
  }
}

/** The current settings. @throws Error before the first `configure` */
export function settingsOf(state: State): Settings {
  if (state.settings === undefined) throw new Error('the venue is not configured')
  return state.settings
}

export function keyBytes(text: string): Uint8Array {
  const bytes = decodeBase58(text, 32)
  if (bytes === undefined) throw new Error('a configured key is not 32 bytes of base58')
  return bytes
}

/** Puts settings in force. @throws Error for a fee key or anchor of another width */
export function setSettings(state: State, settings: Settings): void {
  const fee_anchor = fromHex(settings.fee_anchor, 32)
  if (fee_anchor === undefined) throw new Error('the configured fee anchor is not 32 bytes of hex')
  state.fee_key = keyBytes(settings.fee_key)
  state.fee_anchor = fee_anchor
  state.settings = settings
}

/** In which every journal begins; the first byte of a snapshot is the version of its state. */
export const FIRST_VERSION = 10
/**
 * Ascending, without a gap. A rule, a kind of command or a layout that decides or encodes otherwise is added under the next
 * number, and the code of the number before stays for as long as a journal or a snapshot of it may be read.
 */
export const VERSIONS: readonly number[] = [FIRST_VERSION]

/** This build does not carry the version of a journal or a snapshot: it must not start on it. */
export class VersionUnknown extends Error {
  override readonly name = 'VersionUnknown'
  constructor(readonly version: number) {
    super(
      `what is on this disk goes on in version ${version} of rules and formats, and this build carries ` +
        `${VERSIONS.join(' and ')}: start a build on it that carries ${version}`,
    )
  }
}

/** @throws VersionUnknown */
export function requireVersion(version: number): number {
  if (!VERSIONS.includes(version)) throw new VersionUnknown(version)
  return version
}
