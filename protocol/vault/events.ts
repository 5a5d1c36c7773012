/**
 * Describes and decodes the events of the vault program: inner instructions that the program sends to itself.
 *
 * Only the program can sign for the config account that such an instruction names, so an inner instruction of the program
 * with this discriminator in a successful transaction is genuine. Readers index these and nothing else. Kinds and layouts
 * are only added.
 */
import { decodeBase58 } from '../base58'
import { bool, type Codec, fixed, mapped, struct, u16, u64, uint, union, type ValueOf, word } from '../codec'
import { INNER_DATA_CHARACTERS_MAX } from '../limits'
import { ESCAPE_RANKS } from './accounts'
import { ANNOUNCED } from './admin'
import { EPOCH_ATTESTED, PLATFORM_REGISTERED } from './epochs'
import { decoded, type Forms, lists, numberOf, orZeros } from './instruction'
import { PAYOUT_KINDS, SETTLE_OUTPUT, type SettleOutput } from './settle'

const DEPOSITED = struct({
  leaf_index: uint,
  mint: fixed(32),
  amount: u64,
  inner: fixed(32),
  commitment: fixed(32),
  /** Note root after the append. */
  note_root: fixed(32),
  depositor: fixed(32),
})

/** A payout of a batch as the payout queue holds it. */
const QUEUED_PAYOUT = struct({
  /** Number and place of the queue's entry. */
  number: uint,
  place: u16,
  kind: word(PAYOUT_KINDS),
  mint: fixed(32),
  amount: u64,
  destination: fixed(32),
  /** Inner hash of the refund note. */
  inner: fixed(32),
  /** Exits: the request's nullifier. */
  nullifier: orZeros(fixed(32)),
  /** The batch marked the exit's request as served. */
  served: bool,
})
type QueuedPayout = ValueOf<typeof QUEUED_PAYOUT>

const SETTLED_HEADER = {
  batch: uint,
  epoch: uint,
  /** Output i has leaf index `first_leaf_index + i`. */
  first_leaf_index: uint,
  /** Roots and count of nullifiers after the batch. */
  note_root: fixed(32),
  spent_root: fixed(32),
  spent_count: uint,
}
type BatchLists = { nullifiers: Uint8Array[]; outputs: SettleOutput[]; payouts: QueuedPayout[] }
const SETTLED_LISTS: Codec<BatchLists> = lists<BatchLists>({
  nullifiers: fixed(32),
  outputs: SETTLE_OUTPUT,
  payouts: QUEUED_PAYOUT,
})
const SETTLED_LAYOUT = struct({ ...SETTLED_HEADER, lists: SETTLED_LISTS })

/** One landed settlement batch. */
const SETTLED: Codec<Omit<ValueOf<typeof SETTLED_LAYOUT>, 'lists'> & BatchLists> = mapped(
  SETTLED_LAYOUT,
  ({ lists, ...header }) => ({ ...header, ...lists }),
  (event) => ({ ...event, lists: event }),
)

const EPOCH_OPENED = struct({
  epoch: uint,
  generation: uint,
  boot_nonce: fixed(16),
  compose_hash: fixed(32),
  journal_seq: uint,
  journal_head: fixed(32),
  restored: bool,
})

const EXIT_REQUESTED = struct({
  nullifier: fixed(32),
  commitment: fixed(32),
  leaf_index: uint,
  mint: fixed(32),
  amount: u64,
  destination: fixed(32),
  refund_inner: fixed(32),
  deadline_s: uint,
})

/** In the order of their numbers; each but the first returned the amount as a refund note. */
const PAYOUT_OUTCOMES = [
  'paid',
  'destination_missing',
  'destination_wrong_mint',
  'destination_uninitialized',
  'destination_frozen',
  'destination_is_vault',
  'destination_refuses',
  'vault_frozen',
  'destination_too_large',
  'refund_due',
] as const
export type PayoutOutcome = (typeof PAYOUT_OUTCOMES)[number]

/** One entry that left the payout queue. */
const PAID_LAYOUT = struct({
  number: uint,
  payout: word(PAYOUT_KINDS),
  outcome: word(PAYOUT_OUTCOMES),
  mint: fixed(32),
  amount: u64,
  destination: fixed(32),
  refund: struct({ leaf_index: uint, commitment: fixed(32) }),
  inner: fixed(32),
  /** Exits: the request's nullifier. */
  nullifier: orZeros(fixed(32)),
})
type RefundNote = ValueOf<typeof PAID_LAYOUT>['refund']

