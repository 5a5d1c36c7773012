/** Derives the secret tie-break seed of each auction (matching.md rule 5), live and in a replay. */

import { createHmac } from 'node:crypto'
import { venueId } from '../../protocol/bodies/venue_id'
import { ascii, fixed, struct, uint } from '../../protocol/codec'
import type { Env } from '../machine/state/outcome'
import { type State, settingsOf } from '../machine/state/state'

const SEEDED = struct({ venue: fixed(32), epoch: uint, symbol: ascii(16), batch: uint })

/** HMAC-SHA256 of auction and venue under the enclave key. */
export function batchSeed(
  key: Uint8Array,
  venue: Uint8Array,
  epoch: number,
  symbol: string,
  batch: number,
): Uint8Array {
  const message = SEEDED.encode({ venue, epoch, symbol, batch })
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
