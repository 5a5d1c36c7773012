/** Checks that a wallet rejects a false event and keeps its state. */
import { expect } from 'bun:test'
import { absorbEvent, WalletMismatch } from '../../client/wallet/absorb'
import type { AccountEvent } from '../../protocol/wire/trading'
import { copyOf, type MemoryTrader } from './memory_trader'

/** Each of `lies` replaces fields of the event's data. */
export function refusesLies<T extends object>(
  trader: MemoryTrader,
  event: AccountEvent,
  lies: Partial<T>[],
): void {
  for (const lie of lies) {
    const wallet = copyOf(trader.wallet)
    const told = { ...event, seq: wallet.state.seq + 1, data: { ...event.data, ...lie } } as AccountEvent
    const tell = () => absorbEvent(wallet, 0, told)
    expect(tell, JSON.stringify(lie)).toThrow(WalletMismatch)
    expect(wallet.state, JSON.stringify(lie)).toEqual(trader.wallet.state)
  }
}
