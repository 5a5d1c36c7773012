/** Builds and decodes `settle` (4), the instruction of one settlement batch. */
import { equalBytes } from '../bytes'
import {
  bool,
  type Codec,
  fixed,
  list,
  mapped,
  struct,
  u8,
  u16,
  u64,
  uint,
  type ValueOf,
  word,
} from '../codec'
import { PAY_ENTRIES_MAX, TREE_DEPTH } from '../limits'
import { COMPUTE_BUDGET_PROGRAM, exitRequestAddress, mintRecordAddress, vaultAddresses } from './addresses'
import {
  bare,
  builderOf,
  decoded,
  type Forms,
  listFor,
  lists,
  numberOf,
  type VaultInstruction,
} from './instruction'

export const PAYOUT_KINDS = ['withdrawal', 'exit'] as const

/** 48 bytes. */
export const SETTLE_OUTPUT = struct({ commitment: fixed(32), memo: fixed(16) })
export type SettleOutput = ValueOf<typeof SETTLE_OUTPUT>

/** 75 bytes. */
const SETTLE_PAYOUT = struct({
  kind: word(PAYOUT_KINDS),
  /** Index of its mint among the batch's payout mints. */
  mint: u8,
  /** Exits: index of the request's nullifier among the batch's nullifiers, each in one payout. Withdrawals: 0. */
  nullifier: u8,
  /** Base units, not 0. */
  amount: u64,
  /** Token account that `pay` pays. */
  destination: fixed(32),
  /** Inner hash of the refund note. Exits: the request's `refund_inner`. */
  inner: fixed(32),
})
type SettlePayout = ValueOf<typeof SETTLE_PAYOUT>

type BatchLists = {
  /** Strictly ascending field elements, not zero. */
  nullifiers: readonly Uint8Array[]
  /** Commitments strictly ascending, field elements, not zero. */
  outputs: readonly SettleOutput[]
  payouts: readonly SettlePayout[]
}

const SETTLE_HEADER = {
  instruction: numberOf('settle'),
  epoch: uint,
  /** The config's `last_batch` plus one. */
  batch: uint,
  /** With `cited_root` a known state. */
  cited_leaf_count: uint,
  cited_root: fixed(32),
  /** Stored if newer than the config's, ignored if older. */
  journal_seq: uint,
  journal_head: fixed(32),
  payout_mints: u8,
}
const SETTLE_LISTS: Codec<BatchLists> = lists<BatchLists>({
  nullifiers: fixed(32),
  outputs: SETTLE_OUTPUT,
  payouts: SETTLE_PAYOUT,
})

/** 101 bytes, 32 for each nullifier, 48 for each output, 75 for each payout. */
const SETTLE = struct({ ...SETTLE_HEADER, lists: SETTLE_LISTS })

/** The data of `settle`. Batch, nullifiers, outputs and payouts are the immutable payload of a batch id. */
export type SettleData = Omit<ValueOf<typeof SETTLE>, 'lists'> & BatchLists

const SETTLE_DATA: Codec<SettleData> = mapped(
  SETTLE,
  ({ lists, ...header }) => ({ ...header, ...lists }),
  (data) => ({ ...data, lists: data }),
)

/** Size of the data for the given counts. */
export const settleDataBytes = (nullifiers: number, outputs: number, payouts: number): number =>
  101 + nullifiers * 32 + outputs * SETTLE_OUTPUT.size! + payouts * SETTLE_PAYOUT.size!

export const encodeSettleData = (fields: SettleData): Uint8Array => SETTLE_DATA.encode(fields)

/** Undefined when the data is not exactly a `settle`. */
export const decodeSettleData = (data: Uint8Array): SettleData | undefined => decoded(SETTLE_DATA, data)

/**
 * Compute units that a transaction with this one instruction needs at most: a function of the batch's shape, with the
 * worst place in both trees and in the ring.
 */
export function settleUnits(shape: {
  nullifiers: number
  outputs: number
  withdrawals: number
  exits: number
}): number {
  const { nullifiers, outputs, withdrawals, exits } = shape
  return 18_550 + 56 * nullifiers + appendUnits(outputs) + 2_400 * withdrawals + 4_400 * exits
}

/** Units of appending notes where the first of them ends the left half of the tree: the most of any place. */
function appendUnits(notes: number): number {
  if (notes === 0) return 0
  let hashes = 0
  let nodes = notes
  for (let height = 0; height < TREE_DEPTH; height++) {
    const above = height === TREE_DEPTH - 1 ? 1 : Math.floor(nodes / 2) + 1
    nodes = notes === 1 ? 1 : above
    hashes += nodes
  }
  return 1_200 + 60 * notes + 835 * hashes
}

const SETTLE_ACCOUNTS = { settlement_signer: 's', config: 'w', tree: 'w', ring: 'w', program: '' } as const

