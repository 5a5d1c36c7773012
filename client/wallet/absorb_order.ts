/** The end of an order: its note is the wallet's to use again, unless a fill still on its way consumes it. */
import type { Order } from '../../protocol/wire'
import type { Wallet } from './wallet'

/**
 * Fills are told after the order's end when their notes are hashed later than the auction; until the last one is told,
 * the collateral the wallet knows is not the one that is left. A replacement may go on with the same note.
 */
export function absorbFinal(wallet: Wallet, data: Order): void {
  const order = wallet.order(data.order_id)
  if (order === undefined) return
  order.open = false
  order.filled_final = data.filled_amount
  const heir = data.replaced_by === undefined ? undefined : wallet.order(data.replaced_by)
  const note = wallet.note(order.collateral)
  if (order.filled !== order.filled_final || heir?.collateral === order.collateral) return
  if (note?.state === 'pending') note.state = 'free'
}
