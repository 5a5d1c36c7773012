/** Builds the instructions of the deployer and the admin: `initialize` (0), `register_mint` (1), 11 to 14 and 22. */
import { fixed, struct, u64, uint, word } from '../codec'
import {
  bare,
  builderOf,
  type FieldsOf,
  type Forms,
  numberOf,
  orZeros,
  type VaultInstruction,
} from './instruction'

const ADMIN_ACTIONS = ['announce', 'apply', 'cancel'] as const
export type AdminAction = (typeof ADMIN_ACTIONS)[number]

// The admin signs 11 to 14 and 22, except that a new admin applies its own announcement, which proves that its key exists.
// `authorize_restore` has no apply: an opening consumes it.
const ADMIN_ACCOUNTS = { admin: 's', config: 'w' } as const

export const ADMIN_FORMS = {
  /** Creates config, trees, known states and payout queue. 73 bytes. */
  initialize: {
    data: struct({
      instruction: numberOf('initialize'),
      admin: fixed(32),
      /** Seconds from an exit request to its deadline, 1 to 31,536,000. */
      exit_delay_s: uint,
      /** Of the cluster; the program computes the venue id from it. */
      genesis_hash: fixed(32),
    }),
    accounts: {
      /** Pays, and must be the upgrade authority if the upgradeable loader owns the program. */
      deployer: 'sw',
      config: 'w',
      tree: 'w',
      ring: 'w',
      queue: 'w',
      program: '',
      /** Of the upgradeable loader; the program's address under any other loader. */
      program_data: '',
      system_program: '',
    },
  },
  /** Creates a mint's record and its vault token account. 17 bytes; both minimums are immutable afterwards. */
  register_mint: {
    data: struct({
      instruction: numberOf('register_mint'),
      /** Smallest deposit in base units, at least 1. */
      min_deposit: u64,
      /** Smallest note an exit request may name, in base units, at least 1. */
      min_exit: u64,
    }),
    accounts: {
      admin: 's',
      payer: 'sw',
      config: 'w',
      mint_record: 'w',
      mint: '',
      vault_token: 'w',
      /** The owner of the mint: SPL Token or Token-2022. */
      token_program: '',
      system_program: '',
    },
  },
  /**
   * Effective twice the exit delay after the announcement, void 30 days later; `admin` is the new one for `apply`. 34 bytes; `key` is
   * zeros unless announced.
   */
  set_admin: {
    data: struct({
      instruction: numberOf('set_admin'),
      action: word(ADMIN_ACTIONS),
      key: orZeros(fixed(32)),
    }),
    accounts: ADMIN_ACCOUNTS,
  },
  /** Effective a quarter of the exit delay after the announcement. */
  authorize_restore: {
    data: struct({ instruction: numberOf('authorize_restore'), action: word(ADMIN_ACTIONS) }),
    accounts: ADMIN_ACCOUNTS,
  },
  /** Stops `deposit` and `settle` at once; exits and payouts continue. */
  pause: { data: bare('pause'), accounts: ADMIN_ACCOUNTS },
  unpause: { data: bare('unpause'), accounts: ADMIN_ACCOUNTS },
  /** 9 bytes. Extends the deadline of each open exit request; the next waits 90 days, and until these are over. */
  declare_outage: {
    data: struct({
      instruction: numberOf('declare_outage'),
      /** 1 to three times the exit delay. */
      extra_s: uint,
    }),
    accounts: ADMIN_ACCOUNTS,
  },
} satisfies Forms

/** Omit `program_data` if the loader keeps no such account. */
export type InitializeFields = Omit<FieldsOf<typeof ADMIN_FORMS.initialize>, 'program_data'> & {
  readonly program_data?: Uint8Array
}
export const initializeInstruction = ({ program_data, ...fields }: InitializeFields): VaultInstruction =>
  builderOf(ADMIN_FORMS.initialize)({ ...fields, program_data: program_data ?? fields.program })

export const registerMintInstruction = builderOf(ADMIN_FORMS.register_mint)
export const pauseInstruction = builderOf(ADMIN_FORMS.pause)
export const unpauseInstruction = builderOf(ADMIN_FORMS.unpause)
export const declareOutageInstruction = builderOf(ADMIN_FORMS.declare_outage)

type AdminFields = { program: Uint8Array; admin: Uint8Array }
type KeyAction = { action: 'announce'; key: Uint8Array } | { action: 'apply' | 'cancel'; key?: undefined }

export const setAdminInstruction = (fields: AdminFields & KeyAction): VaultInstruction =>
  builderOf(ADMIN_FORMS.set_admin)({ ...fields, key: fields.key })
export const authorizeRestoreInstruction = (
  fields: AdminFields & { action: 'announce' | 'cancel' },
): VaultInstruction => builderOf(ADMIN_FORMS.authorize_restore)(fields)
