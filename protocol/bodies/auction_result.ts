/** Describes the result of an auction as it is hashed: in the journal, and in the export for the auditor. */
import { ByteWriter } from '../byte_stream'
import { ascii, domain, fixed, hex, list, struct, uint } from '../codec'
import { sha256 } from '../sha256'

/** What an auction did: ids ascending, prices in ticks, quantities in lots. */
const RESULT = struct({
  domain: domain('tacit/auction/v2'),
  symbol: ascii(16),
  batch: uint,
  slot: uint,
  reference_ticks: uint,
  seed: fixed(32),
  /** 0 for no trade. */
  price_ticks: uint,
  volume_lots: uint,
  fills: list(struct({ order_id: hex(16), lots: uint })),
  cancelled: list(hex(16)),
})
const HEAD_BYTES = 128
const FILL_BYTES = 24

export type AuctionResult = {
  symbol: string
  batch: number
  /** Of the close. */
  slot: number
  reference_ticks: number
  seed: Uint8Array
  /** Null when nothing traded. */
  price_ticks: number | null
  volume_lots: number
  /** By ascending order id. */
  fills: { order_id: string; lots: number }[]
  /** Remainders of ioc and fok orders, ascending ids. */
  cancelled: string[]
}

/** SHA-256 of the fixed encoding. The journal stores it, so a replay with another result is detected. */
export function auctionHash(result: AuctionResult): Uint8Array {
  const { fills, cancelled } = result
  const to = new ByteWriter(HEAD_BYTES + FILL_BYTES * (fills.length + cancelled.length))
  RESULT.write(to, { ...result, price_ticks: result.price_ticks ?? 0 })
  return sha256(to.whole())
}
