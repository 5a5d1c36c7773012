/** Owns the one keyed hash of the account edge: HMAC-SHA256 under the enclave's credential key. */
import { createHmac } from 'node:crypto'

export function keyed(credential_key: Uint8Array, message: Uint8Array): Uint8Array {
  return createHmac('sha256', credential_key).update(message).digest()
}
