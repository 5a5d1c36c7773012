/** The result hash of an auction: what the journal keeps so that a differing replay is noticed. */
import { concatBytes, paddedAscii, u64Le, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { AuctionRecord } from './outcome'
import { hexBytes } from './state'

/**
 * SHA-256 over `tacit/auction/v1` ‖ symbol (16) ‖ batch ‖ slot ‖ reference ‖ seed (32) ‖ price (0 = none) ‖ volume ‖
 * for fills, cancelled and expired each: count ‖ ids ascending (16 bytes), fills with their lots. Integers are u64
 * little-endian, prices in ticks, quantities in lots.
 */
export function auctionHash(record: Omit<AuctionRecord, 'result_hash'>): Uint8Array {
  const id = (hex: string) => hexBytes(hex, 16)
  return sha256(
    concatBytes(
      utf8('tacit/auction/v1'),
      paddedAscii(record.symbol, 16),
      u64Le(record.batch),
      u64Le(record.slot),
      u64Le(record.reference_ticks),
      record.seed,
      u64Le(record.price_ticks ?? 0),
      u64Le(record.volume_lots),
      u64Le(record.fills.length),
      ...record.fills.flatMap((fill) => [id(fill.order_id), u64Le(fill.lots)]),
      u64Le(record.cancelled.length),
      ...record.cancelled.map(id),
      u64Le(record.expired.length),
      ...record.expired.map(id),
    ),
  )
}
