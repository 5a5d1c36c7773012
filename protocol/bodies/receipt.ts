/** Encodes receipts: signed statements that a command is in the journal (engine.md "Receipts"). */

import { BodyReader, BodyWriter } from './body_layout'

const RECEIPT_BYTES = 128
const DOMAIN = 'tacit/receipt/v1'

type ReceiptBody = {
  venue: Uint8Array
  epoch: bigint
  /** Journal seq of the last record of the group. */
  seq: bigint
  /** Journal hash-chain head after the group. */
  head: Uint8Array
  root: Uint8Array
}

export function encodeReceipt(body: ReceiptBody): Uint8Array {
  return new BodyWriter(RECEIPT_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .u64(body.epoch)
    .u64(body.seq)
    .bytes(body.head, 32)
    .bytes(body.root, 32)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeReceipt(bytes: Uint8Array): ReceiptBody {
  const reader = new BodyReader(bytes, RECEIPT_BYTES)
  reader.domain(DOMAIN)
  return {
    venue: reader.bytes(32),
    epoch: reader.u64(),
    seq: reader.u64(),
    head: reader.bytes(32),
    root: reader.bytes(32),
  }
}
