/** An account's own resources, from the durable read models: unknown is 404, another account's is 403. */
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire'
import type { History, OrderFilter } from '../history/contract'
import { hexOf, orderIdOf } from '../intake/form'
import { LIMITS } from '../limits'
import type { Page } from '../venue'

export class OwnReads {
  constructor(private readonly history: History) {}

  order(account_id: string, order_id: string): wire.Order {
    orderIdOf(order_id)
    const found = this.history.order(order_id)
    return owned(account_id, found, 'order_unknown').order
  }

  orders(account_id: string, filter: OrderFilter): wire.Page<wire.Order> {
    this.checkAfter(account_id, filter.after)
    return this.history.orders(account_id, filter)
  }

  fills(account_id: string, { after, limit }: Page): wire.Page<wire.Fill> {
    this.checkAfter(account_id, after)
    return this.history.fills(account_id, after, limit)
  }

  events(account_id: string, { after, limit }: Page): wire.Page<wire.AccountEvent> {
    this.checkAfter(account_id, after)
    return this.history.events(account_id, after, limit)
  }

  /** A cursor ahead of the account's log is another account's, or a mistake: an empty page would hide it for ever. */
  private checkAfter(account_id: string, after: number): void {
    if (after > this.history.seqLast(account_id)) throw new Refusal('after_invalid')
  }

  withdrawal(account_id: string, withdrawal_id: string): wire.Withdrawal {
    hexOf(withdrawal_id, 'withdrawal_id', 16)
    return owned(account_id, this.history.withdrawal(withdrawal_id), 'withdrawal_unknown').withdrawal
  }

  reshape(account_id: string, reshape_id: string): wire.Reshape {
    hexOf(reshape_id, 'reshape_id', 16)
    return owned(account_id, this.history.reshape(reshape_id), 'reshape_unknown').reshape
  }

  /** The stages of an own order's fills. */
  settlementOfOrder(account_id: string, order_id: string): { order_id: string; fills: wire.Fill[] } {
    return { order_id, fills: this.order(account_id, order_id).fills }
  }

  /** Live orders and the seq they are true at; one synchronous turn, so both agree. */
  snapshot(account_id: string): { seq: number; orders: wire.Order[] } {
    const orders: wire.Order[] = []
    let after: number | null = 0
    while (after !== null) {
      const limit = LIMITS.page_items_max
      const page: wire.Page<wire.Order> = this.history.orders(account_id, { status: 'open', after, limit })
      orders.push(...page.items)
      after = page.next_after
    }
    return { seq: this.history.seqLast(account_id), orders }
  }
}

function owned<T extends { account_id: string }>(
  account_id: string,
  found: T | undefined,
  unknown: RefusalCode,
): T {
  if (found === undefined) throw new Refusal(unknown)
  if (found.account_id !== account_id) throw new Refusal('not_owner')
  return found
}
