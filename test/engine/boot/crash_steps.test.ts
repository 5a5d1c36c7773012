/**
 * A process that dies at any step of its boot, of its service or of its close, again and again: the next one never rejects
 * its own journal, and has everything that was acknowledged. Epochs of dead processes may land later, or never.
 */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Engine } from '../../../engine/boot/assemble'
import { checkState, journaledSnapshot, judgeJournal } from '../../../engine/boot/check_chain'
import { takeEpoch } from '../../../engine/boot/start'
import type { Journal, JournalOptions } from '../../../engine/journal/contract'
import { openJournal } from '../../../engine/journal/open_journal'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { decodeState, encodeState } from '../../../engine/machine/codec/state_codec'
import { createState } from '../../../engine/machine/state/state'
import { type ChainPort, EpochTaken } from '../../../engine/ports'
import { Replayer } from '../../../engine/sequencer/replayer'
import { Sequencer } from '../../../engine/sequencer/sequencer'
import { venueId } from '../../../protocol/bodies/statements'
import { equalBytes } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import { Random } from '../../kit/random'
import { type DiskFaults, failing } from '../../kit/venue/failing_disk'
import { FIXED_HASH_SEED, settings } from '../../kit/venue/machine_world'
import { Ledger } from '../../kit/venue/memory_chain'
import { testKeys } from '../../kit/venue/open_test_venue'

