/** Reads the two commands that journals are full of; the layout is that of command_codec.ts, field by field. */
import type { Cancel, NoteFact, Place } from '../commands'
import { type ByteReader, CodecError } from './byte_stream'
import { SIDES, TYPES } from './order_row'

/** Object literals in one place give objects of one shape, which a loop over a description cannot. */
export function readPlace(from: ByteReader): Omit<Place, 'kind'> {
  return {
    account_id: from.text(),
    origin: from.byte() === 1 ? from.text() : undefined,
    order_id: from.fixed(16),
    trading_key: from.fixed(32),
    symbol: from.text(),
    side: wordOf(SIDES, from.byte()),
    type: wordOf(TYPES, from.byte()),
    amount: from.u64(),
    price_limit: from.u64(),
    min_fill: from.u64(),
    expiry_slot: from.uint(),
    nonce: from.u64(),
    collateral_commitment: from.fixed(32),
    anchors: readAnchors(from),
    signature: from.signature(),
    opening: from.byte() === 1 ? readNote(from) : undefined,
    digest: from.fixed(32),
  }
}

export function readCancel(from: ByteReader): Omit<Cancel, 'kind'> {
  return {
    account_id: from.text(),
    order_id: from.fixed(16),
    trading_key: from.fixed(32),
    cancel_nonce: from.u64(),
    signature: from.signature(),
  }
}

function readAnchors(from: ByteReader): Uint8Array[] {
  const count = from.uint()
  const anchors: Uint8Array[] = []
  for (let at = 0; at < count; at++) anchors.push(from.fixed(32))
  return anchors
}

function readNote(from: ByteReader): NoteFact {
  return {
    mint: from.fixed(32),
    amount: from.u64(),
    blinding: from.fixed(32),
    leaf_index: from.byte() === 1 ? from.uint() : undefined,
    commitment: from.fixed(32),
    nullifier: from.fixed(32),
  }
}

function wordOf<T>(words: readonly T[], at: number): T {
  const word = words[at]
  if (word === undefined) throw new CodecError('a word is not in its list')
  return word
}
