/** Moves a key's counters to what the venue has used: orders that never filled leave no trace on chain. */
import type { Nonces } from '../../protocol/wire'
import type { Wallet } from './wallet'

/** Command n uses nonce n + 1, so the last nonce used is the count of commands. Counters never go back. */
export function alignCounters(wallet: Wallet, key_index: number, nonces: Nonces): void {
  const counters = wallet.counters(key_index)
  counters.commands = Math.max(counters.commands, Number(nonces.place_nonce))
  counters.cancels = Math.max(counters.cancels, Number(nonces.cancel_nonce))
}
