/**
 * Owns `register_mint` (1): creates a mint's record and its vault token account.
 *
 * Data, 17 bytes: 0 discriminator · 1 min_deposit u64 · 9 min_exit u64. Both are immutable afterwards.
 */
import { listAccounts } from './account_list'
import { mintRecordAddress, vaultAddresses, vaultTokenAddress } from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'
import { SYSTEM_PROGRAM } from './programs'

export const REGISTER_MINT_BYTES = 17

export const REGISTER_MINT_ACCOUNTS = [
  { name: 'admin', signer: true, writable: false },
  { name: 'payer', signer: true, writable: true },
  { name: 'config', signer: false, writable: true },
  { name: 'mint_record', signer: false, writable: true },
  { name: 'mint', signer: false, writable: false },
  { name: 'vault_token', signer: false, writable: true },
  { name: 'token_program', signer: false, writable: false },
  { name: 'system_program', signer: false, writable: false },
] as const

export type RegisterMintFields = {
  program: Uint8Array
  admin: Uint8Array
  payer: Uint8Array
  mint: Uint8Array
  /** SPL Token or Token-2022, whichever owns the mint. */
  token_program: Uint8Array
  /** Smallest deposit in base units, at least 1. */
  min_deposit: bigint
  /** Smallest note an exit request may name, in base units, at least 1. */
  min_exit: bigint
}

export function registerMintInstruction(fields: RegisterMintFields): VaultInstruction {
  const { program, mint } = fields
  const data = new LayoutWriter(REGISTER_MINT_BYTES)
    .u8(INSTRUCTION.register_mint)
    .u64(fields.min_deposit)
    .u64(fields.min_exit)
    .finish()
  const accounts = listAccounts(REGISTER_MINT_ACCOUNTS, {
    admin: fields.admin,
    payer: fields.payer,
    config: vaultAddresses(program).config,
    mint_record: mintRecordAddress(program, mint),
    mint,
    vault_token: vaultTokenAddress(program, mint),
    token_program: fields.token_program,
    system_program: SYSTEM_PROGRAM,
  })
  return { program, accounts, data }
}
