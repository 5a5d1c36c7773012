/** Starts a venue from its loaded state: rollback check, settings, trees, the next epoch, watcher and relayer. */

import { randomBytes } from 'node:crypto'
import { STATEMENT_BODY } from '../../protocol/bodies/statements'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { signingKey } from '../../protocol/ed25519'
import { EMPTY_SPENT_SUBTREES } from '../../protocol/notes/merkle_tree'
import { publicKeyOf } from '../../protocol/sign'
import type { ChainPoint } from '../../protocol/units'
import type { CommandBody, Settings } from '../commands'
import type { GroupSigner } from '../journal/contract'
import { LIMITS } from '../limits'
import { EpochTaken, type HashPort, type KeysPort, type OpenedEpoch, type VaultConfig } from '../ports'
import { ChainSink, exitsOf } from '../sequencer/chain_sink'
import type { Engine } from './assemble'
import {
  type ChainFault,
  checkState,
  decideClosed,
  isIn,
  judgeJournal,
  levelOf,
  untilKnown,
} from './check_chain'
import { missingPast, restoredConfig, restoreTrees } from './restore'

/**
 * If the self-check or the chain contradicts the venue, it stays up, rejects all commands and reports the reason in its status.
 * With `restore`, state is rebuilt from the chain and `config` holds the incremented generation (`restore.ts`).
 * Rejects when the chain rejects the epoch.
 */
export async function start(engine: Engine, first: VaultConfig, restore = false): Promise<void> {
  const { state, hash, chain, loaded, sequencer } = engine
  const { self_check_reasons } = engine.config
  // Before anything durable: no client would believe this epoch, and it would fence an instance they believe.
  if (self_check_reasons.length > 0) return engine.halt('self_check', self_check_reasons)
  if (!restore && loaded.verdict.fault !== undefined) return engine.halt(loaded.verdict.fault)
  const { vault: config, verdict } = await untilKnown(engine, first, (vault) => ({
    fault: restore ? undefined : checkState(vault, state),
  }))
  if (verdict.fault !== undefined) return engine.halt(verdict.fault)
  await restoreTrees(state, loaded.stores, hash)
  const opened = await takeEpoch(engine, config, restore)
  if (typeof opened === 'string') return engine.halt(opened)
  const { epoch, slot: epoch_slot, signature, past } = opened
  // The journal contains only boot records until this boot's nonce is final on chain, and nothing is matched before the
  // instance of the previous epoch must have stopped. In a cluster the term has ended its appends, and revocations wait.
  const free_ms = epoch > 1 ? opened.confirmed_ms + engine.config.lease_ms * LIMITS.lease_wait : 0
  if (!opened.released && engine.config.cluster === undefined) await untilFree(engine, free_ms)
  // Before the settings: the match of a batch follows the terms of its close.
  const decision = await decideClosed(opened.config, chain.view().slot, state, loaded.journal)
  if (typeof decision === 'string') return engine.halt(decision)
  if (decision !== undefined) await sequencer.submit(decision)
  const settings = settingsFor(engine, config)
  if (JSON.stringify(settings) !== JSON.stringify(state.settings)) {
    await sequencer.submit({ kind: 'configure', settings })
  }
  for (const command of past) await sequencer.submit(command)
  await sequencer.submit({ kind: 'epoch_opened', epoch, slot: epoch_slot, signature })
  // A pause may have ended. A program error needs the operator's judgement, which restarting the venue expresses.
  const resumes =
    state.halted === 'program_error' || (state.halted === 'vault_paused' && !opened.config.paused)
  if (resumes) await sequencer.submit({ kind: 'resumed' })
  const { closing, availability, halt } = engine
  const sink = new ChainSink(state, loaded.stores, hash, sequencer, closing, availability, halt)
  chain.start({
    sink,
    outbox: engine.outbox,
    leaf_count: state.leaves.size,
    last_batch: opened.config.last_batch,
    epoch,
    own_boot_nonces: state.epochs.map((one) => one.boot_nonce),
    exits_open: exitsOf(state),
  })
  // Advance to the current slot before accepting orders.
  const { slot } = chain.view()
  if (slot > state.slot) await engine.closing.slot(slot)
  engine.pump.begin()
  engine.grace.begin()
  await engine.disk_gauge.begin()
  engine.scrub.begin()
  engine.retention.begin()
  engine.snapshotting.begin()
  while (chain.lease().age_ms > engine.config.lease_ms) {
    // Without the epoch no lease comes.
    if (engine.availability.isStopped()) return
    await Bun.sleep(LIMITS.release_look_ms)
  }
  engine.node?.served(free_ms)
  engine.availability.serve()
}

/** Waits until the lease of the instance that held the epoch before is over, by its clock too. */
async function untilFree({ clock }: Engine, free_ms: number): Promise<void> {
  for (let now_ms = clock.monotonicMs(); now_ms < free_ms; now_ms = clock.monotonicMs()) {
    await Bun.sleep(free_ms - now_ms)
  }
}

/** In one field order, so that equal settings are equal as JSON. */
function settingsFor({ config }: Engine, { generation }: VaultConfig): Settings {
  return {
    instruments: config.instruments,
    mints: config.mints,
    fee_key: config.fee_key,
    fee_anchor: config.fee_anchor,
    order_life_slots_max: config.order_life_slots_max,
    settlement_parts_max: config.settlement_parts_max,
    retention_days: config.retention_days,
    ...(config.reference_sources === undefined ? {} : { reference_sources: config.reference_sources }),
    generation,
    build: { compose_hash: config.compose_hash, tacit_version: config.tacit_version },
  }
}

