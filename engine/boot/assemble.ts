/** Assembles the parts of a running venue around one loaded state. */
import { Refusal } from '../../protocol/refusals'
import type { EngineConfig } from '../config'
import { LIMITS } from '../limits'
import type { Env } from '../machine/state/outcome'
import type { ChainPort, ClockPort, HashPort, KeysPort, VaultConfig, VaultMint } from '../ports'
import { Metrics } from '../reads/metrics'
import { OwnReads } from '../reads/own_reads'
import { type FinalizedView, InstrumentReads, SettlementReads, TreeReads } from '../reads/public_reads'
import { TransparencyReads } from '../reads/transparency'
import { Anchoring } from '../sequencer/anchoring'
import { Availability, type StopReason } from '../sequencer/availability'
import { DisconnectGrace } from '../sequencer/disconnect_grace'
import { applyDurable } from '../sequencer/durable_effects'
import { HashPump } from '../sequencer/hash_pump'
import { Landings, Outbox } from '../sequencer/outbox'
import { Upkeep } from '../sequencer/retention'
import { Sequencer } from '../sequencer/sequencer'
import { openWrites } from '../sequencer/writes'
import { openSnapshotting } from '../snapshots/snapshotting'
import { Hub } from '../streams/hub'
import type { Loaded } from './load_state'

// Joins the reads that answer from the chain's mirror and from an account's own past.

function openReads(
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

// Joins the parts of a running venue around one loaded state.

type EnginePorts = {
  clock: ClockPort
  hash: HashPort
  chain: ChainPort
  keys: KeysPort
  /** The process must end: memory may be ahead of disk. Called at most once. */
  fatal: (error: Error) => void
}
export type Engine = ReturnType<typeof assemble>

export function assemble(
  config: EngineConfig,
  ports: EnginePorts,
  loaded: Loaded,
  first: { config: VaultConfig; mints: VaultMint[] },
) {
  const { journal, history, facts, state } = loaded
  const { chain, hash, clock } = ports
  const availability = new Availability(chain)
  availability.halt(state.halted)
  const env: Env = {
    batchSeed: loaded.batchSeed,
    get unavailable() {
      return availability.unavailable()
    },
  }
  const finalized: FinalizedView = {
    leaf_count: state.leaves.size,
    slot: state.slot,
    batch_id: state.settlement.landed?.batch_id ?? 0,
  }
  const metrics = new Metrics()
  const hub = new Hub(history, () => availability.readsBroken())
  const instruments = new InstrumentReads(config, state)
  const fatal = (error: Error) => {
    halt('journal_failed')
    ports.fatal(error)
  }
  const sequencer = new Sequencer({
    state,
    env,
    journal,
    clock,
    fatal,
    durable: (entry) => applyDurable(parts, entry),
    released: () => {
      metrics.group()
      pump.wake()
      landings.check()
      if (history.backlog() <= LIMITS.history_lag_live_events_max) return
      return history.flush().catch(() => availability.readsBroken())
    },
  })
  const landings = new Landings(state)
  const outbox = new Outbox(state, journal, sequencer)
  const pump = new HashPump(state, hash, sequencer, fatal)
  const anchoring = new Anchoring(
    chain,
    () => journal.head(),
    () => clock.monotonicMs(),
  )
  const grace = new DisconnectGrace(state, sequencer)
  const upkeep = new Upkeep(history, clock)
  const seqDurable = () => sequencer.seq_durable
  const snapshotting = openSnapshotting(config, ports, loaded, { seqDurable, fatal })
  const parts = {
    history,
    hub,
    facts,
    state,
    instruments,
    availability,
    outbox,
    anchoring,
    metrics,
    finalized,
  }
  /** Stops every acknowledgement at once, cancels included. */
  const halt = (reason: StopReason) => {
    availability.stop(reason)
    sequencer.stop(new Refusal('internal'))
    pump.stop()
    anchoring.stop()
  }
  return {
    ...parts,
    config,
    clock,
    chain,
    hash,
    loaded,
    sequencer,
    pump,
    halt,
    vault: first.config,
    landings,
    grace,
    upkeep,
    snapshotting,
    sign: (body: Uint8Array) => ports.keys.signStatement(body),
    ...openWrites(config, state, chain, first.config.generation, fatal, { sequencer, availability, grace }),
    ...openReads(config, ports, loaded, { instruments, finalized, first }),
  }
}
