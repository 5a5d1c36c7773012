/** Draws hash seeds, outside the deterministic machine, and derives the secret tie-break seeds (matching.md rule 5). */
import { createHmac } from 'node:crypto'
import { venueId } from '../../protocol/bodies/statements'
import { ascii, fixed, struct, uint } from '../../protocol/codec'
import { type State, settingsOf } from '../machine/state/state'
import type { HashSeed } from '../memory/id_table'
import type { ChainPort } from '../ports'

const SEEDED = struct({ venue: fixed(32), epoch: uint, symbol: ascii(16), batch: uint })

/** HMAC-SHA256 of auction and venue under the enclave key. */
function batchSeed(
  key: Uint8Array,
  venue: Uint8Array,
  epoch: number,
  symbol: string,
  batch: number,
): Uint8Array {
  const message = SEEDED.encode({ venue, epoch, symbol, batch })
  return new Uint8Array(createHmac('sha256', key).update(message).digest())
}

export type BatchSeed = (symbol: string, batch: number, epoch: number) => Uint8Array

/** The seeds of one venue. */
export function seedsOf(
  state: State,
  tie_break_key: Uint8Array,
  {
    genesis_hash,
    program_id,
    config_account,
  }: Pick<ChainPort, 'genesis_hash' | 'program_id' | 'config_account'>,
): BatchSeed {
  return (symbol, batch, epoch) => {
    const { generation } = settingsOf(state)
    const venue = venueId({ genesis_hash, program_id, config_account, generation })
    return batchSeed(tie_break_key, venue, epoch, symbol, batch)
  }
}

/** A fresh seed from the system's random source; call it once per state or cache. */
export function randomHashSeed(): HashSeed {
  const [k0, k1] = crypto.getRandomValues(new Uint32Array(2))
  return [k0!, k1!]
}
