/** Joins the reads that answer from the chain's mirror and from an account's own past. */
import type { EngineConfig } from '../config'
import type { ChainPort, ClockPort, HashPort, VaultConfig, VaultMint } from '../ports'
import type { InstrumentReads } from '../reads/instrument_reads'
import { OwnReads } from '../reads/own_reads'
import { SettlementReads } from '../reads/settlement_reads'
import { TransparencyReads } from '../reads/transparency'
import { type FinalizedView, TreeReads } from '../reads/tree_reads'
import type { Loaded } from './load_state'

export function openReads(
  settings: EngineConfig,
  { chain, clock, hash }: { chain: ChainPort; clock: ClockPort; hash: HashPort },
  { history, facts, state }: Loaded,
  shown: {
    instruments: InstrumentReads
    finalized: FinalizedView
    first: { config: VaultConfig; mints: VaultMint[] }
  },
) {
  const { instruments, finalized, first } = shown
  return {
    own: new OwnReads(history, instruments),
    tree: new TreeReads(
      hash,
      () => finalized,
      (commitment) => state.leaves.indexOf(commitment),
    ),
    settlement: new SettlementReads(chain, facts.landed),
    transparency: new TransparencyReads({ settings, chain, clock, facts }, first),
  }
}
