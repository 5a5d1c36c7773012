/** SHA-256 over several parts; runs wherever the client runs. */
import { sha256 as noble } from '@noble/hashes/sha2.js'
import { concatBytes } from './bytes'

export function sha256(...parts: Uint8Array[]): Uint8Array {
  return noble(parts.length === 1 ? parts[0]! : concatBytes(...parts))
}
