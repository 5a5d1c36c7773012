/** The hash two machines compare to know that they hold the same state. */
import { sha256 } from '../../protocol/sha256'
import { encodeState } from './encode_state'
import type { State } from './state'

/** SHA-256 of the encoded state. */
export function stateHash(state: State): Uint8Array {
  return sha256(encodeState(state))
}
