/** The id of a withdrawal or reshape: the first 16 bytes of SHA-256 of its body. */
import { sha256 } from './sha256'

export function bodyId(body: Uint8Array): Uint8Array {
  return sha256(body).slice(0, 16)
}
