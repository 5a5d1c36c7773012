/** Builds and decodes `settle` (4), the instruction of one settlement batch. */
import { equalBytes } from '../bytes'
import {
  COMPUTE_BUDGET_PROGRAM,
  exitRequestAddress,
  mintRecordAddress,
  vaultAddresses,
  vaultTokenAddress,
} from './addresses'
import { INSTRUCTION, type InstructionAccount, listAccounts, type VaultInstruction } from './instruction'
import { LayoutReader, LayoutWriter, readLayout } from './layout'

const SETTLE_HEADER_BYTES = 133
const NULLIFIER_BYTES = 32
const OUTPUT_BYTES = 48
const PAYOUT_BYTES = 43

export const PAYOUT_KINDS = ['withdrawal', 'exit'] as const
export type PayoutKind = (typeof PAYOUT_KINDS)[number]

export type SettleOutput = { commitment: Uint8Array; memo: Uint8Array }

/** A payout in the data; its accounts are in the account list. */
type SettlePayout = {
  kind: PayoutKind
  /** Index of its mint among the batch's payout mints. */
  mint: number
  /** Exits: index of the request's nullifier among the batch's nullifiers. Withdrawals: 0. */
  nullifier: number
  amount: bigint
  /** Inner hash of the refund note. Exits: the request's `refund_inner`. */
  inner: Uint8Array
}

/**
 * The data of `settle`. Batch, nullifiers, outputs, payouts and spent root are the immutable payload of a batch id.
 *
 * | at | bytes | field |
 * |---|---|---|
 * | 0 | 1 | discriminator |
 * | 1 | 8 | epoch |
 * | 9 | 8 | batch: the config's `last_batch` plus one |
 * | 17 | 8 | cited leaf count |
 * | 25 | 32 | cited note root: with the leaf count, a known state |
 * | 57 | 32 | spent root after the batch |
 * | 89 | 8 | journal_seq |
 * | 97 | 32 | journal_head |
 * | 129 | 4 | counts, one byte each: nullifiers, outputs, payouts, payout mints |
 * | 133 | 32 each | nullifiers, strictly ascending, field elements, not zero |
 * | | 48 each | outputs: commitment (32, strictly ascending, field elements, not zero), memo (16) |
 * | | 43 each | payouts: kind u8, mint u8, nullifier u8, amount u64, inner (32) |
 */
export type SettleData = {
  epoch: number
  batch: number
  cited_leaf_count: number
  cited_root: Uint8Array
  spent_root: Uint8Array
  journal_seq: number
  journal_head: Uint8Array
  payout_mints: number
  nullifiers: readonly Uint8Array[]
  outputs: readonly SettleOutput[]
  payouts: readonly SettlePayout[]
}

/** Size of the data for the given counts. */
export const settleDataBytes = (nullifiers: number, outputs: number, payouts: number): number =>
  SETTLE_HEADER_BYTES + nullifiers * NULLIFIER_BYTES + outputs * OUTPUT_BYTES + payouts * PAYOUT_BYTES

export function encodeSettleData(fields: SettleData): Uint8Array {
  const { nullifiers, outputs, payouts } = fields
  const writer = new LayoutWriter(settleDataBytes(nullifiers.length, outputs.length, payouts.length))
    .u8(INSTRUCTION.settle)
    .u64(fields.epoch)
    .u64(fields.batch)
    .u64(fields.cited_leaf_count)
    .bytes(fields.cited_root, 32)
    .bytes(fields.spent_root, 32)
    .u64(fields.journal_seq)
    .bytes(fields.journal_head, 32)
    .u8(nullifiers.length)
    .u8(outputs.length)
    .u8(payouts.length)
    .u8(fields.payout_mints)
  for (const nullifier of nullifiers) writer.bytes(nullifier, 32)
  for (const { commitment, memo } of outputs) writer.bytes(commitment, 32).bytes(memo, 16)
  for (const { kind, mint, nullifier, amount, inner } of payouts)
    writer.u8(PAYOUT_KINDS.indexOf(kind)).u8(mint).u8(nullifier).u64(amount).bytes(inner, 32)
  return writer.finish()
}

function readSettleData(data: Uint8Array): SettleData | undefined {
  const reader = new LayoutReader(data, 1)
  const header = {
    epoch: reader.count(),
    batch: reader.count(),
    cited_leaf_count: reader.count(),
    cited_root: reader.bytes(32),
    spent_root: reader.bytes(32),
    journal_seq: reader.count(),
    journal_head: reader.bytes(32),
  }
  const [nullifier_count, output_count, payout_count] = [reader.u8(), reader.u8(), reader.u8()]
  const payout_mints = reader.u8()
  if (data.length !== settleDataBytes(nullifier_count, output_count, payout_count)) return undefined
  const nullifiers = Array.from({ length: nullifier_count }, () => reader.bytes(32))
  const outputs = Array.from({ length: output_count }, () => ({
    commitment: reader.bytes(32),
    memo: reader.bytes(16),
  }))
  const payouts: SettlePayout[] = []
  for (let at = 0; at < payout_count; at++) {
    const kind = PAYOUT_KINDS[reader.u8()]
    if (kind === undefined) return undefined
    const [mint, nullifier] = [reader.u8(), reader.u8()]
    payouts.push({ kind, mint, nullifier, amount: reader.u64(), inner: reader.bytes(32) })
  }
  return { ...header, payout_mints, nullifiers, outputs, payouts }
}

