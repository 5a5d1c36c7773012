/** Owns the shape every instruction encoder of the vault returns. */
import type { InstructionAccount } from './account_list'

/** Program, accounts in order and data, for any transaction library. */
export type VaultInstruction = { program: Uint8Array; accounts: InstructionAccount[]; data: Uint8Array }
