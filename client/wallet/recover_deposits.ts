/** Finds a key's deposits, and the refunds of its exits, whose notes are derived as deposits are. */
import { deriveDepositBlinding } from '../../protocol/derive'
import { keepProgramNotes } from './keep_recovered'
import type { KeyScan } from './recover'

/** @returns whether the key was ever used */
export function recoverDeposits(scan: KeyScan): boolean {
  const { wallet, history, limits, key_index } = scan
  let count = 0
  for (let d = 0; d - count < limits.deposits; d++) {
    const { used, inner } = keepProgramNotes(scan, deriveDepositBlinding(wallet.seed, key_index, d))
    if (used || history.exit_inners.has(inner)) count = d + 1
  }
  if (count > 0) wallet.counters(key_index).deposits = count
  return count > 0
}
