/** Single values of a chain's data file: genesis hash, fork count, vault program. */
import { randomBytes } from 'node:crypto'
import { readU64Le } from '../../../protocol/bytes'
import type { Store } from './store'

/** Reads them; a new file gets a random genesis hash, so no two embedded chains share signatures. */
export function readFacts(store: Store): { genesis_hash: Uint8Array; forks: number } {
  let genesis_hash = store.fact('genesis_hash')
  if (!genesis_hash) {
    genesis_hash = new Uint8Array(randomBytes(32))
    store.setFact('genesis_hash', genesis_hash)
  }
  const forks = store.fact('forks')
  return { genesis_hash: new Uint8Array(genesis_hash), forks: forks ? Number(readU64Le(forks, 0)) : 0 }
}
