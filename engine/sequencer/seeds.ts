/** Derives the secret tie-break seed of each auction (matching.md rule 5), live and in a replay. */

import { createHmac } from 'node:crypto'
import { venueId } from '../../protocol/bodies/venue_id'
import { concatBytes, paddedAscii, u64Le } from '../../protocol/bytes'
import type { Env } from '../machine/state/outcome'
import { type State, settingsOf } from '../machine/state/state'

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

/** Inputs of the seeds of one venue; plain bytes, so they can be sent to another thread. */
export type SeedParts = {
  tie_break_key: Uint8Array
  genesis_hash: Uint8Array
  program_id: Uint8Array
  config_account: Uint8Array
}

/** Uses the journaled generation, so a replay derives the same seeds. */
export function journaledSeeds(state: State, parts: SeedParts): Env['batchSeed'] {
  const { tie_break_key, genesis_hash, program_id, config_account } = parts
  return (symbol, batch, epoch) => {
    const { generation } = settingsOf(state)
    const venue = venueId({ genesis_hash, program_id, config_account, generation })
    return batchSeed(tie_break_key, venue, epoch, symbol, batch)
  }
}
