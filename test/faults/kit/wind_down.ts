/** Ends trading: every order cancelled, every fill final, so that the sums can be taken. */
import { prepareCancelAll } from '../../../client/wallet/prepare'
import { type LoadTrader, onceServed } from './load_trader'

function isSettled({ trading, wallet }: LoadTrader): boolean {
  const count = (name: string) => trading.events.filter(({ kind }) => kind === name).length
  // A filled order whose fills are still being hashed does not list them yet.
  const told = new Map<string, number>()
  for (const { kind, data } of trading.events) {
    if (kind !== 'fill.matched') continue
    const { order_id, amount } = data as { order_id: string; amount: string }
    told.set(order_id, (told.get(order_id) ?? 0) + Number(amount))
  }
  const filled = new Map<string, number>()
  for (const { kind, data } of trading.events) {
    // A rejected cancel of an order that has ended names only the order.
    if (!kind.startsWith('order.') || !('filled_amount' in data)) continue
    const { order_id, filled_amount } = data as { order_id: string; filled_amount: string }
    filled.set(order_id, Number(filled_amount))
  }
  const all_told = [...filled].every(([order_id, amount]) => (told.get(order_id) ?? 0) === amount)
  const idle = wallet.state.orders.every((order) => !order.open)
  const inputs = wallet.state.payments.flatMap((payment) => payment.inputs)
  const reshaped = inputs.every((input) => wallet.note(input)?.state !== 'pending')
  return idle && reshaped && all_told && count('fill.finalized') === count('fill.matched')
}

export async function windDown(traders: readonly LoadTrader[]): Promise<void> {
  for (const { client, keys, venue, wallet } of traders) {
    const requests = Array.from({ length: keys }, (_, key_index) =>
      prepareCancelAll(wallet, venue, key_index),
    )
    await onceServed(() => client.cancelAll(requests))
  }
  for (const trader of traders) {
    await trader.trading.until(`${trader.name}'s fills to be final`, () => isSettled(trader))
  }
}
