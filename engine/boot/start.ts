/** Starts a venue from its loaded state: rollback check, settings, trees, epoch, watcher and relayer. */
import type { Settings } from '../commands'
import { LIMITS } from '../limits'
import type { VaultConfig } from '../ports'
import { ChainSink, exitsOf } from '../sequencer/chain_sink'
import type { Engine } from './assemble'
import { checkState, decideClosed } from './check_chain'
import { takeEpoch } from './open_epoch'
import { missingPast, restoreTrees } from './restore'

/**
 * If the self-check or the chain contradicts the venue, it stays up, rejects all commands and reports the reason in its status.
 * With `restore`, state is rebuilt from the chain and `config` holds the incremented generation (`restore.ts`).
 * Rejects when the chain rejects the epoch.
 */
export async function start(engine: Engine, config: VaultConfig, restore = false): Promise<void> {
  const { state, hash, chain, loaded, sequencer } = engine
  const { self_check_reasons } = engine.config
  // Before anything durable: no client would believe this epoch, and it would fence an instance they believe.
  if (self_check_reasons.length > 0) return engine.halt('self_check', self_check_reasons)
  const fault = restore ? undefined : (loaded.verdict.fault ?? checkState(config, state))
  if (fault !== undefined) return engine.halt(fault)
  await restoreTrees(state, loaded.stores, hash)
  const past = state.epoch === 0 ? await missingPast(engine, config) : []
  if (past === 'incomplete') return engine.halt('restore_incomplete')
  const opened = await takeEpoch(engine, config, restore)
  if (typeof opened === 'string') return engine.halt(opened)
  const { epoch, slot: epoch_slot, signature } = opened
  // Nothing but boot records is in the journal before the own nonce is final on chain, and nothing is matched before the
  // instance of the epoch before must have stopped. In a cluster the term has ended its appends, and revocations wait.
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
  engine.pump.wake()
  engine.grace.begin()
  await engine.disk_gauge.begin()
  engine.scrub.begin()
  engine.retention.begin()
  engine.snapshotting.begin()
  while (chain.lease().age_ms > engine.config.lease_ms) await Bun.sleep(LIMITS.release_look_ms)
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
