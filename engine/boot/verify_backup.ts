/** Verifies a backup without changing it: replays its journal and compares the resulting state with the chain. */

import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { equalBytes } from '../../protocol/bytes'
import type { ChainPoint } from '../../protocol/units'
import { openJournal } from '../journal/open_journal'
import { openSnapshotStore } from '../journal/snapshot_store'
import { decodeState, stateHash } from '../machine/codec/state_codec'
import { createState, type State } from '../machine/state/state'
import type { ChainPort, KeysPort, VaultConfig } from '../ports'
import { Replayer } from '../sequencer/replayer'
import { randomHashSeed } from '../sequencer/seeds'
import { Stores, type StoresAt } from '../stores/stores'
import { type ChainFault, checkState, journaledSnapshot, judgeJournal } from './check_chain'

export type BackupVerdict = {
  /** Journal seq of the last record, and the head after it. */
  seq: number
  head: Uint8Array
  /** SHA-256 of the replayed state. */
  state_hash: Uint8Array
  /** Newest snapshot of the backup whose stores are whole; `agrees` is undefined unless replays from it and from the start were compared. */
  snapshot: { seq: number; agrees: boolean | undefined } | undefined
  epoch: number
  generation: number
  orders_live: number
  last_batch: number
  /** Why this backup must not trade; undefined when the chain has nothing newer. */
  fault: ChainFault | undefined
}

type BackupParts = {
  /** Folder with `journal` and, optionally, `snapshots` and their `stores`. */
  dir: string
  keys: Pick<KeysPort, 'journal_key'>
  /** Identity of the vault, and its config as finalized now. */
  chain: Pick<ChainPort, 'genesis_hash' | 'program_id' | 'config_account'> & { config: VaultConfig }
}

/** @throws JournalDamaged, ReplayDisagrees, or an Error when both the journal's start and a snapshot with its stores are missing */
export async function verifyBackup({ dir, keys, chain }: BackupParts): Promise<BackupVerdict> {
  if (!existsSync(join(dir, 'journal'))) throw new Error(`${dir} has no journal`)
  // Opening a journal truncates a torn last write, and a backup must not change.
  const copy = mkdtempSync(join(tmpdir(), 'tacit-verify-'))
  try {
    for (const part of ['journal', 'snapshots']) {
      if (existsSync(join(dir, part))) cpSync(join(dir, part), join(copy, part), { recursive: true })
    }
    return await judge(copy, { dir: join(dir, 'stores'), key: keys.journal_key }, { keys, chain })
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

async function judge(
  dir: string,
  stores_at: StoresAt,
  { keys, chain }: Omit<BackupParts, 'dir'>,
): Promise<BackupVerdict> {
  const key = keys.journal_key
  const journal = await openJournal({ dir: join(dir, 'journal'), key })
  try {
    const { config } = chain
    const verdict = await judgeJournal(config, chain, journal)
    const run = async (state: State, from?: ChainPoint) => {
      const replayer = new Replayer(state)
      for await (const { records } of journal.readBatches((from?.seq ?? 0) + 1, from?.head)) {
        for (const record of records) replayer.apply(record)
      }
      replayer.end(journal.head().seq)
      return state
    }
    const { snapshot } = await openSnapshotStore({ dir: join(dir, 'snapshots'), key }).newestValid(
      async (point) => {
        const one = await journaledSnapshot(journal, point)
        return one && Stores.areWhole(stores_at, one, 'blocks') ? one.state_hash : undefined
      },
    )
    const whole = journal.firstSeq() === 1 ? await run(createState(randomHashSeed())) : undefined
    const resumed = snapshot && (await run(decodeState(snapshot.blocks(), randomHashSeed()), snapshot))
    const state = whole ?? resumed
    if (state === undefined)
      throw new Error('the journal begins later than its first record: a snapshot and its stores are needed')
    const state_hash = stateHash(state)
    const agrees = whole && resumed && equalBytes(stateHash(resumed), state_hash)
    return {
      ...journal.head(),
      state_hash,
      snapshot: snapshot && { seq: snapshot.seq, agrees },
      epoch: state.epoch,
      generation: state.settings?.generation ?? 0,
      orders_live: state.orders.size,
      last_batch: state.settlement.last_hashed,
      fault: verdict.fault ?? checkState(config, state),
    }
  } finally {
    await journal.close()
  }
}
