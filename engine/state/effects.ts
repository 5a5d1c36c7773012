/** Collects what a command causes: numbered account events and auction records. */
import type * as wire from '../../protocol/wire'
import type { Account } from './account'
import type { AccountEventOut, AuctionRecord } from './outcome'

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
