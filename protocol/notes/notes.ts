/** Hashes notes (protocol.md "Notes, commitments, tree") and encodes their memos (protocol.md "Wallet derivation"). */

import { concatBytes, equalBytes, readU64Le, u64Le, utf8 } from '../bytes'
import { sha256 } from '../sha256'
import type { Amount } from '../units'
import { fieldFromBytes, poseidonOf, splitKey } from './poseidon'

/** `Poseidon(1, owner_hi, owner_lo, blinding)`: hides the owner, a trading key. */
export function noteInner(owner: Uint8Array, blinding: Uint8Array): Uint8Array {
  const [hi, lo] = splitKey(owner)
  return poseidonOf(1, hi, lo, blinding)
}

/** `Poseidon(2, mint_hi, mint_lo, amount, inner)`: the form of every settlement output. */
export function settlementCommitment(note: {
  mint: Uint8Array
  amount: Amount
  inner: Uint8Array
}): Uint8Array {
  const [hi, lo] = splitKey(note.mint)
  return poseidonOf(2, hi, lo, note.amount, note.inner)
}

/** Commitment of a deposit or refund, computed by the program: its inner also covers the leaf index. */
export function depositCommitment(note: {
  mint: Uint8Array
  amount: Amount
  inner: Uint8Array
  leaf_index: number
}): Uint8Array {
  const inner = poseidonOf(6, note.inner, note.leaf_index)
  return settlementCommitment({ mint: note.mint, amount: note.amount, inner })
}

/** The commitment of an opening: deposit form exactly when `leaf_index` is present. */
export function openingCommitment(opening: {
  owner: Uint8Array
  mint: Uint8Array
  amount: Amount
  blinding: Uint8Array
  leaf_index?: number | undefined
}): Uint8Array {
  const { mint, amount, leaf_index } = opening
  const inner = noteInner(opening.owner, opening.blinding)
  if (leaf_index === undefined) return settlementCommitment({ mint, amount, inner })
  return depositCommitment({ mint, amount, inner, leaf_index })
}

/** `Poseidon(3, commitment, blinding)`. */
export function nullifierOf(commitment: Uint8Array, blinding: Uint8Array): Uint8Array {
  return poseidonOf(3, commitment, blinding)
}

/** Inputs of an output's blinding; `index_role` = 2*j + role, j the fill index, role 0 proceeds, 1 change. */
export type BlindingParts = {
  anchor: Uint8Array
  /** 16 bytes; zeros for withdrawals and reshapes. */
  order_id: Uint8Array
  nonce: bigint
  generation: number
  index_role: number
}

/**
 * `Poseidon(4, anchor, order_id * 2^64 + nonce, generation * 2^32 + index_role)`. A day's fee note has the fee anchor, order id 0,
 * the day as its nonce and twice the index of its mint as `index_role`.
 */
export function outputBlinding(parts: BlindingParts): Uint8Array {
  const source = (fieldFromBytes(parts.order_id) << 64n) | parts.nonce
  const place = (BigInt(parts.generation) << 32n) | BigInt(parts.index_role)
  return poseidonOf(4, parts.anchor, source, place)
}

const MEMO_BYTES = 16
const MEMO_DOMAIN = utf8('tacit/memo/v1')

/** First 8 bytes of SHA-256("tacit/memo/v1" ‖ blinding): wallets look notes up by it. */
export function memoTag(blinding: Uint8Array): Uint8Array {
  return sha256(MEMO_DOMAIN, blinding).slice(0, 8)
}

/** The memo of a settlement output, 16 bytes: the recovery tag, then the amount XOR the next 8 bytes of the digest. */
export function encodeMemo(blinding: Uint8Array, amount: Amount): Uint8Array {
  const digest = sha256(MEMO_DOMAIN, blinding)
  return concatBytes(digest.subarray(0, 8), u64Le(amount ^ readU64Le(digest, 8)))
}

/** The amount in a memo of this blinding; undefined when the tag belongs to another blinding. */
export function decodeMemo(memo: Uint8Array, blinding: Uint8Array): Amount | undefined {
  const digest = sha256(MEMO_DOMAIN, blinding)
  if (memo.length !== MEMO_BYTES || !equalBytes(memo.subarray(0, 8), digest.subarray(0, 8))) return undefined
  return readU64Le(memo, 8) ^ readU64Le(digest, 8)
}
