/** Opens the venue's folder and rebuilds the state: newest snapshot that the read models can follow, then replay. */
import { join } from 'node:path'
import { venueId } from '../../protocol/venue_id'
import type { EngineConfig } from '../config'
import type { History } from '../history/contract'
import { openHistory } from '../history/open_history'
import type { Journal, JournalOptions } from '../journal/contract'
import { openJournal } from '../journal/open_journal'
import type { SnapshotStore } from '../journal/snapshot_contract'
import { openSnapshotStore } from '../journal/snapshot_store'
import type { ChainPort, KeysPort } from '../ports'
import { PublicFacts } from '../reads/public_facts'
import { decodeState } from '../state/decode_state'
import type { Env } from '../state/outcome'
import { createState, type State, settingsOf } from '../state/state'
import { batchSeed } from './batch_seed'
import { replay } from './replay'

export type Loaded = {
  journal: Journal
  snapshots: SnapshotStore
  history: History
  facts: PublicFacts
  state: State
  batchSeed: Env['batchSeed']
  /** Records replayed after the snapshot. */
  replayed: number
}

/**
 * `options` are for tests: small segments and injected write faults.
 * @throws JournalDamaged, JournalLocked, ReplayDisagrees: the venue must not start.
 */
export async function loadState(
  config: EngineConfig,
  ports: { keys: KeysPort; chain: ChainPort },
  options: Pick<JournalOptions, 'segment_bytes' | 'faults'> = {},
): Promise<Loaded> {
  const { data_dir, retention_days } = config
  const key = ports.keys.journal_key
  const journal = await openJournal({ dir: join(data_dir, 'journal'), key, ...options })
  const snapshots = openSnapshotStore({ dir: join(data_dir, 'snapshots'), key })
  const history = await openHistory({ dir: join(data_dir, 'history'), key, retention_days })
  const facts = new PublicFacts(join(data_dir, 'facts'), key)
  const { snapshot } = await snapshots.newestValid()
  // Read models that lag behind the snapshot are rebuilt from the start while the journal still has it.
  const reads_seq = Math.min(history.watermark(), facts.watermark())
  const usable = snapshot !== undefined && (reads_seq >= snapshot.seq || journal.firstSeq() > 1)
  const state = usable ? decodeState(snapshot.bytes) : createState()
  const seedOf = seeder(state, ports)
  const from = usable ? { seq: snapshot.seq, head: snapshot.head } : { seq: 0, head: undefined }
  const env = { batchSeed: seedOf }
  await replay({ journal, history, state, env }, from, (command, seq, events) => {
    facts.record(seq, command, events, state.settings?.build)
  })
  const replayed = journal.head().seq - from.seq
  return { journal, snapshots, history, facts, state, batchSeed: seedOf, replayed }
}

/** The generation is the journaled one, so a replay derives what was derived then. */
function seeder(state: State, ports: { keys: KeysPort; chain: ChainPort }): Env['batchSeed'] {
  const { genesis_hash, program_id, config_account } = ports.chain
  return (symbol, batch, epoch) => {
    const { generation } = settingsOf(state)
    const venue = venueId({ genesis_hash, program_id, config_account, generation })
    return batchSeed(ports.keys.tie_break_key, venue, epoch, symbol, batch)
  }
}
