/** The 16-byte memo of a settlement output: a recovery tag and the hidden amount (protocol.md "Wallet derivation"). */
import { concatBytes, equalBytes, readU64Le, u64Le, utf8 } from './bytes'
import { sha256 } from './sha256'

export const MEMO_BYTES = 16
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
