/** Seeds of auctions as a replay must derive them: with the generation that the journal holds. */
import { venueId } from '../../protocol/venue_id'
import type { Env } from '../state/outcome'
import { type State, settingsOf } from '../state/state'
import { batchSeed } from './batch_seed'

/** What the seeds of one venue are made of; plain bytes, so it can be sent to another thread. */
export type SeedParts = {
  tie_break_key: Uint8Array
  genesis_hash: Uint8Array
  program_id: Uint8Array
  config_account: Uint8Array
}

/** The generation is the journaled one, so a replay derives what was derived then. */
export function journaledSeeds(state: State, parts: SeedParts): Env['batchSeed'] {
  const { tie_break_key, genesis_hash, program_id, config_account } = parts
  return (symbol, batch, epoch) => {
    const { generation } = settingsOf(state)
    const venue = venueId({ genesis_hash, program_id, config_account, generation })
    return batchSeed(tie_break_key, venue, epoch, symbol, batch)
  }
}
