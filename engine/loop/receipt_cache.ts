/** Receipts of recent commands, so that a resend after a lost reply gets the original proof too. */
import type { Receipt } from '../../protocol/wire'
import { LIMITS } from '../limits'

export class ReceiptCache {
  /** By what the command made: an order, a withdrawal or a reshape; oldest first. */
  private readonly receipts = new Map<string, Receipt>()

  set(id: string, receipt: Receipt): void {
    this.receipts.set(id, receipt)
    if (this.receipts.size <= LIMITS.receipts_kept_max) return
    for (const oldest of this.receipts.keys()) {
      this.receipts.delete(oldest)
      return
    }
  }

  get(id: string): Receipt | undefined {
    return this.receipts.get(id)
  }
}
