/** Defines the result of a command: an answer with events and auctions, or a rejection without effect. */
import type { AuctionResult } from '../../../protocol/bodies/auction_export'
import type { RefusalCode, RefusalFacts } from '../../../protocol/refusals'
import type { EventSeq, SlotNumber } from '../../../protocol/units'
import type * as wire from '../../../protocol/wire/trading'
import type { Account } from './account'
import type { Past } from './past'

type WithoutReceipt<T> = T extends unknown ? Omit<T, 'receipt'> : never
export type PlaceAnswer = WithoutReceipt<wire.PlaceResult>
type CancelAnswer = WithoutReceipt<wire.CancelResult>
type ModifyAnswer = WithoutReceipt<wire.ModifyResult>
type CancelAllAnswer = WithoutReceipt<wire.CancelAllResult>
type DeadManAnswer = WithoutReceipt<wire.DeadManResult>

/**
 * The answer by command kind; `done` for commands without a result. `number` is that of a deferred command, whose effect
 * follows the decision.
 */
export type Answer =
  | { kind: 'place'; result: PlaceAnswer }
  | { kind: 'cancel'; result: CancelAnswer; number?: number }
  | { kind: 'modify'; result: ModifyAnswer; number?: number }
  | { kind: 'cancel_all'; result: CancelAllAnswer }
  | { kind: 'dead_man'; result: DeadManAnswer }
  | { kind: 'withdraw'; result: wire.Withdrawal }
  | { kind: 'reshape'; result: wire.Reshape }
  | { kind: 'credential'; result: wire.CredentialResult }
  | { kind: 'rebind'; result: wire.RebindResult }
  | { kind: 'done' }

export type AccountEventOut = { account_id: string; event: wire.AccountEvent }

/** One auction: the inputs other than the book, and the result, for an auditor to recompute (matching.md rule 7). */
export type AuctionRecord = AuctionResult & {
  /** `auctionHash` of the rest. */
  result_hash: Uint8Array
}

export type Outcome =
  | {
      ok: true
      answer: Answer
      events: AccountEventOut[]
      auctions: AuctionRecord[]
      /** Results of deferred commands by their number; only a decision has any. */
      effects: ReadonlyMap<number, Answer | RefusedOutcome>
    }
  /** `number`: an identical resend of this deferred command, whose answer it gets. */
  | { ok: false; code: RefusalCode; facts: RefusalFacts; number?: number }

export type RefusedOutcome = Extract<Outcome, { ok: false }>

export function refuse(code: RefusalCode, facts: RefusalFacts = {}): RefusedOutcome {
  return { ok: false, code, facts }
}

/**
 * `unavailable`: the 503 code with which new orders, withdrawals and reshapes are rejected at present. `past`: rows that have
 * left the state. Both only reject, and rejections write nothing, so a replay omits them.
 */
export type Env = { unavailable?: RefusalCode | undefined; past?: Past | undefined }

const NO_EFFECTS: ReadonlyMap<number, Answer | RefusedOutcome> = new Map()
/** The answer to a command that is replayed for its state alone. */
export const UNREAD: Answer = { kind: 'done' }

/** Collects the account events, auction records and results of deferred commands of a command. */
export class Effects {
  readonly events: AccountEventOut[] = []
  readonly auctions: AuctionRecord[] = []
  private of_deferred: Map<number, Answer | RefusedOutcome> | undefined

  constructor(
    /** Slot and time of all events. */
    readonly slot: SlotNumber,
    readonly unix_ms: number,
    /** False only numbers events: a replay whose read models already have them needs no more, and no answer. */
    readonly kept = true,
  ) {}

  /** Results of deferred commands, by number. */
  get effects(): ReadonlyMap<number, Answer | RefusedOutcome> {
    return this.of_deferred ?? NO_EFFECTS
  }

  /** Adds the result of a deferred command. */
  settle(number: number, result: Answer | RefusedOutcome): void {
    this.of_deferred ??= new Map()
    this.of_deferred.set(number, result)
  }

  /**
   * Emits an event with the account's next event number and returns the number. `data` builds the wire object; it must
   * have no effects, because it is not called when events are skipped.
   */
  emit(account: Account, kind: wire.EventKind, data: (seq: EventSeq) => wire.AccountEvent['data']): EventSeq {
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
