/**
 * Recovers a wallet from its seed and the vault's public history alone (protocol.md "Wallet derivation and recovery").
 *
 * Cost: a deposit tried is one derivation and one Poseidon hash, so the default limits ask some 21,000 hashes even of a seed
 * that was never used: 1 s of one core compiled, 4 s in pure JavaScript. Commands cost three to five hashes each, but are
 * tried only for keys that own a deposit, because nothing else brings a key its first note, and only while a spent note of the
 * key still lacks the command that spent it: the search ends with a key's last command.
 */
import type { SpentNote } from './merged_inputs'
import { recoverCommands } from './recover_commands'
import { recoverDeposits } from './recover_deposits'
import type { VaultHistory } from './vault_history'
import { Wallet } from './wallet'

/** How many unused places in a row end a search. */
export type GapLimits = { keys: number; deposits: number; commands: number }
export const GAP_LIMITS: GapLimits = { keys: 20, deposits: 1_000, commands: 10_000 }

/** One key's search. */
export type KeyScan = {
  wallet: Wallet
  history: VaultHistory
  limits: GapLimits
  /** Every generation of the vault: a note keeps the one it was made in. */
  generations: readonly number[]
  key_index: number
  /** Public key. */
  owner: Uint8Array
  /** Notes of the key that commands spent. */
  spent: SpentNote[]
  /**
   * How many of them no found command spent. A command can only spend notes of commands before it and of deposits, so
   * at 0 there is no command left to find.
   */
  unexplained: number
}

/**
 * The wallet with every note its keys ever had, spent ones marked by their nullifiers. Counters stand behind the last
 * use that left a trace; `alignCounters` takes the venue's, which also counts orders that never filled.
 * @param generation the vault's generation now (config account)
 */
export function recoverWallet(
  seed: Uint8Array,
  history: VaultHistory,
  generation: number,
  limits: GapLimits = GAP_LIMITS,
): Wallet {
  const wallet = new Wallet(seed)
  const generations = Array.from({ length: generation + 1 }, (_, at) => at)
  for (let key_index = 0, unused = 0; unused < limits.keys; key_index++) {
    const owner = wallet.tradingKey(key_index)
    const scan: KeyScan = {
      wallet,
      history,
      limits,
      generations,
      key_index,
      owner,
      spent: [],
      unexplained: 0,
    }
    if (recoverDeposits(scan)) {
      recoverCommands(scan)
      unused = 0
    } else {
      unused += 1
    }
  }
  return wallet
}