/** Undefined when the data is not exactly a `settle`. */
export function decodeSettleData(data: Uint8Array): SettleData | undefined {
  if (data.length < SETTLE_HEADER_BYTES || data[0] !== INSTRUCTION.settle) return undefined
  return readLayout(() => readSettleData(data))
}

const SETTLE_ACCOUNTS = [
  { name: 'settlement_signer', signer: true, writable: false },
  { name: 'config', signer: false, writable: true },
  { name: 'tree', signer: false, writable: true },
  { name: 'ring', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
] as const

/** Per payout mint. */
const SETTLE_MINT_ACCOUNTS = [
  { name: 'mint_record', signer: false, writable: true },
  { name: 'mint', signer: false, writable: false },
  { name: 'vault_token', signer: false, writable: true },
  { name: 'token_program', signer: false, writable: false },
] as const

/** Per payout, after the accounts of all mints. */
const SETTLE_WITHDRAWAL_ACCOUNTS = [{ name: 'destination', signer: false, writable: true }] as const

const SETTLE_EXIT_ACCOUNTS = [
  { name: 'destination', signer: false, writable: true },
  { name: 'exit_request', signer: false, writable: true },
  { name: 'bond_payer', signer: false, writable: true },
] as const

export type PayoutFields = {
  kind: PayoutKind
  mint: Uint8Array
  token_program: Uint8Array
  destination: Uint8Array
  amount: bigint
  /** Inner hash of the refund note, appended when the destination is unusable. */
  inner: Uint8Array
  /** Exits only: the request's nullifier (one of the batch's) and the payer of its bond. */
  exit?: { nullifier: Uint8Array; bond_payer: Uint8Array }
}

export type SettleFields = Omit<SettleData, 'payouts' | 'payout_mints'> & {
  program: Uint8Array
  settlement_signer: Uint8Array
  payouts: readonly PayoutFields[]
}

function payoutData(
  payout: PayoutFields,
  mints: PayoutFields[],
  nullifiers: readonly Uint8Array[],
): SettlePayout {
  const { kind, amount, inner, exit } = payout
  const mint = mints.findIndex((other) => equalBytes(other.mint, payout.mint))
  if ((kind === 'exit') !== (exit !== undefined)) throw new RangeError('exactly an exit names its request')
  if (exit === undefined) return { kind, mint, nullifier: 0, amount, inner }
  const nullifier = nullifiers.findIndex((other) => equalBytes(other, exit.nullifier))
  if (nullifier === -1) throw new RangeError('an exit spends its nullifier in its own batch')
  return { kind, mint, nullifier, amount, inner }
}

function payoutAccounts(program: Uint8Array, payout: PayoutFields): InstructionAccount[] {
  const { destination, exit } = payout
  const accounts =
    exit === undefined
      ? listAccounts(SETTLE_WITHDRAWAL_ACCOUNTS, { destination })
      : listAccounts(SETTLE_EXIT_ACCOUNTS, {
          destination,
          exit_request: exitRequestAddress(program, exit.nullifier),
          bond_payer: exit.bond_payer,
        })
  // An invoked program may not be writable: a payout to one is listed read-only and gets refunded.
  const invoked = [program, COMPUTE_BUDGET_PROGRAM].some((one) => equalBytes(one, destination))
  accounts[0]!.writable = !invoked
  return accounts
}

export function settleInstruction(fields: SettleFields): VaultInstruction {
  const { program, settlement_signer } = fields
  const mints: PayoutFields[] = []
  for (const payout of fields.payouts)
    if (!mints.some((other) => equalBytes(other.mint, payout.mint))) mints.push(payout)
  const payouts = fields.payouts.map((payout) => payoutData(payout, mints, fields.nullifiers))
  const accounts = listAccounts(SETTLE_ACCOUNTS, { ...vaultAddresses(program), settlement_signer })
  for (const { mint, token_program } of mints)
    accounts.push(
      ...listAccounts(SETTLE_MINT_ACCOUNTS, {
        mint_record: mintRecordAddress(program, mint),
        mint,
        vault_token: vaultTokenAddress(program, mint),
        token_program,
      }),
    )
  for (const payout of fields.payouts) accounts.push(...payoutAccounts(program, payout))
  return { program, accounts, data: encodeSettleData({ ...fields, payouts, payout_mints: mints.length }) }
}
