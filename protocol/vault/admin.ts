/** Builds the instructions of the deployer and the admin: `initialize` (0), `register_mint` (1), 10 to 14 and 22. */
import { fixed, struct, u64, uint, word } from '../codec'
import { mintRecordAddress, SYSTEM_PROGRAM, vaultAddresses, vaultTokenAddress } from './addresses'
import {
  bare,
  type Forms,
  type InstructionName,
  listAccounts,
  numberOf,
  orZeros,
  type VaultInstruction,
} from './instruction'

/** Creates config, trees, known states and payout queue. 105 bytes. */
const INITIALIZE = struct({
  instruction: numberOf('initialize'),
  admin: fixed(32),
  settlement_signer: fixed(32),
  /** Seconds from an exit request to its deadline, 1 to 31,536,000. */
  exit_delay_s: uint,
  /** Of the cluster; the program computes the venue id from it. */
  genesis_hash: fixed(32),
})

const INITIALIZE_ACCOUNTS = {
  deployer: 'sw',
  config: 'w',
  tree: 'w',
  ring: 'w',
  queue: 'w',
  program: '',
  /** Of the upgradeable loader; the program's address under any other loader. */
  program_data: '',
  system_program: '',
} as const

export type InitializeFields = {
  program: Uint8Array
  /** Pays, and must be the upgrade authority if the upgradeable loader owns the program. */
  deployer: Uint8Array
  /** Omit if the loader keeps no program data account. */
  program_data?: Uint8Array
  admin: Uint8Array
  settlement_signer: Uint8Array
  exit_delay_s: number
  genesis_hash: Uint8Array
}

export function initializeInstruction(fields: InitializeFields): VaultInstruction {
  const { program, deployer, program_data = program } = fields
  const accounts = listAccounts(INITIALIZE_ACCOUNTS, {
    ...vaultAddresses(program),
    deployer,
    program_data,
    system_program: SYSTEM_PROGRAM,
  })
  return { program, accounts, data: INITIALIZE.encode(fields) }
}

/** Creates a mint's record and its vault token account. 17 bytes; both minimums are immutable afterwards. */
const REGISTER_MINT = struct({
  instruction: numberOf('register_mint'),
  /** Smallest deposit in base units, at least 1. */
  min_deposit: u64,
  /** Smallest note an exit request may name, in base units, at least 1. */
  min_exit: u64,
})

const REGISTER_MINT_ACCOUNTS = {
  admin: 's',
  payer: 'sw',
  config: 'w',
  mint_record: 'w',
  mint: '',
  vault_token: 'w',
  token_program: '',
  system_program: '',
} as const

export type RegisterMintFields = {
  program: Uint8Array
  admin: Uint8Array
  payer: Uint8Array
  mint: Uint8Array
  /** The owner of the mint: SPL Token or Token-2022. */
  token_program: Uint8Array
  min_deposit: bigint
  min_exit: bigint
}

export function registerMintInstruction(fields: RegisterMintFields): VaultInstruction {
  const { program, mint } = fields
  const accounts = listAccounts(REGISTER_MINT_ACCOUNTS, {
    ...fields,
    config: vaultAddresses(program).config,
    mint_record: mintRecordAddress(program, mint),
    vault_token: vaultTokenAddress(program, mint),
    system_program: SYSTEM_PROGRAM,
  })
  return { program, accounts, data: REGISTER_MINT.encode(fields) }
}

// The admin signs 10 to 14 and 22, except that a new admin applies its own announcement, which proves that its key exists.
// `authorize_restore` has no apply: `open_epoch` consumes it.

const ADMIN_ACTIONS = ['announce', 'apply', 'cancel'] as const
export type AdminAction = (typeof ADMIN_ACTIONS)[number]

/** 34 bytes; `key` is zeros unless announced. */
const keyAction = (name: InstructionName) =>
  struct({ instruction: numberOf(name), action: word(ADMIN_ACTIONS), key: orZeros(fixed(32)) })

const ROTATE_SIGNER = keyAction('rotate_signer')
const SET_ADMIN = keyAction('set_admin')
const AUTHORIZE_RESTORE = struct({ instruction: numberOf('authorize_restore'), action: word(ADMIN_ACTIONS) })
const PAUSE = bare('pause')
const UNPAUSE = bare('unpause')

const ADMIN_ACCOUNTS = { admin: 's', config: 'w' } as const

type AdminFields = { program: Uint8Array; admin: Uint8Array }
type KeyAction = { action: 'announce'; key: Uint8Array } | { action: 'apply' | 'cancel'; key?: undefined }

function adminInstruction({ program, admin }: AdminFields, data: Uint8Array): VaultInstruction {
  const { config } = vaultAddresses(program)
  return { program, accounts: listAccounts(ADMIN_ACCOUNTS, { admin, config }), data }
}

/** Effective twice the exit delay after the announcement, void 30 days later, as each announcement. */
export const rotateSignerInstruction = (fields: AdminFields & KeyAction): VaultInstruction =>
  adminInstruction(fields, ROTATE_SIGNER.encode({ action: fields.action, key: fields.key }))

/** Effective twice the exit delay after the announcement; `admin` is the new one for `apply`. */
export const setAdminInstruction = (fields: AdminFields & KeyAction): VaultInstruction =>
  adminInstruction(fields, SET_ADMIN.encode({ action: fields.action, key: fields.key }))

/** Effective a quarter of the exit delay after the announcement. */
export const authorizeRestoreInstruction = (
  fields: AdminFields & { action: 'announce' | 'cancel' },
): VaultInstruction => adminInstruction(fields, AUTHORIZE_RESTORE.encode(fields))

/** Stops `deposit` and `settle` at once; exits and payouts continue. */
export const pauseInstruction = (fields: AdminFields): VaultInstruction =>
  adminInstruction(fields, PAUSE.encode({}))

export const unpauseInstruction = (fields: AdminFields): VaultInstruction =>
  adminInstruction(fields, UNPAUSE.encode({}))

/** 9 bytes. */
const DECLARE_OUTAGE = struct({
  instruction: numberOf('declare_outage'),
  /** 1 to three times the exit delay. */
  extra_s: uint,
})

/** Extends the deadline of each exit request that is open and not past it; the next waits 90 days, and until these are over. */
export const declareOutageInstruction = (fields: AdminFields & { extra_s: number }): VaultInstruction =>
  adminInstruction(fields, DECLARE_OUTAGE.encode(fields))

export const ADMIN_FORMS = {
  initialize: { data: INITIALIZE, accounts: INITIALIZE_ACCOUNTS },
  register_mint: { data: REGISTER_MINT, accounts: REGISTER_MINT_ACCOUNTS },
  rotate_signer: { data: ROTATE_SIGNER, accounts: ADMIN_ACCOUNTS },
  set_admin: { data: SET_ADMIN, accounts: ADMIN_ACCOUNTS },
  authorize_restore: { data: AUTHORIZE_RESTORE, accounts: ADMIN_ACCOUNTS },
  pause: { data: PAUSE, accounts: ADMIN_ACCOUNTS },
  unpause: { data: UNPAUSE, accounts: ADMIN_ACCOUNTS },
  declare_outage: { data: DECLARE_OUTAGE, accounts: ADMIN_ACCOUNTS },
} satisfies Forms
