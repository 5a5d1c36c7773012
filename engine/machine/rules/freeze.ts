/** Ends what a frozen vault can no longer settle. */
import type { Effects } from '../state/outcome'
import type { State } from '../state/state'
import { fillView } from '../state/views'
import { cancelOrders } from './order_life'
import { voidPayment } from './payment'

/** A frozen vault ends all orders, and all fills and payments that are not on chain: funds leave by escape (settlement.md). */
export function endAll(state: State, fx: Effects): void {
  cancelOrders(state, fx, state.orders.values(), 'vault_frozen')
  for (const payment of [...state.settlement.waiting]) {
    if (payment.kind !== 'exit') voidPayment(state, fx, payment)
  }
  for (const batch of state.settlement.batches.values()) {
    if (batch.progress !== 'built' && batch.progress !== 'submitted') continue
    for (const fill of batch.fills) {
      fill.stage = 'voided'
      fill.seq = fx.emit(fill.account, 'fill.voided', (seq) => fillView(fill, seq))
    }
    for (const payout of batch.payouts) if (payout.kind === 'withdrawal') voidPayment(state, fx, payout)
    for (const reshape of batch.reshapes) voidPayment(state, fx, reshape)
  }
}
