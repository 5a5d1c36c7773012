/** Builds the instructions of deployer and admin: `initialize` (0), `register_mint` (1), 11 to 14, 22, and `announce` with its topics. */
import { utf8 } from '../bytes'
import { fixed, mapped, struct, u64, uint, word, zeros } from '../codec'
import { findAddress } from './addresses'
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
// `authorize_restore` has no apply: an opening consumes it, and a newer position of the journal makes it void.
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

/**
 * Lists in the order of their numbers from 1, with the bytes of the id and of the value. The first three are lists of members
 * without a value; the others have one value for each id, or one value and no id.
 */
export const ANNOUNCED_LISTS = {
  /** Id: compose hash. */
  build: { id: 32, value: 0 },
  /** Id: SHA-256(MRTD ‖ RTMR0 ‖ RTMR1 ‖ RTMR2 ‖ XFAM), 200 bytes hashed. */
  image: { id: 32, value: 0 },
  /** Id: PPID of a machine. */
  platform: { id: 16, value: 0 },
  /** Id: FMSPC. Value: a minimum. */
  fmspc_minimum: { id: 6, value: 18 },
  /** Value: a minimum; component 1 is the TDX module's major version, which must be equal. */
  tee_tcb_minimum: { id: 0, value: 18 },
  /** Value: a minimum whose SVN is the quoting enclave's. */
  qe_minimum: { id: 0, value: 18 },
  /** Value: compressed P-256 key that certifies the platforms' authority. */
  attestation_root: { id: 0, value: 33 },
  /** Value: Ed25519 key. */
  epoch_authority: { id: 0, value: 32 },
  /** Value: app id of the KMS. */
  app_id: { id: 0, value: 20 },
  /** Value: SHA-256 of the payload of the event `key-provider`. */
  key_provider: { id: 0, value: 32 },
} as const
export type AnnouncedList = keyof typeof ANNOUNCED_LISTS

const LISTS = Object.keys(ANNOUNCED_LISTS) as AnnouncedList[]
const ID_BYTES = 32
const VALUE_BYTES = 40

/** Shorter bytes with zeros behind them. */
const padded = (width: number) =>
  mapped(
    fixed(width),
    (bytes) => bytes,
    (bytes: Uint8Array) => {
      const whole = new Uint8Array(width)
      whole.set(bytes)
      return whole
    },
  )

/** A minimum as the value of an announcement, 18 bytes: sixteen components and one more SVN (of the PCE or the QE). */
const MINIMUM = struct({ components: fixed(16), svn: fixed(2) })
export const minimumValue = (components: Uint8Array, svn: number): Uint8Array =>
  MINIMUM.encode({ components, svn: Uint8Array.of(svn & 0xff, svn >> 8) })

/** Whether sixteen components and the SVN behind them are each at least the minimum's, as the program compares them. */
export function reachesMinimum(value: Uint8Array, minimum: Uint8Array): boolean {
  const [have, want] = [MINIMUM.decode(value), MINIMUM.decode(minimum)]
  const svnOf = ({ svn }: typeof have): number => svn[0]! + 256 * svn[1]!
  return have.components.every((one, at) => one >= want.components[at]!) && svnOf(have) >= svnOf(want)
}

const ANNOUNCE_ACTIONS = ['announce', 'cancel', 'revoke', 'raise'] as const

const TOPIC = { list: word(LISTS, 1), id: padded(ID_BYTES) } as const

/** 75 bytes. The admin signs; the payer pays the rent of a new record. */
const ANNOUNCE = struct({
  instruction: numberOf('announce'),
  action: word(ANNOUNCE_ACTIONS),
  ...TOPIC,
  /** Zeros for `cancel` and `revoke`. */
  value: padded(VALUE_BYTES),
})

/** 136 bytes. `value` holds while `since_s` is not 0, until `next_at_s`, when that is not 0; then `next` does. */
export const ANNOUNCEMENT_FIELDS = {
  list: TOPIC.list,
  zero: zeros(4),
  id: TOPIC.id,
  since_s: uint,
  value: fixed(VALUE_BYTES),
  next_at_s: uint,
  next: fixed(VALUE_BYTES),
} as const

