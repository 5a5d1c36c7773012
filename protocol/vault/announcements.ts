/**
 * Builds `announce` (23): what an attested epoch may rest on. Each topic has its own record, so that an opening names
 * exactly the ones it uses.
 */
import { utf8 } from '../bytes'
import { fixed, mapped, struct, uint, word, zeros } from '../codec'
import { findAddress } from './addresses'
import { builderOf, type Forms, numberOf, type VaultInstruction } from './instruction'

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

/** What a record says, without padding: `value` holds until `next` does. */
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
