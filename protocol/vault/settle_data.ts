/**
 * Owns the data of `settle` (4): one settlement batch.
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
 *
 * Batch, nullifiers, outputs, payouts and spent root are the immutable payload of a batch id.
 */
import { INSTRUCTION } from './discriminators'
import { LayoutReader, LayoutWriter, readLayout } from './layout'

export const SETTLE_HEADER_BYTES = 133
export const NULLIFIER_BYTES = 32
export const OUTPUT_BYTES = 48
export const PAYOUT_BYTES = 43

/** Bounds the program enforces; a v1 transaction's 4,096 bytes end earlier. */
export const SETTLE_LIMITS = { nullifiers: 96, outputs: 80, payouts: 24, payout_mints: 8 } as const

export const PAYOUT_KINDS = ['withdrawal', 'exit'] as const
export type PayoutKind = (typeof PAYOUT_KINDS)[number]

export type SettleOutput = { commitment: Uint8Array; memo: Uint8Array }

/** A payout as the data carries it; its accounts stand in the account list. */
export type SettlePayout = {
  kind: PayoutKind
  /** Place of its mint among the batch's payout mints. */
  mint: number
  /** Exits: place of the request's nullifier among the batch's nullifiers. Withdrawals: 0. */
  nullifier: number
  amount: bigint
  /** Inner hash of the refund note. Exits: the request's `refund_inner`. */
  inner: Uint8Array
}

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

/** Bytes of `settle` data for given counts. */
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