/** `refund`: the refund note, in deposit form; undefined when paid. */
const PAID: Codec<Omit<ValueOf<typeof PAID_LAYOUT>, 'refund'> & { refund: RefundNote | undefined }> = mapped(
  PAID_LAYOUT,
  (event) => ({ ...event, refund: event.outcome === 'paid' ? undefined : event.refund }),
  (event) => ({ ...event, refund: event.refund ?? { leaf_index: 0, commitment: new Uint8Array(32) } }),
)

const ESCAPE_CLAIMED = struct({
  nullifier: fixed(32),
  commitment: fixed(32),
  leaf_index: uint,
  mint: fixed(32),
  amount: u64,
  destination: fixed(32),
  owner: fixed(32),
  rank: word(ESCAPE_RANKS),
  /** Unix seconds of the chain's clock from which `pay_escape` pays. */
  due_s: uint,
})

const ESCAPE_PAID = struct({
  nullifier: fixed(32),
  mint: fixed(32),
  amount: u64,
  /** At most the amount. */
  paid: u64,
  destination: fixed(32),
})

/** The discriminator 255, the event's number from 1, its fields. */
export const EVENT = struct({
  instruction: numberOf('emit'),
  event: union(
    'kind',
    {
      deposited: DEPOSITED,
      settled: SETTLED,
      epoch_opened: EPOCH_OPENED,
      exit_requested: EXIT_REQUESTED,
      exit_refused: struct({ nullifier: fixed(32), refuser: fixed(32) }),
      frozen: struct({ nullifier: fixed(32), frozen_at_s: uint }),
      paid: PAID,
      exit_closed: struct({ nullifier: fixed(32), served: bool }),
      escape_claimed: ESCAPE_CLAIMED,
      escape_challenged: struct({ nullifier: fixed(32), challenger: fixed(32) }),
      escape_paid: ESCAPE_PAID,
      escape_redirected: struct({ nullifier: fixed(32), sequence: uint, destination: fixed(32) }),
      announced: ANNOUNCED,
      platform_registered: PLATFORM_REGISTERED,
      epoch_attested: EPOCH_ATTESTED,
    },
    1,
  ),
})

export const EVENT_FORMS = { emit: { data: EVENT, accounts: { config: 's' } } } satisfies Forms

export type VaultEvent = ValueOf<typeof EVENT>['event']
export type EventOf<K extends VaultEvent['kind']> = Extract<VaultEvent, { kind: K }>

/** The event in an inner instruction's data; undefined when the data is not exactly one event. */
export const decodeEvent = (data: Uint8Array): VaultEvent | undefined => decoded(EVENT, data)?.event

/** Of `meta.innerInstructions`: the calls of outer instruction `index`, in order; `data` is base58. */
type InnerGroup = {
  readonly index: number
  readonly instructions: readonly { readonly programIdIndex: number; readonly data: string }[]
}

/** The accounts of a transaction: its own, and those loaded from lookup tables. */
type NamedAccounts = {
  readonly own: readonly string[]
  readonly loaded?:
    | { readonly writable: readonly string[]; readonly readonly: readonly string[] }
    | null
    | undefined
}

/** `outer`: index of the outer instruction; `inner`: index of the call within its group. */
type InnerData = { outer: number; inner: number; data: Uint8Array }

/**
 * Data of the calls that `program` received from programs in one landed transaction, its own events included, in the
 * order of execution. An instruction with an unknown account, malformed base58 or too much data is skipped: no honest
 * node sends one.
 */
export function innerDataOf(
  program: string,
  { own, loaded }: NamedAccounts,
  groups: readonly InnerGroup[] | null | undefined,
): InnerData[] {
  const addresses = [...own, ...(loaded?.writable ?? []), ...(loaded?.readonly ?? [])]
  const found: InnerData[] = []
  for (const { index: outer, instructions } of groups ?? []) {
    for (const [inner, { programIdIndex, data: text }] of instructions.entries()) {
      if (addresses[programIdIndex] !== program || text.length > INNER_DATA_CHARACTERS_MAX) continue
      const data = decodeBase58(text)
      if (data !== undefined) found.push({ outer, inner, data })
    }
  }
  return found
}
