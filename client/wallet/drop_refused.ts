/** Forgets commands the venue refused: their notes are free again, their nonces stay used up. */
import type { ReshapeRequest, WithdrawalRequest } from '../../protocol/wire'
import type { Wallet } from './wallet'

/** After a refusal with `applied: "no"`; after a lost answer send the same bytes again instead. */
export function dropRefused(wallet: Wallet, order_id: string): void {
  const order = wallet.order(order_id)
  if (order === undefined) return
  order.open = false
  const note = wallet.note(order.collateral)
  if (note !== undefined && note.state === 'pending') note.state = 'free'
}

/** The same for a withdrawal or reshape. */
export function dropRefusedPayment(
  wallet: Wallet,
  request: Pick<WithdrawalRequest | ReshapeRequest, 'trading_key' | 'nonce'>,
): void {
  const at = wallet.state.payments.findIndex(
    ({ key_index, command }) =>
      wallet.tradingKeyText(key_index) === request.trading_key && String(command + 1) === request.nonce,
  )
  const payment = wallet.state.payments[at]
  if (payment === undefined) return
  for (const input of payment.inputs) {
    const note = wallet.note(input)
    if (note?.state === 'pending') note.state = 'free'
  }
  wallet.state.payments.splice(at, 1)
}