/** The content of a record, without padding: `value` holds until `next` does. */
export type AnnouncedEntry = {
  list: AnnouncedList
  id: Uint8Array
  value: Uint8Array | undefined
  next: { value: Uint8Array; from_s: number } | undefined
}

export function announcedEntry(
  record: { [field in 'id' | 'value' | 'next']: Uint8Array } & {
    list: AnnouncedList
    since_s: number
    next_at_s: number
  },
): AnnouncedEntry {
  const { list, id, since_s, next_at_s } = record
  const widths = ANNOUNCED_LISTS[list]
  const [value, next] = [record.value.slice(0, widths.value), record.next.slice(0, widths.value)]
  return {
    list,
    id: id.slice(0, widths.id),
    value: since_s === 0 ? undefined : value,
    next: next_at_s === 0 ? undefined : { value: next, from_s: next_at_s },
  }
}

/** The value that holds at a second of the chain's clock, also where the record does not show it yet. */
export const holdingAt = ({ value, next }: AnnouncedEntry, now_s: number): Uint8Array | undefined =>
  next !== undefined && now_s >= next.from_s ? next.value : value

/** Lists of which a member can be revoked at once, while another is admitted only twice the exit delay later. */
const NEEDED_TWICE = ['build', 'image', 'platform'] as const satisfies readonly AnnouncedList[]

/** The lists of which fewer than two members hold: revoking one would leave no way to open an epoch. */
export const withoutSuccessor = (entries: readonly AnnouncedEntry[], now_s: number): AnnouncedList[] =>
  NEEDED_TWICE.filter((list) => {
    const members = entries.filter((one) => one.list === list && holdingAt(one, now_s) !== undefined)
    return members.length < 2
  })

/** The event of each `announce`; `effective_at_s` in unix seconds of the chain's clock. */
export const ANNOUNCED = struct({
  action: word(ANNOUNCE_ACTIONS),
  ...TOPIC,
  value: fixed(VALUE_BYTES),
  effective_at_s: uint,
})

export const ANNOUNCE_FORMS = {
  announce: {
    data: ANNOUNCE,
    accounts: {
      admin: 's',
      payer: 'sw',
      config: '',
      announcement: 'w',
      system_program: '',
      program: '',
    },
  },
} satisfies Forms

/** `id`: none for a single value. */
export type AnnouncedTopic = { list: AnnouncedList; id?: Uint8Array }

/** Seeds of a topic's record. */
export const announcementSeeds = ({ list, id }: AnnouncedTopic): readonly Uint8Array[] => [
  Uint8Array.of(...utf8('announced'), LISTS.indexOf(list) + 1),
  padded(ID_BYTES).encode(id ?? new Uint8Array()),
]

/** Address of the record of a topic. */
export const announcementAddress = (program: Uint8Array, topic: AnnouncedTopic): Uint8Array =>
  findAddress(announcementSeeds(topic), program).address

export type AnnounceFields = AnnouncedTopic & {
  program: Uint8Array
  admin: Uint8Array
  payer: Uint8Array
} & (
    | { action: 'announce' | 'raise'; value?: Uint8Array }
    | { action: 'cancel' | 'revoke'; value?: undefined }
  )

/**
 * Effective twice the exit delay after the announcement, at once before the first epoch; `revoke` and `raise` at once.
 * @throws RangeError when id or value has another width than its list
 */
export function announceInstruction(fields: AnnounceFields): VaultInstruction {
  const { program, list, id = new Uint8Array(), value = new Uint8Array() } = fields
  const widths = ANNOUNCED_LISTS[list]
  const valued = fields.action === 'announce' || fields.action === 'raise'
  if (id.length !== widths.id || value.length !== (valued ? widths.value : 0))
    throw new RangeError(`an id or value of ${list} has another width`)
  const announcement = announcementAddress(program, { list, id })
  return builderOf(ANNOUNCE_FORMS.announce)({ ...fields, id, value, announcement })
}
