/** Owns the addresses of the Solana programs the vault calls, 32 raw bytes each. */
import { decodeBase58 } from '../base58'

function address(text: string): Uint8Array {
  const bytes = decodeBase58(text, 32)
  if (bytes === undefined) throw new Error(`not an address: ${text}`)
  return bytes
}

export const SYSTEM_PROGRAM = address('11111111111111111111111111111111')
export const TOKEN_PROGRAM = address('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA')
export const TOKEN_2022_PROGRAM = address('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb')
export const UPGRADEABLE_LOADER = address('BPFLoaderUpgradeab1e11111111111111111111111')
export const COMPUTE_BUDGET_PROGRAM = address('ComputeBudget111111111111111111111111111111')
