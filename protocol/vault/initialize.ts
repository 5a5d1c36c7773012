/**
 * Owns `initialize` (0): creates config, note tree and known states.
 *
 * Data, 2,816 bytes: 0 discriminator · 1 admin (32) · 33 settlement signer (32) · 65 exit_delay_s u64 · zeros to the end.
 * The zeros are deliberate: the instruction fits only a v1 transaction, so a cluster where no escape could ever land
 * refuses the vault before it holds anything. It must be a top-level instruction.
 */
import { listAccounts } from './account_list'
import { type VaultAddresses, vaultAddresses } from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'
import { SYSTEM_PROGRAM } from './programs'

export const INITIALIZE_BYTES = 2_816

export const INITIALIZE_ACCOUNTS = [
  { name: 'deployer', signer: true, writable: true },
  { name: 'config', signer: false, writable: true },
  { name: 'tree', signer: false, writable: true },
  { name: 'ring', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
  /** Of the upgradeable loader; the program's own address where another loader owns it. */
  { name: 'program_data', signer: false, writable: false },
  { name: 'system_program', signer: false, writable: false },
] as const

export type InitializeFields = {
  program: Uint8Array
  /** Pays, and must be the upgrade authority where the upgradeable loader owns the program. */
  deployer: Uint8Array
  /** Omit where the loader keeps no program data account. */
  program_data?: Uint8Array
  admin: Uint8Array
  settlement_signer: Uint8Array
  /** Seconds from an exit request to its deadline, 1 to 31,536,000. */
  exit_delay_s: number
}

export function initializeInstruction(fields: InitializeFields): VaultInstruction {
  const data = new LayoutWriter(INITIALIZE_BYTES)
    .u8(INSTRUCTION.initialize)
    .bytes(fields.admin, 32)
    .bytes(fields.settlement_signer, 32)
    .u64(fields.exit_delay_s)
    .zeros(INITIALIZE_BYTES - 73)
    .finish()
  const vault: VaultAddresses = vaultAddresses(fields.program)
  const accounts = listAccounts(INITIALIZE_ACCOUNTS, {
    ...vault,
    deployer: fields.deployer,
    program_data: fields.program_data ?? fields.program,
    system_program: SYSTEM_PROGRAM,
  })
  return { program: fields.program, accounts, data }
}
