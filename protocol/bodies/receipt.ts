/** Describes receipts: signed statements that a command is in the journal (engine.md "Receipts"). */

import { domain, fixed, struct, u64 } from '../codec'

export const {
  encode: encodeReceipt,
  decode: decodeReceipt,
  shape: RECEIPT_SHAPE,
} = struct({
  domain: domain('tacit/receipt/v1'),
  venue: fixed(32),
  epoch: u64,
  /** Journal seq of the last record of the group. */
  seq: u64,
  /** Journal hash-chain head after the group. */
  head: fixed(32),
  root: fixed(32),
})
