/** Receipts of recent commands, so that a resend after a lost reply gets the original proof too. */
import type { Receipt } from '../../protocol/wire'
import { LIMITS } from '../limits'
import { type ReceiptGroup, receiptOf } from './receipts'

/** Resends are rare and commands are not: what is kept is small for the collector, and a receipt is made when asked for. */
export class ReceiptCache {
  /** By what the command made: an order, a withdrawal or a reshape; oldest first. */
  private readonly kept = new Map<string, { group: ReceiptGroup; index: number }>()

  set(id: string, group: ReceiptGroup, index: number): void {
    this.kept.set(id, { group, index })
    if (this.kept.size <= LIMITS.receipts_kept_max) return
    for (const oldest of this.kept.keys()) {
      this.kept.delete(oldest)
      return
    }
  }

  get(id: string): Receipt | undefined {
    const kept = this.kept.get(id)
    return kept === undefined ? undefined : receiptOf(kept.group, kept.index)
  }
}
