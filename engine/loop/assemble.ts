/** Joins the parts of a running venue around one loaded state. */
import { Refusal } from '../../protocol/refusals'
import type { EngineConfig } from '../config'
import type { ChainPort, ClockPort, HashPort, KeysPort, VaultConfig, VaultMint } from '../ports'
import { InstrumentReads } from '../reads/instrument_reads'
import { Metrics } from '../reads/metrics'
import type { FinalizedView } from '../reads/tree_reads'
import type { Env } from '../state/outcome'
import { Hub } from '../streams/hub'
import { Anchoring } from './anchoring'
import { Availability, type StopReason } from './availability'
import { DisconnectGrace } from './disconnect_grace'
import { applyDurable } from './durable_effects'
import { HashPump } from './hash_pump'
import { Landings } from './landings'
import type { Loaded } from './load_state'
import { openReads } from './open_reads'
import { openSnapshotting } from './open_snapshotting'
import { openWrites } from './open_writes'
import { Outbox } from './outbox'
import { Sequencer } from './sequencer'
import { Upkeep } from './upkeep'

export type EnginePorts = {
  clock: ClockPort
  hash: HashPort
  chain: ChainPort
  keys: KeysPort
  /** The process must end: memory may be ahead of disk. Called at most once. */
  fatal: (error: Error) => void
}
export type Engine = ReturnType<typeof assemble>

/** Events the read models may lag before the next group waits for them; a replay lets them lag further. */
const LIVE_BACKLOG_MAX = 20_000

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
      if (history.backlog() <= LIVE_BACKLOG_MAX) return
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
