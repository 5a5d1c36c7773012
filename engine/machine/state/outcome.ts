/** The result of a command: an answer with its events and auctions, or a rejection that changed nothing. */

import type { RefusalCode, RefusalFacts } from '../../../protocol/refusals'
import type * as wire from '../../../protocol/wire/trading'
import type { Account } from './account'

// What executing a command gives back: an answer with its events and auctions, or a refusal that changed nothing.

type WithoutReceipt<T> = Omit<T, 'receipt'>
export type PlaceAnswer = WithoutReceipt<wire.PlaceResult>
type CancelAnswer = WithoutReceipt<wire.CancelResult>
type ModifyAnswer = WithoutReceipt<wire.ModifyResult>
type CancelAllAnswer = WithoutReceipt<wire.CancelAllResult>
type DeadManAnswer = WithoutReceipt<wire.DeadManResult>

/** The answer by command kind; `done` for commands that have no result of their own. */
export type Answer =
  | { kind: 'place'; result: PlaceAnswer }
  | { kind: 'cancel'; result: CancelAnswer }
  | { kind: 'modify'; result: ModifyAnswer }
  | { kind: 'cancel_all'; result: CancelAllAnswer }
  | { kind: 'dead_man'; result: DeadManAnswer }
  | { kind: 'withdraw'; result: wire.Withdrawal }
  | { kind: 'reshape'; result: wire.Reshape }
  | { kind: 'done' }

export type AccountEventOut = { account_id: string; event: wire.AccountEvent }

/** One held auction: what an auditor needs besides the book to recompute it (matching.md rule 7). */
export type AuctionRecord = {
  symbol: string
  /** Counts per instrument from 1. */
  batch: number
  slot: number
  /** The reference the collar and price rule used, in ticks. */
  reference_ticks: number
  seed: Uint8Array
  /** null: nothing traded. */
  price_ticks: number | null
  volume_lots: number
  /** By ascending order id. */
  fills: { order_id: string; lots: number }[]
  /** Remainders of ioc and fok orders, ascending ids. */
  cancelled: string[]
  /** Orders of this instrument that expired at this slot before the auction, ascending ids. */
  expired: string[]
  /** SHA-256 of the fixed encoding in engine/machine/rules/auction.ts. */
  result_hash: Uint8Array
}

export type Outcome =
  | { ok: true; answer: Answer; events: AccountEventOut[]; auctions: AuctionRecord[] }
  | { ok: false; code: RefusalCode; facts: RefusalFacts }

export type RefusedOutcome = Extract<Outcome, { ok: false }>

export function refuse(code: RefusalCode, facts: RefusalFacts = {}): RefusedOutcome {
  return { ok: false, code, facts }
}

/** What a decision may ask of its surroundings; replay must answer the same. */
export type Env = {
  /**
   * 32-byte seed of an auction's tie break (matching.md rule 5). `epoch` is the epoch open in the journal at this
   * point, so that a replay under a later epoch derives the same seed.
   */
  batchSeed(symbol: string, batch: number, epoch: number): Uint8Array
  /**
   * Why new orders, withdrawals and reshapes are refused just now, among the 503 codes. It only ever leads to refusals,
   * which write nothing, so replay leaves it out.
   */
  unavailable?: RefusalCode | undefined
}

// Collects what a command causes: numbered account events and auction records.

export class Effects {
  readonly events: AccountEventOut[] = []
  readonly auctions: AuctionRecord[] = []

  constructor(
    /** Slot and time stamped on every event. */
    readonly slot: number,
    readonly unix_ms: number,
    /** Without, events are only numbered: a replay whose read models have them already needs no more. */
    private readonly kept = true,
  ) {}

  /**
   * Gives the account's next event number to an event and returns it; `data` makes a complete wire object of it and
   * changes nothing, as it may not be called.
   */
  emit(account: Account, kind: wire.EventKind, data: (seq: number) => wire.AccountEvent['data']): number {
    account.seq += 1
    const seq = account.seq
    if (!this.kept) return seq
    this.events.push({
      account_id: account.account_id,
      event: { seq, kind, slot: this.slot, unix_ms: this.unix_ms, data: data(seq) },
    })
    return seq
  }
}
