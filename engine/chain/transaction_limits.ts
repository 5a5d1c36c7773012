/** What a cluster takes of a transaction: its bytes and its addresses. */

/** A v1 transaction with its signatures, in bytes (SIMD-0385). */
export const V1_BYTES_MAX = 4_096
/** Addresses a v1 message may hold (SIMD-0385). */
export const V1_ADDRESSES_MAX = 64
/** Legacy and v0 transactions: one packet. */
export const PACKET_BYTES_MAX = 1_232

/** No cluster takes these bytes, whatever state it is in. */
export class TransactionTooLarge extends Error {
  override readonly name = 'TransactionTooLarge'
}

/** @throws TransactionTooLarge */
export function requireSize(version: number | 'legacy', bytes: number, addresses: number): void {
  const bytes_max = version === 1 ? V1_BYTES_MAX : PACKET_BYTES_MAX
  if (bytes > bytes_max)
    throw new TransactionTooLarge(`decoded transaction too large: ${bytes} bytes (max: ${bytes_max} bytes)`)
  if (version === 1 && addresses > V1_ADDRESSES_MAX)
    throw new TransactionTooLarge(`too many addresses: ${addresses} (max: ${V1_ADDRESSES_MAX})`)
}
