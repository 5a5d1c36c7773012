/** The secret seed of an auction's tie break (matching.md rule 5). */
import { createHmac } from 'node:crypto'
import { concatBytes, paddedAscii, u64Le } from '../../protocol/bytes'

/** HMAC-SHA256(enclave key, venue ‖ epoch u64 ‖ symbol padded to 16 ‖ batch number u64); integers little-endian. */
export function batchSeed(
  key: Uint8Array,
  venue: Uint8Array,
  epoch: number,
  symbol: string,
  batch: number,
): Uint8Array {
  const message = concatBytes(venue, u64Le(epoch), paddedAscii(symbol, 16), u64Le(batch))
  return new Uint8Array(createHmac('sha256', key).update(message).digest())
}
