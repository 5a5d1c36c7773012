/**
 * Owns `freeze` (8): after an unserved, unrefused request's deadline the vault winds down for ever. In a frozen vault
 * it only closes a request and returns its bond.
 *
 * Data, 1 byte: the discriminator.
 */
import { listAccounts } from './account_list'
import { exitRequestAddress, vaultAddresses } from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'

export const FREEZE_ACCOUNTS = [
  { name: 'config', signer: false, writable: true },
  { name: 'exit_request', signer: false, writable: true },
  { name: 'bond_payer', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
] as const

export type FreezeFields = {
  program: Uint8Array
  nullifier: Uint8Array
  /** Who paid the request's bond, and gets it back. */
  bond_payer: Uint8Array
}

export function freezeInstruction(fields: FreezeFields): VaultInstruction {
  const { program, nullifier, bond_payer } = fields
  const accounts = listAccounts(FREEZE_ACCOUNTS, {
    ...vaultAddresses(program),
    exit_request: exitRequestAddress(program, nullifier),
    bond_payer,
  })
  return { program, accounts, data: Uint8Array.of(INSTRUCTION.freeze) }
}
