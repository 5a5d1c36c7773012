/** Builds the instructions of the deployer and the admin: `initialize` (0), `register_mint` (1) and 10 to 14. */
import { mintRecordAddress, SYSTEM_PROGRAM, vaultAddresses, vaultTokenAddress } from './addresses'
import { INSTRUCTION, listAccounts, type VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'

// `initialize`: creates config, note tree and known states.
// Data, 2,816 bytes: 0 discriminator · 1 admin (32) · 33 settlement signer (32) · 65 exit_delay_s u64 · zeros to the end.
// The zeros make the instruction fit only a v1 transaction, so a cluster where no escape could land rejects the vault
// before it holds anything. It must be a top-level instruction.

export const INITIALIZE_BYTES = 2_816

const INITIALIZE_ACCOUNTS = [
  { name: 'deployer', signer: true, writable: true },
  { name: 'config', signer: false, writable: true },
  { name: 'tree', signer: false, writable: true },
  { name: 'ring', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
  /** Of the upgradeable loader; the program's address under any other loader. */
  { name: 'program_data', signer: false, writable: false },
  { name: 'system_program', signer: false, writable: false },
] as const

export type InitializeFields = {
  program: Uint8Array
  /** Pays, and must be the upgrade authority if the upgradeable loader owns the program. */
  deployer: Uint8Array
  /** Omit if the loader keeps no program data account. */
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
  const accounts = listAccounts(INITIALIZE_ACCOUNTS, {
    ...vaultAddresses(fields.program),
    deployer: fields.deployer,
    program_data: fields.program_data ?? fields.program,
    system_program: SYSTEM_PROGRAM,
  })
  return { program: fields.program, accounts, data }
}

// `register_mint`: creates a mint's record and its vault token account.
// Data, 17 bytes: 0 discriminator · 1 min_deposit u64 · 9 min_exit u64. Both are immutable afterwards.

const REGISTER_MINT_BYTES = 17

const REGISTER_MINT_ACCOUNTS = [
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
  /** The owner of the mint: SPL Token or Token-2022. */
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

// `rotate_signer` (10), `set_admin` (11), `authorize_restore` (12), `pause` (13) and `unpause` (14).
// Data: rotate_signer and set_admin, 34 bytes: 0 discriminator · 1 action u8 · 2 key (32, zeros unless announced) ·
// authorize_restore, 2 bytes: 0 discriminator · 1 action u8 · pause and unpause, 1 byte.
// Actions: 0 announce, 1 apply once effective, 2 cancel. The admin signs, except that a new admin applies its own
// announcement, which proves that its key exists. authorize_restore has no apply: `open_epoch` consumes it.

const ADMIN_ACTIONS = ['announce', 'apply', 'cancel'] as const
export type AdminAction = (typeof ADMIN_ACTIONS)[number]

const ADMIN_ACCOUNTS = [
  { name: 'admin', signer: true, writable: false },
  { name: 'config', signer: false, writable: true },
] as const

type AdminFields = { program: Uint8Array; admin: Uint8Array }
type KeyAction = { action: 'announce'; key: Uint8Array } | { action: 'apply' | 'cancel' }

function adminInstruction({ program, admin }: AdminFields, data: Uint8Array): VaultInstruction {
  const { config } = vaultAddresses(program)
  return { program, accounts: listAccounts(ADMIN_ACCOUNTS, { admin, config }), data }
}

function keyActionData(discriminator: number, fields: KeyAction): Uint8Array {
  return new LayoutWriter(34)
    .u8(discriminator)
    .u8(ADMIN_ACTIONS.indexOf(fields.action))
    .bytes(fields.action === 'announce' ? fields.key : new Uint8Array(32), 32)
    .finish()
}

/** Effective twice the exit delay after the announcement. */
export const rotateSignerInstruction = (fields: AdminFields & KeyAction): VaultInstruction =>
  adminInstruction(fields, keyActionData(INSTRUCTION.rotate_signer, fields))

/** Effective twice the exit delay after the announcement; `admin` is the new one for `apply`. */
export const setAdminInstruction = (fields: AdminFields & KeyAction): VaultInstruction =>
  adminInstruction(fields, keyActionData(INSTRUCTION.set_admin, fields))

/** Effective a quarter of the exit delay after the announcement. */
export const authorizeRestoreInstruction = (
  fields: AdminFields & { action: 'announce' | 'cancel' },
): VaultInstruction =>
  adminInstruction(fields, Uint8Array.of(INSTRUCTION.authorize_restore, ADMIN_ACTIONS.indexOf(fields.action)))

/** Stops `deposit` and `settle` at once; exits continue. */
export const pauseInstruction = (fields: AdminFields): VaultInstruction =>
  adminInstruction(fields, Uint8Array.of(INSTRUCTION.pause))

export const unpauseInstruction = (fields: AdminFields): VaultInstruction =>
  adminInstruction(fields, Uint8Array.of(INSTRUCTION.unpause))
