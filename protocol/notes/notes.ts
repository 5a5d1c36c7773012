/** Notes: inner hashes, commitments, nullifiers, blindings, and the memo of a settlement output (protocol.md "Notes, commitments, tree"). */
import { concatBytes, equalBytes, readU64Le, u64Le, utf8 } from '../bytes'
import { fieldFromBytes, splitKey } from '../field'
import { sha256 } from '../sha256'
import { poseidonOf } from './poseidon'

// Notes: inner hashes, commitments, nullifiers and blindings (protocol.md "Notes, commitments, tree").

/** `Poseidon(1, owner_hi, owner_lo, blinding)`: hides the owner, a trading key. */
export function noteInner(owner: Uint8Array, blinding: Uint8Array): Uint8Array {
  const [hi, lo] = splitKey(owner)
  return poseidonOf(1, hi, lo, blinding)
}

/** `Poseidon(2, mint_hi, mint_lo, amount, inner)`: the form of every settlement output. */
export function settlementCommitment(note: {
  mint: Uint8Array
  amount: bigint
  inner: Uint8Array
}): Uint8Array {
  const [hi, lo] = splitKey(note.mint)
  return poseidonOf(2, hi, lo, note.amount, note.inner)
}

/** A deposit's (or refund's) commitment, which the program makes: its inner also covers the leaf index. */
export function depositCommitment(note: {
  mint: Uint8Array
  amount: bigint
  inner: Uint8Array
  leaf_index: number
}): Uint8Array {
  const inner = poseidonOf(6, note.inner, note.leaf_index)
  return settlementCommitment({ mint: note.mint, amount: note.amount, inner })
}

/** The commitment an opening stands for: deposit form exactly when `leaf_index` is present. */
export function openingCommitment(opening: {
  owner: Uint8Array
  mint: Uint8Array
  amount: bigint
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

/** What makes an output's blinding; `index_role` = 2*j + role, j the fill index, role 0 proceeds, 1 change. */
export type BlindingParts = {
  anchor: Uint8Array
  /** 16 bytes; zeros for withdrawals and reshapes. */
  order_id: Uint8Array
  nonce: bigint
  generation: number
  index_role: number
}

/** `Poseidon(4, anchor, order_id * 2^64 + nonce, generation * 2^32 + index_role)`. */
export function outputBlinding(parts: BlindingParts): Uint8Array {
  const source = (fieldFromBytes(parts.order_id) << 64n) | parts.nonce
  const place = (BigInt(parts.generation) << 32n) | BigInt(parts.index_role)
  return poseidonOf(4, parts.anchor, source, place)
}

/** Blinding of a day's fee note: `Poseidon(4, fee_anchor, day, generation * 2^32 + 2 * mint_index)`. */
export function feeBlinding(parts: {
  fee_anchor: Uint8Array
  day: number
  generation: number
  mint_index: number
}): Uint8Array {
  const place = (BigInt(parts.generation) << 32n) | BigInt(2 * parts.mint_index)
  return poseidonOf(4, parts.fee_anchor, parts.day, place)
}

// The 16-byte memo of a settlement output: a recovery tag and the hidden amount (protocol.md "Wallet derivation").

const MEMO_BYTES = 16
const DOMAIN = utf8('tacit/memo/v1')

/** First 8 bytes of SHA-256("tacit/memo/v1" ‖ blinding): what a wallet looks up. */
export function memoTag(blinding: Uint8Array): Uint8Array {
  return sha256(DOMAIN, blinding).slice(0, 8)
}

export function encodeMemo(blinding: Uint8Array, amount: bigint): Uint8Array {
  const digest = sha256(DOMAIN, blinding)
  return concatBytes(digest.subarray(0, 8), u64Le(amount ^ readU64Le(digest, 8)))
}

/** The amount in a memo made for this blinding; undefined when the tag belongs to another. */
export function decodeMemo(memo: Uint8Array, blinding: Uint8Array): bigint | undefined {
  const digest = sha256(DOMAIN, blinding)
  if (memo.length !== MEMO_BYTES || !equalBytes(memo.subarray(0, 8), digest.subarray(0, 8))) return undefined
  return readU64Le(memo, 8) ^ readU64Le(digest, 8)
}
