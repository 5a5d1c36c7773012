/** The row of a final order: 104 bytes that stand in memory as in a snapshot, little-endian, unused bytes zero. */
import type { FinalOrder } from './final_order'
import type { Chunk } from './row_memory'

export const ROW_BYTES = 104
const STATUSES = ['filled', 'cancelled', 'expired'] as const
const REASONS = [
  'by_owner',
  'cancel_all',
  'disconnect',
  'deadman',
  'ioc_remainder',
  'fok_unfilled',
  'replaced',
  'note_exited',
  'instrument_closed',
  'vault_frozen',
] as const

const DIGEST_AT = 16
const REPLACES_AT = 48
const KEY_AT = 64
const STATUS_AT = 68
/** 0 = none, else 1 + its place in the list. */
const REASON_AT = 69
const REPLACES_FLAG_AT = 70
const ARRIVAL_AT = 72
const EXPIRY_AT = 80
const SEQ_AT = 88
const FINAL_MS_AT = 96

/** What a row holds beside the identity: names of account and key follow from the index of the key. */
export type FinalFacts = Pick<
  FinalOrder,
  'status' | 'reason' | 'arrival_slot' | 'expiry_slot' | 'seq' | 'final_unix_ms'
> & {
  key: number
  /** Whether the identity names an order that this one replaced. */
  replaces: boolean
}

/** The row at `at` is all zeros but for the identity: what a live order's row begins with is copied as it is. */
export function writeRow({ bytes, view }: Chunk, at: number, final: FinalFacts): void {
  bytes[at + REPLACES_FLAG_AT] = final.replaces ? 1 : 0
  view.setUint32(at + KEY_AT, final.key, true)
  bytes[at + STATUS_AT] = STATUSES.indexOf(final.status)
  bytes[at + REASON_AT] = final.reason === undefined ? 0 : 1 + placeOf(final.reason)
  view.setFloat64(at + ARRIVAL_AT, final.arrival_slot, true)
  view.setFloat64(at + EXPIRY_AT, final.expiry_slot, true)
  view.setFloat64(at + SEQ_AT, final.seq, true)
  view.setFloat64(at + FINAL_MS_AT, final.final_unix_ms, true)
}

export function readRow(
  { bytes, view }: Chunk,
  at: number,
): Omit<FinalOrder, 'account_id' | 'trading_key'> & { key: number } {
  const reason = bytes[at + REASON_AT]!
  return {
    order_id: bytes.slice(at, at + 16).toHex(),
    key: view.getUint32(at + KEY_AT, true),
    digest: bytes.slice(at + DIGEST_AT, at + DIGEST_AT + 32).toHex(),
    status: STATUSES[bytes[at + STATUS_AT]!]!,
    reason: reason === 0 ? undefined : REASONS[reason - 1]!,
    arrival_slot: view.getFloat64(at + ARRIVAL_AT, true),
    expiry_slot: expiryOf(view, at),
    replaces:
      bytes[at + REPLACES_FLAG_AT] === 1
        ? bytes.slice(at + REPLACES_AT, at + REPLACES_AT + 16).toHex()
        : undefined,
    seq: view.getFloat64(at + SEQ_AT, true),
    final_unix_ms: finalTimeOf(view, at),
  }
}

export const expiryOf = (view: DataView, at: number): number => view.getFloat64(at + EXPIRY_AT, true)
export const finalTimeOf = (view: DataView, at: number): number => view.getFloat64(at + FINAL_MS_AT, true)

function placeOf(reason: (typeof REASONS)[number]): number {
  const place = REASONS.indexOf(reason)
  if (place === -1) throw new Error('a reason without a place in the row')
  return place
}
