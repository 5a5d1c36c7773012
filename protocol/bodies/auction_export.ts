/** Describes the result of an auction as it is hashed, and the export of one batch auction for the auditor. */
import { ByteWriter, CodecError } from '../byte_stream'
import { isZero } from '../bytes'
import { ascii, blob, domain, fixed, hex, list, struct, u32, u64, uint, type ValueOf, word } from '../codec'
import { sha256 } from '../sha256'
import { STATEMENT_BYTES } from './statements'

/** The result of an auction: ids ascending, prices in ticks, quantities in lots. */
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

/** A member as the close found it: quantities in lots, the limit in ticks. */
const MEMBER = struct({
  order_id: hex(16),
  side: word(['buy', 'sell']),
  type: word(['limit', 'ioc', 'fok']),
  ticks: u32,
  /** The remainder. */
  lots: uint,
  /** 0 for any; for a fok order its amount. */
  min_lots: uint,
  /** The first batch that the order could take part in: its age. */
  arrival_batch: u32,
})
export type ExportedOrder = ValueOf<typeof MEMBER>

const CONTENT = struct({
  domain: domain('tacit/members/v1'),
  symbol: ascii(16),
  batch: uint,
  /** Of the close. */
  slot: uint,
  /** Journal position of the close, which the venue published on chain before it matched. */
  close_seq: uint,
  close_head: fixed(32),
  reference_ticks: uint,
  collar_bps: uint,
  price_rule: word(['std4', 'ref']),
  volume_tolerance_bps: uint,
  seed: fixed(32),
  /** 0 for no trade. */
  price_ticks: uint,
  volume_lots: uint,
  /** `auctionHash` of the recorded result. */
  result_hash: fixed(32),
  /** By ascending id. */
  orders: list(MEMBER),
})
export type AuctionExport = ValueOf<typeof CONTENT>
export const { encode: encodeExport, decode: decodeExport } = CONTENT

/** The bytes that the statement key signs. */
const SIGNED = struct({
  domain: domain('tacit/export/v1'),
  venue: fixed(32),
  epoch: u64,
  content_sha256: fixed(32),
})

/** The plaintext of the file before its padding. */
const SEALED = struct({
  domain: domain('tacit/sealed/v1'),
  /** The statement that certifies the key of the signature, and the settlement key's signature over it. */
  certificate: fixed(STATEMENT_BYTES),
  certificate_signature: fixed(64),
  signature: fixed(64),
  content: blob,
})
export type SignedExport = ValueOf<typeof SEALED>

export function signedExportBytes(venue: Uint8Array, epoch: bigint, content: Uint8Array): Uint8Array {
  return SIGNED.encode({ venue, epoch, content_sha256: sha256(content) })
}

/** 1 MiB times the least power of four that holds `bytes`: the size of a file says no more of its batch. */
function paddedBytes(bytes: number): number {
  let size = 2 ** 20
  while (size < bytes) size *= 4
  return size
}

/** Zeros follow the export. */
export function padExport(value: SignedExport): Uint8Array {
  const bytes = SEALED.encode(value)
  const padded = new Uint8Array(paddedBytes(bytes.length))
  padded.set(bytes)
  return padded
}

const CONTENT_AT = SEALED.offsetOf('content')

/** @throws CodecError unless it is exactly `padExport` of one value */
export function unpadExport(padded: Uint8Array): SignedExport {
  const counted = CONTENT_AT + uint.size!
  if (padded.length < counted) throw new CodecError('the export is cut short')
  const end = counted + uint.decode(padded.subarray(CONTENT_AT, counted))
  if (end > padded.length || padded.length !== paddedBytes(end) || !isZero(padded.subarray(end)))
    throw new CodecError('the padding of the export is not as it was written')
  return SEALED.decode(padded.subarray(0, end))
}
