/** The venue id: binds every signed body to one cluster, deployment and generation. */
import { u64Le, utf8 } from '../bytes'
import { sha256 } from '../sha256'

/** SHA-256("tacit/venue/v1" ‖ genesis hash ‖ program id ‖ config account ‖ generation u64 LE), all raw 32-byte values. */
export function venueId(parts: {
  genesis_hash: Uint8Array
  program_id: Uint8Array
  config_account: Uint8Array
  generation: number
}): Uint8Array {
  const { genesis_hash, program_id, config_account } = parts
  for (const value of [genesis_hash, program_id, config_account]) {
    if (value.length !== 32) throw new RangeError('expected 32 bytes')
  }
  return sha256(utf8('tacit/venue/v1'), genesis_hash, program_id, config_account, u64Le(parts.generation))
}