/** A payout becomes an entry of the payout queue, which `pay` closes. */
export type PayoutFields = {
  mint: Uint8Array
  destination: Uint8Array
  amount: bigint
  /** Inner hash of the refund note, appended when the destination cannot receive. */
  inner: Uint8Array
  /** Exits: the request's nullifier, one of the batch's. Undefined for a withdrawal. */
  nullifier?: Uint8Array | undefined
}

export type SettleFields = Omit<SettleData, 'payouts' | 'payout_mints'> & {
  program: Uint8Array
  settlement_signer: Uint8Array
  payouts: readonly PayoutFields[]
}

const indexOf = (values: readonly Uint8Array[], value: Uint8Array): number =>
  values.findIndex((other) => equalBytes(other, value))

/** @throws RangeError for an exit whose nullifier the batch does not spend. */
export function settleInstruction(fields: SettleFields): VaultInstruction {
  const { program, nullifiers } = fields
  const accounts = listFor(SETTLE_ACCOUNTS, fields)
  const writable = (address: Uint8Array) => ({ address, signer: false, writable: true })
  const mints: Uint8Array[] = []
  for (const { mint } of fields.payouts) if (indexOf(mints, mint) === -1) mints.push(mint)
  const payouts = fields.payouts.map(({ nullifier, ...payout }): SettlePayout => {
    const mint = indexOf(mints, payout.mint)
    if (nullifier === undefined) return { ...payout, kind: 'withdrawal', mint, nullifier: 0 }
    const place = indexOf(nullifiers, nullifier)
    if (place === -1) throw new RangeError('an exit spends its nullifier in its own batch')
    return { ...payout, kind: 'exit', mint, nullifier: place }
  })
  if (payouts.length > 0) accounts.push(writable(vaultAddresses(program).queue))
  for (const mint of mints) accounts.push(writable(mintRecordAddress(program, mint)))
  for (const { nullifier } of fields.payouts)
    if (nullifier !== undefined) accounts.push(writable(exitRequestAddress(program, nullifier)))
  return { program, accounts, data: encodeSettleData({ ...fields, payouts, payout_mints: mints.length }) }
}

/** Accounts behind the fixed ones: the queue where there are payouts, the record of each payout mint, each exit's request. */
export const SETTLE_FORMS = {
  settle: {
    data: SETTLE,
    accounts: SETTLE_ACCOUNTS,
    more: { payouts: { queue: 'w' }, payout_mint: { mint_record: 'w' }, exit: { exit_request: 'w' } },
  },
} satisfies Forms

/** `pay` closes open entries by a transfer, or by the refund note where the destination cannot receive. */
const PAY = struct({
  instruction: numberOf('pay'),
  /** True turns entries queued 7 days ago and earlier into their notes, without a transfer. */
  refund: bool,
  /** An entry that is not open under its number any more is skipped. */
  entries: list(struct({ place: u16, number: uint }), PAY_ENTRIES_MAX, u8),
})

const PAY_ACCOUNTS = { config: '', tree: 'w', ring: 'w', queue: 'w', program: '' } as const
/** Of each entry. */
const ENTRY_ACCOUNTS = {
  mint_record: 'w',
  mint: '',
  vault_token: 'w',
  token_program: '',
  destination: 'w',
} as const

type PayEntry = {
  place: number
  number: number
  mint: Uint8Array
  token_program: Uint8Array
  destination: Uint8Array
}

export function payInstruction(fields: {
  program: Uint8Array
  refund: boolean
  /** 1 to 8. */
  entries: readonly PayEntry[]
}): VaultInstruction {
  const { program, refund, entries } = fields
  const accounts = listFor(PAY_ACCOUNTS, { program })
  for (const entry of entries) {
    const own = listFor(ENTRY_ACCOUNTS, { ...entry, program })
    // An invoked program may not be writable: an entry for one is refunded, so it is read only.
    const invoked = [program, COMPUTE_BUDGET_PROGRAM].some((one) => equalBytes(one, entry.destination))
    if (invoked) own.at(-1)!.writable = false
    accounts.push(...own)
  }
  return { program, accounts, data: PAY.encode({ refund, entries: [...entries] }) }
}

/**
 * Compute units that a transaction with one `pay` of so many entries needs at most, independent of their destinations:
 * all become notes, or all are transferred by Token-2022.
 */
export const payUnits = (entries: number): number => 4_000 + 9_500 * entries + appendUnits(entries)

export const QUEUE_FORMS = {
  pay: { data: PAY, accounts: PAY_ACCOUNTS, more: { entry: ENTRY_ACCOUNTS } },
  grow_queue: {
    data: bare('grow_queue'),
    accounts: { payer: 'sw', config: '', queue: 'w', system_program: '' },
  },
} satisfies Forms

/** Adds 60 entries, up to 1,020; `payer` pays the rent. */
export const growQueueInstruction = (program: Uint8Array, payer: Uint8Array): VaultInstruction =>
  builderOf(QUEUE_FORMS.grow_queue)({ program, payer })
