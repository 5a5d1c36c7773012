/** Base58 (Bitcoin alphabet) of fixed-width values, in their one canonical spelling. */
import bs58 from 'bs58'

export function encodeBase58(bytes: Uint8Array): string {
  return bs58.encode(bytes)
}

/**
 * Decodes to exactly `width` bytes; undefined for any other length or alphabet. The spelling is canonical by
 * construction: base58 has one text per byte string, and leading `1` count the leading zero bytes.
 */
export function decodeBase58(text: string, width: number): Uint8Array | undefined {
  if (text.length === 0 || text.length > Math.ceil(width * 1.38) + 1) return undefined
  const bytes = bs58.decodeUnsafe(text)
  if (bytes === undefined || bytes.length !== width || bs58.encode(bytes) !== text) return undefined
  return bytes
}
