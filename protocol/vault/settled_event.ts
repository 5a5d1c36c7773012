/**
 * Owns the event of one landed settlement batch.
 *
 * After kind: batch · epoch · first_leaf_index · note_root (32) · spent_root (32) · spent_count · counts (nullifiers,
 * outputs, payouts, one byte each) · zero u8 · nullifiers · outputs · payouts (178 bytes each: kind u8, outcome u8,
 * mint, amount, destination, refund_leaf_index, refund_commitment, inner, nullifier). Output i has leaf index
 * `first_leaf_index + i`; refund notes follow the outputs in payout order.
 */
import type { LayoutReader } from './layout'
import { PAYOUT_KINDS, type PayoutKind, type SettleOutput } from './settle_data'

/** Outcome numbers in order; every one but the first came back as a refund note. */
export const PAYOUT_OUTCOMES = [
  'paid',
  'destination_missing',
  'destination_wrong_mint',
  'destination_uninitialized',
  'destination_frozen',
  'destination_is_vault',
  'destination_refuses',
  'vault_frozen',
] as const
export type PayoutOutcome = (typeof PAYOUT_OUTCOMES)[number]

export type PayoutResult = {
  kind: PayoutKind
  outcome: PayoutOutcome
  mint: Uint8Array
  amount: bigint
  destination: Uint8Array
  inner: Uint8Array
  /** Exits: the request's nullifier. */
  nullifier: Uint8Array | undefined
  /** The deposit-form note that came back; undefined when paid. */
  refund: { leaf_index: number; commitment: Uint8Array } | undefined
}

export type SettledEvent = {
  kind: 'settled'
  batch: number
  epoch: number
  first_leaf_index: number
  /** Roots and count after the batch. */
  note_root: Uint8Array
  spent_root: Uint8Array
  spent_count: number
  nullifiers: Uint8Array[]
  outputs: SettleOutput[]
  payouts: PayoutResult[]
}

function readPayout(reader: LayoutReader): PayoutResult {
  const [kind, outcome] = [PAYOUT_KINDS[reader.u8()], PAYOUT_OUTCOMES[reader.u8()]]
  if (kind === undefined || outcome === undefined) throw new RangeError('unknown payout kind or outcome')
  const [mint, amount, destination] = [reader.bytes(32), reader.u64(), reader.bytes(32)]
  const refund = { leaf_index: reader.count(), commitment: reader.bytes(32) }
  const [inner, nullifier] = [reader.bytes(32), reader.bytes(32)]
  return {
    kind,
    outcome,
    mint,
    amount,
    destination,
    inner,
    nullifier: kind === 'exit' ? nullifier : undefined,
    refund: outcome === 'paid' ? undefined : refund,
  }
}

/** @throws RangeError when the bytes end early. */
export function readSettled(reader: LayoutReader): SettledEvent {
  const header = {
    batch: reader.count(),
    epoch: reader.count(),
    first_leaf_index: reader.count(),
    note_root: reader.bytes(32),
    spent_root: reader.bytes(32),
    spent_count: reader.count(),
  }
  const [nullifiers, outputs, payouts] = [reader.u8(), reader.u8(), reader.u8()]
  reader.skip(1)
  return {
    kind: 'settled',
    ...header,
    nullifiers: Array.from({ length: nullifiers }, () => reader.bytes(32)),
    outputs: Array.from({ length: outputs }, () => ({
      commitment: reader.bytes(32),
      memo: reader.bytes(16),
    })),
    payouts: Array.from({ length: payouts }, () => readPayout(reader)),
  }
}