const ROUNDS = Number(process.env['TACIT_BOOT_ROUNDS'] ?? 60)
const SEED = Number(process.env['TACIT_BOOT_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

class Died extends Error {}

/** The vault, and transactions of dead processes that may still land. */
class Vault {
  readonly keys = testKeys()
  readonly ledger = new Ledger([], publicKeyOf(this.keys.settlement_seed))
  private pending: (() => void)[] = []

  constructor(readonly random: Random) {}

  /** The chain as one process sees it, which dies at one of its steps, or at none. */
  port(dies_at: number): ChainPort {
    const { ledger } = this
    let step = 0
    const mayDie = () => {
      if (++step === dies_at) throw new Died()
    }
    const { genesis_hash, program_id, config_account } = ledger
    const chain: Partial<ChainPort> = {
      genesis_hash,
      program_id,
      config_account,
      readConfig: async () => ({ ...ledger.config }),
      view: () => ({ slot: ledger.slot, lag_ms: 0, slot_ms: 0, unix_ms: 1 }),
      openEpoch: async ({ epoch, boot_nonce, seq, head, passes }, record) => {
        mayDie()
        const { journal_seq, journal_head: expected_head } = ledger.config
        const land = () => {
          const { config } = ledger
          if (epoch !== config.epoch + 1 || seq < config.journal_seq) return
          if (!equalBytes(config.journal_head, expected_head)) return
          ledger.config = { ...config, epoch, boot_nonce, journal_seq: seq, journal_head: head }
        }
        const is_own = await passes({ seq: journal_seq, head: expected_head })
        if (ledger.config.epoch !== epoch - 1 || !is_own) throw new EpochTaken()
        await record(new Uint8Array(64), new Uint8Array(9))
        this.pending.push(land)
        mayDie()
        // Expired, and signed again: the record is there already.
        await record(new Uint8Array(64), new Uint8Array(9))
        this.landSome()
        mayDie()
        land()
        mayDie()
        if (ledger.config.boot_nonce !== boot_nonce) throw new EpochTaken()
        return { slot: ++ledger.slot, signature: new Uint8Array(64), confirmed_ms: 0 }
      },
    }
    return chain as ChainPort
  }

  landSome(): void {
    const { random } = this
    for (const land of this.pending.splice(0, random.below(this.pending.length + 1))) land()
  }

  anchor({ seq, head }: { seq: number; head: Uint8Array }): void {
    const { config } = this.ledger
    if (seq > config.journal_seq) this.ledger.config = { ...config, journal_seq: seq, journal_head: head }
  }
}

/** Promises to clients, and the epoch of each. */
type Promised = { capacity: number; served: number; releasing: number; released: number; opened: number }

/** Commands that are promised as soon as they resolve; now and then a position lands. */
async function serve(
  vault: Vault,
  sequencer: Sequencer,
  journal: Journal,
  promised: Promised,
): Promise<void> {
  const { random } = vault
  for (let left = random.below(5); left > 0; left--) {
    const capacity = promised.capacity + 1
    await sequencer.submit({ kind: 'queue_capacity', capacity })
    promised.capacity = capacity
    promised.served++
    if (random.below(3) === 0) vault.anchor(journal.head())
  }
}

/** The opening writes the last frame again, so it can meet the first failing write: undefined. */
async function openOn(faults: DiskFaults, options: JournalOptions): Promise<Journal | undefined> {
  try {
    return await openJournal({ ...options, ...failing(faults) })
  } catch (error) {
    if (faults.write_fails_at === 1 && (error as Error).message.startsWith('ENOSPC')) return undefined
    throw error
  }
}

/** The ports of a sequencer without the rest of a venue. */
const ALONE = {
  env: {},
  clock: { unixMs: () => 1, monotonicMs: () => 1 },
  arrived: () => undefined,
  barred: () => undefined,
  durable: () => undefined,
  released: () => undefined,
  fatal: () => undefined,
}

/** One life: boot, service, close, with a death on the way unless it reaches the end. */
async function live(dir: string, vault: Vault, promised: Promised): Promise<void> {
  const { random, keys } = vault
  const fault = random.below(3)
  const at = 1 + random.below(14)
  const faults: DiskFaults = fault === 0 ? { write_fails_at: at } : fault === 1 ? { sync_fails_at: at } : {}
  const chain = vault.port(fault === 2 ? 1 + random.below(6) : 0)
  const { journal_key: key } = keys
  const journal = await openOn(faults, { dir: join(dir, 'journal'), key, segment_bytes: 16_384 })
  if (journal === undefined) return
  try {
    const store = openSnapshotStore({ dir: join(dir, 'snapshots'), key })
    vault.landSome()
    const vault_config = await chain.readConfig()
    const verdict = await judgeJournal(vault_config, chain, journal)
    expect(verdict.fault).toBeUndefined()
    // Records of a failed sync may be there or not.
    const { epoch: held } = vault_config
    if (held > 0 && promised.released === held) expect(verdict.released).toBe(true)
    if (verdict.released) expect(promised.releasing).toBe(held)
    const { snapshot } = await store.newestValid(
      async (point) => (await journaledSnapshot(journal, point))?.state_hash,
    )
    const state =
      snapshot === undefined
        ? createState(FIXED_HASH_SEED)
        : decodeState(snapshot.blocks(), FIXED_HASH_SEED, 1_000)
    const replayer = new Replayer(state)
    for await (const { records } of journal.readBatches((snapshot?.seq ?? 0) + 1, snapshot?.head))
      for (const record of records) replayer.apply(record)
    expect(checkState(vault_config, state)).toBeUndefined()
    expect(state.settlement.queue_capacity).toBeGreaterThanOrEqual(promised.capacity)
    const sequencer = new Sequencer({ ...ALONE, state, journal })
    const { genesis_hash, program_id, config_account } = vault.ledger
    const venue = venueId({ genesis_hash, program_id, config_account, generation: 0 })
    const config = { compose_hash: '00'.repeat(32) }
    const hash = { spent: () => ({ batch_count: 0 }) }
    const loaded = { journal, verdict }
    const engine = { chain, state, loaded, sequencer, keys, hash, intake: { venue }, config }
    const opened = await takeEpoch(engine as unknown as Engine, vault_config, false)
    if (typeof opened === 'string') throw new Error(`refused its own journal: ${opened}`)
    if (state.settings === undefined) await sequencer.submit({ kind: 'configure', settings: settings() })
    const { epoch, slot, signature } = opened
    await sequencer.submit({ kind: 'epoch_opened', epoch, slot, signature })
    promised.opened++
    await serve(vault, sequencer, journal, promised)
    if (random.below(2) === 0) return
    const point = journal.head()
    const state_hash = await store.writeSnapshot(point, () => [encodeState(state)], snapshot?.seq)
    if (random.below(4) === 0) return
    const covered = { leaves: 0, nullifiers: 0, retired: 0, finals: 0 }
    const taken = { seq: point.seq, state_hash, catalogue_hash: new Uint8Array(32), covered }
    void sequencer.submit({ kind: 'snapshot_taken', ...taken }).catch(() => undefined)
    promised.releasing = epoch
    await sequencer.submit({ kind: 'released' })
    promised.released = epoch
  } catch (error) {
    // The subject is a failed disk or a death.
    const name = (error as Error).name
    if (!(error instanceof Died) && name !== 'JournalClosed' && name !== 'Refusal') throw error
  } finally {
    await journal.close()
  }
}

test(`${ROUNDS} lives that end anywhere never leave a journal that the next one refuses (seed ${SEED})`, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-boot-'))
  const vault = new Vault(new Random(SEED))
  const promised: Promised = { capacity: 60, served: 0, releasing: 0, released: 0, opened: 0 }
  try {
    for (let round = 0; round < ROUNDS; round++) await live(dir, vault, promised)
    expect(promised.opened).toBeGreaterThan(ROUNDS / 10)
    expect(promised.served).toBeGreaterThan(ROUNDS / 10)
    console.log(JSON.stringify(promised))
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}, 3_600_000)
