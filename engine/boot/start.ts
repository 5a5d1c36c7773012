/** Starts a venue from its loaded state: rollback check, settings, trees, epoch, watcher and relayer. */
import type { Settings } from '../commands'
import type { VaultConfig } from '../ports'
import { ChainSink, exitsOf } from '../sequencer/chain_sink'
import type { Engine } from './assemble'
import { checkChain, decideClosed, openEpoch, takeEpoch } from './open_epoch'
import { isSpentLogOf, restoreSpent, restoreTrees } from './restore'

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
  const reason = restore ? undefined : await checkChain(config, state, loaded.journal)
  if (reason !== undefined) return engine.halt(reason)
  if (restore) await restoreSpent(chain, config, state, sequencer)
  await restoreTrees(state, hash)
  if (restore && !isSpentLogOf(hash, config)) return engine.halt('restore_incomplete')
  const ports = { chain, hash, journal: loaded.journal, sequencer }
  const { compose_hash } = engine.config
  const opened = restore
    ? ((await openEpoch(config, compose_hash, ports, restore)) ?? 'forked')
    : await takeEpoch(config, compose_hash, ports, state)
  if (typeof opened === 'string') return engine.halt(opened)
  const { epoch, landing } = opened
  // Before the settings: the match of a batch follows the terms of its close.
  const decision = await decideClosed(opened.config, chain.view().slot, state, loaded.journal)
  if (typeof decision === 'string') return engine.halt(decision)
  if (decision !== undefined) await sequencer.submit(decision)
  const settings = settingsFor(engine, config)
  if (JSON.stringify(settings) !== JSON.stringify(state.settings)) {
    await sequencer.submit({ kind: 'configure', settings })
  }
  await sequencer.submit({ kind: 'epoch_opened', epoch, ...landing })
  // A pause may have ended. A program error needs the operator's judgement, which restarting the venue expresses.
  const resumes =
    state.halted === 'program_error' || (state.halted === 'vault_paused' && !opened.config.paused)
  if (resumes) await sequencer.submit({ kind: 'resumed' })
  sequencer.useSigner({ venue: engine.intake.venue, epoch, sign: engine.sign })
  const sink = new ChainSink(state, hash, sequencer, engine.closing, engine.availability, engine.halt)
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
  engine.retention.begin()
  engine.snapshotting.begin()
  engine.availability.serve()
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