type Opened = OpenedEpoch & { epoch: number; config: VaultConfig }
/** `past`: the commands of the restored past, which the journal lacks. */
type Taken = Opened & { released: boolean; past: CommandBody[] }

/**
 * Resolves with the epoch that is now open, or with the reason why this journal must not trade on this chain.
 * A killed instance may have sent an epoch that lands while this one opens the next. In this case the chain is read again
 * until that epoch is final, and its nonce decides whether it belongs to this journal: a new boot record follows then.
 * @param restore if true, `config.generation` is the incremented one
 */
export async function takeEpoch(
  engine: Engine,
  config: VaultConfig,
  restore: boolean,
): Promise<Taken | ChainFault | 'restore_incomplete'> {
  const { chain, state, loaded } = engine
  let { released } = loaded.verdict
  let past: CommandBody[] = []
  let past_to = -1
  // A reading of before that of a generation is of providers that are behind.
  let generation = restore ? config.generation - 1 : config.generation
  for (let known = config, restores = restore; ; ) {
    // A batch of the instance before may have landed since; a reading of before it is of providers that are behind.
    if (state.epoch === 0 && known.last_batch > past_to) {
      const missing = await missingPast(engine, known)
      if (missing === 'incomplete') return 'restore_incomplete'
      past = missing
      past_to = known.last_batch
    }
    try {
      const opened = await openEpoch(engine, known, restores)
      return typeof opened === 'string' ? opened : { ...opened, released, past }
    } catch (error) {
      if (!(error instanceof EpochTaken)) throw error
    }
    await Bun.sleep(chain.view().slot_ms)
    known = await chain.readConfig(levelOf(engine.config))
    generation = Math.max(generation, known.generation)
    // A boot that died while restoring may have used the announcement up in an opening that landed meanwhile. Until that is final
    // the vault states the position of the lost journal.
    restores &&= generation < config.generation
    if (restores) {
      known = restoredConfig(known)
      continue
    }
    const { vault, verdict } = await untilKnown(engine, known, async (read) => {
      if (read.generation < generation) return { fault: 'chain_unknown', released: false }
      const { fault, released } = await judgeJournal(read, chain, loaded.journal)
      return { fault: fault ?? checkState(read, state), released }
    })
    if (verdict.fault !== undefined) return verdict.fault
    known = vault
    released = verdict.released
  }
}

async function spentRootOf(hash: HashPort, batches: number): Promise<Uint8Array | undefined> {
  if (batches > hash.spent().batch_count) return undefined
  return batches === 0 ? EMPTY_SPENT_SUBTREES.at(-1) : (await hash.spentPath(batches, batches)).root
}

/**
 * Appends the boot record before the opening is sent, which states the head before it, and nothing after it: with
 * any answer of the chain, and wherever this process dies, the journal's tail is one that the next boot accepts. After
 * expiry the same nonce is signed again. `forked` when another instance holds the chain's epoch, `chain_unknown` when no quorum
 * shows this one's in `epoch_slots_max` slots.
 * @throws EpochTaken, or another error of the chain port
 */
async function openEpoch(
  { chain, hash, sequencer, loaded, keys, intake, config: settings }: Engine,
  config: VaultConfig,
  restore: boolean,
): Promise<Opened | 'forked' | 'chain_unknown'> {
  const epoch = config.epoch + 1
  const level = levelOf(settings)
  const { generation } = config
  const boot_nonce = new Uint8Array(randomBytes(16))
  const compose_hash = fromHex(settings.compose_hash, 32)!
  const before = loaded.journal.head()
  sequencer.signAs(signerOf(keys, intake.venue, epoch))
  let recorded: Promise<unknown> | undefined
  const spentRoot = (batches: number) => spentRootOf(hash, batches)
  const passes = async (position: ChainPoint) => restore || (await isIn(loaded.journal, position))
  const opened = await chain.openEpoch(
    { epoch, boot_nonce, compose_hash, ...before, restore, ...(level && { level }), passes, spentRoot },
    async (signature, transaction) => {
      recorded ??= sequencer.submit({
        kind: 'epoch_intended',
        epoch,
        boot_nonce,
        generation,
        settlement_key: publicKeyOf(keys.settlement_seed),
        signature,
        transaction,
      })
      await recorded
    },
  )
  let now = await chain.readConfig(level)
  // The providers that answer may be behind those that showed the opening.
  for (const { slot } = chain.view(); now.epoch < epoch; ) {
    if (chain.view().slot - slot > LIMITS.epoch_slots_max) return 'chain_unknown'
    await Bun.sleep(chain.view().slot_ms)
    now = await chain.readConfig(level)
  }
  if (now.epoch !== epoch || !equalBytes(now.boot_nonce, boot_nonce)) return 'forked'
  sequencer.opened()
  return { ...opened, epoch, config: now }
}

/** The statement key of this boot, certified by the settlement key for this epoch. */
export function signerOf(
  { settlement_seed, statement_seed: seed }: KeysPort,
  venue: Uint8Array,
  epoch: number,
): GroupSigner {
  const { public_key: statement_key } = signingKey(seed)
  const statement = STATEMENT_BODY.encode({ venue, statement_key, epoch: BigInt(epoch) })
  const certificate = signingKey(settlement_seed).sign(statement)
  return { venue, epoch, seed, statement_key, certificate }
}
