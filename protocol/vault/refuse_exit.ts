/**
 * Owns `refuse_exit` (7): anyone proves that a requested note is already spent and takes the bond.
 *
 * Data, 1,097 bytes: 0 discriminator · 1 cited spent root (32, the current or one of the last 32) · 33 next_value (32)
 * of the spent leaf · 65 its leaf index u64 · 73 its path (1,024).
 */
import { listAccounts } from './account_list'
import { exitRequestAddress, vaultAddresses } from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'
import { PATH_BYTES, writePath } from './note_proof'

export const REFUSE_EXIT_BYTES = 1 + 32 + 32 + 8 + PATH_BYTES

export const REFUSE_EXIT_ACCOUNTS = [
  { name: 'refuser', signer: true, writable: true },
  { name: 'config', signer: false, writable: false },
  { name: 'ring', signer: false, writable: false },
  { name: 'exit_request', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
] as const

export type RefuseExitFields = {
  program: Uint8Array
  refuser: Uint8Array
  nullifier: Uint8Array
  cited_spent_root: Uint8Array
  next_value: Uint8Array
  leaf_index: number
  path: readonly Uint8Array[]
}

export function refuseExitInstruction(fields: RefuseExitFields): VaultInstruction {
  const { program } = fields
  const writer = new LayoutWriter(REFUSE_EXIT_BYTES)
    .u8(INSTRUCTION.refuse_exit)
    .bytes(fields.cited_spent_root, 32)
    .bytes(fields.next_value, 32)
    .u64(fields.leaf_index)
  const data = writePath(writer, fields.path).finish()
  const accounts = listAccounts(REFUSE_EXIT_ACCOUNTS, {
    ...vaultAddresses(program),
    refuser: fields.refuser,
    exit_request: exitRequestAddress(program, fields.nullifier),
  })
  return { program, accounts, data }
}
