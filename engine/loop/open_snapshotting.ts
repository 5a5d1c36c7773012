/** Joins the snapshot thread to a loaded state. */
import { join } from 'node:path'
import type { EngineConfig } from '../config'
import { MS_PER_DAY } from '../limits'
import type { ChainPort, ClockPort, KeysPort } from '../ports'
import { openSnapshotMaker } from '../snapshots/open_snapshot_maker'
import type { Loaded } from './load_state'
import { Snapshotting } from './snapshotting'

export function openSnapshotting(
  { data_dir, retention_days }: EngineConfig,
  { keys, chain, clock }: { keys: KeysPort; chain: ChainPort; clock: ClockPort },
  { journal, history, facts, replayed }: Loaded,
  more: { seqDurable: () => number; fatal: (error: Error) => void },
): Snapshotting {
  const { genesis_hash, program_id, config_account } = chain
  const maker = openSnapshotMaker({
    journal_dir: join(data_dir, 'journal'),
    snapshots_dir: join(data_dir, 'snapshots'),
    journal_key: keys.journal_key,
    seeds: { tie_break_key: keys.tie_break_key, genesis_hash, program_id, config_account },
    retention_ms: retention_days * MS_PER_DAY,
  })
  return new Snapshotting({ journal, history, facts, clock, maker, ...more }, journal.head().seq - replayed)
}
