/** Defines the closed batch that the chain has not decided yet, and the commands that wait for its decision. */
import { equalBytes } from '../../../protocol/bytes'
import type { JournalSeq, SlotNumber, Ticks } from '../../../protocol/units'
import type { CancelReason } from '../../../protocol/wire/trading'
import type { CommandOf } from '../../commands'
import type { ExitRequest } from '../../ports'
import type { Account, TradingKey } from './account'
import type { InstrumentState } from './instrument'
import type { Note } from './note'
import type { Order } from './order'

/** Cancels one order at the decision. `number` and `cancel_nonce` are 0 unless a client's cancel waits for the effect. */
export type WaitingCancel = {
  kind: 'cancel'
  number: number
  key: TradingKey
  cancel_nonce: bigint
  order_id: Uint8Array
  reason: CancelReason
}
/** `note` is the reserved collateral; undefined if that of the replaced order backs the replacement too. */
export type WaitingModify = {
  kind: 'modify'
  number: number
  key: TradingKey
  command: CommandOf<'modify'>
  note: Note | undefined
}
export type Waiting = WaitingCancel | WaitingModify | { kind: 'exit'; request: ExitRequest }

type DueInstrument = {
  readonly instrument: InstrumentState
  readonly batch: number
  readonly reference_ticks: Ticks
  readonly seed: Uint8Array
}

export class ClosedBatch {
  /** In the order of arrival. */
  readonly waiting: Waiting[] = []
  /** Cancels by timers, closed sockets and closed instruments, one per order: they act after the expiries. */
  readonly endings: WaitingCancel[] = []
  private readonly ending = new Set<string>()
  /** The clients' commands that concern an order, by its id in hex; a command that creates an order, under both ids. */
  private readonly by_order = new Map<string, (WaitingCancel | WaitingModify)[]>()
  private readonly counts = new Map<Account, number>()
  private numbered = 0

  /**
   * @param seq of the close's record in the journal: with the chain head there it is the commit
   * @param capacity in parts, of the settlement batches of the match
   */
  constructor(
    readonly seq: JournalSeq,
    readonly slot: SlotNumber,
    readonly capacity: number,
    readonly due: readonly DueInstrument[],
  ) {
    for (const { instrument, batch } of due) instrument.book.close(batch)
  }

  /** Unique over all batches: each numbered command has a separate record after that of the close. */
  nextNumber(): number {
    return this.seq + 1 + this.numbered
  }

  defer(waiting: WaitingCancel | WaitingModify): void {
    const { account } = waiting.key
    this.waiting.push(waiting)
    if (waiting.number > 0) this.numbered += 1
    this.counts.set(account, this.countOf(account) + 1)
    this.index(waiting.kind === 'cancel' ? waiting.order_id : waiting.command.cancel.order_id, waiting)
    if (waiting.kind === 'modify') this.index(waiting.command.replacement.order_id, waiting)
  }

  /** A timer may fire in each slot until the decision: only the first cancel of an order is kept. */
  end(one: WaitingCancel): void {
    const id = one.order_id.toHex()
    if (this.ending.has(id)) return
    this.ending.add(id)
    this.endings.push(one)
  }

  countOf(account: Account): number {
    return this.counts.get(account) ?? 0
  }

  /** The deferred cancels of an order. */
  cancelsOf(order_id: Uint8Array): WaitingCancel[] {
    return this.concerning(order_id).filter((one) => one.kind === 'cancel')
  }

  /** The deferred modify that will create this order. */
  creating(order_id: Uint8Array): WaitingModify | undefined {
    return this.concerning(order_id).find(
      (one): one is WaitingModify =>
        one.kind === 'modify' && equalBytes(one.command.replacement.order_id, order_id),
    )
  }

  /** The deferred modifies of a key, in the order of arrival. */
  modifiesOf(key: TradingKey): WaitingModify[] {
    if (this.countOf(key.account) === 0) return []
    return this.waiting.filter((one) => one.kind === 'modify' && one.key === key) as WaitingModify[]
  }

  private concerning(order_id: Uint8Array): readonly (WaitingCancel | WaitingModify)[] {
    return (this.by_order.size === 0 ? undefined : this.by_order.get(order_id.toHex())) ?? []
  }

  private index(order_id: Uint8Array, waiting: WaitingCancel | WaitingModify): void {
    const id = order_id.toHex()
    const known = this.by_order.get(id)
    if (known === undefined) this.by_order.set(id, [waiting])
    else known.push(waiting)
  }
}

/** Whether the order takes part in the closed, undecided batch, so that only the decision may end it. */
export function isMember({
  instrument,
  arrival_batch,
}: Pick<Order, 'instrument' | 'arrival_batch'>): boolean {
  return instrument.book.isMember(arrival_batch)
}
