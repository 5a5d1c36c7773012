/** The result hash of an auction: what the journal keeps so that a differing replay is noticed. */
import { paddedAscii, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { ByteWriter } from './byte_stream'
import type { AuctionRecord } from './outcome'
import { hexBytes } from './state'

const DOMAIN = utf8('tacit/auction/v1')
const HEAD_BYTES = 128
const ID_BYTES = 16
const FILL_BYTES = ID_BYTES + 8

/**
 * SHA-256 over `tacit/auction/v1` ‖ symbol (16) ‖ batch ‖ slot ‖ reference ‖ seed (32) ‖ price (0 = none) ‖ volume ‖
 * for fills, cancelled and expired each: count ‖ ids ascending (16 bytes), fills with their lots. Integers are u64
 * little-endian, prices in ticks, quantities in lots.
 */
export function auctionHash(record: Omit<AuctionRecord, 'result_hash'>): Uint8Array {
  const { fills, cancelled, expired } = record
  const to = new ByteWriter(HEAD_BYTES + FILL_BYTES * (fills.length + cancelled.length + expired.length))
  to.fixed(DOMAIN, DOMAIN.length)
  to.fixed(paddedAscii(record.symbol, 16), 16)
  to.uint(record.batch)
  to.uint(record.slot)
  to.uint(record.reference_ticks)
  to.fixed(record.seed, 32)
  to.uint(record.price_ticks ?? 0)
  to.uint(record.volume_lots)
  to.uint(fills.length)
  for (const { order_id, lots } of fills) {
    to.fixed(hexBytes(order_id, ID_BYTES), ID_BYTES)
    to.uint(lots)
  }
  for (const ids of [cancelled, expired]) {
    to.uint(ids.length)
    for (const id of ids) to.fixed(hexBytes(id, ID_BYTES), ID_BYTES)
  }
  return sha256(to.whole())
}
