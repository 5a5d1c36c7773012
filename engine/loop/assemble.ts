/** Joins the parts of a running venue around one loaded state. */
import { Refusal } from '../../protocol/refusals'
import { venueId } from '../../protocol/venue_id'
import type { EngineConfig } from '../config'
import { type Intake, intakeOf } from '../intake/intake'
import { SignatureThread } from '../intake/signature_thread'
import { SIGNATURES_INLINE } from '../intake/signatures'
import type { ChainPort, ClockPort, HashPort, KeysPort, VaultConfig, VaultMint } from '../ports'
import { InstrumentReads } from '../reads/instrument_reads'
import { Metrics } from '../reads/metrics'
import { OwnReads } from '../reads/own_reads'
import { SettlementReads } from '../reads/settlement_reads'
import { TransparencyReads } from '../reads/transparency'
import { type FinalizedView, TreeReads } from '../reads/tree_reads'
import type { Env } from '../state/outcome'
import { Hub } from '../streams/hub'
import { Anchoring } from './anchoring'
import { Availability, type StopReason } from './availability'
import { DisconnectGrace } from './disconnect_grace'
import { applyDurable } from './durable_effects'
import { HashPump } from './hash_pump'
import { Landings } from './landings'
import type { Loaded } from './load_state'
import { openSnapshotting } from './open_snapshotting'
import { Outbox } from './outbox'
import { ReceiptCache } from './receipt_cache'
import { Sequencer } from './sequencer'
import { Upkeep } from './upkeep'
import { Writes } from './writes'

export type EnginePorts = {
  clock: ClockPort
  hash: HashPort
  chain: ChainPort
  keys: KeysPort
  /** The process must end: memory may be ahead of disk. Called at most once. */
  fatal: (error: Error) => void
}
export type Engine = ReturnType<typeof assemble>

/** Events the read models may lag before the next group waits for them. */
const HISTORY_BACKLOG = 20_000

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
    durable: (entry) => applyDurable(durable_parts, entry),
    released: () => {
      metrics.group()
      pump.wake()
      landings.check()
      if (history.backlog() <= HISTORY_BACKLOG) return
      return history.flush().catch(() => availability.readsBroken())
    },
  })
  const landings = new Landings(state)
  const outbox = new Outbox(state, journal, sequencer)
  const pump = new HashPump(state, hash, sequencer, fatal)
  const anchoring = new Anchoring(chain, () => journal.head())
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
  const durable_parts = parts
  /** Stops every acknowledgement at once, cancels included. */
  const halt = (reason: StopReason) => {
    availability.stop(reason)
    sequencer.stop(new Refusal('internal'))
    pump.stop()
    anchoring.stop()
  }
  const signatures = config.signature_thread === true ? new SignatureThread(fatal) : SIGNATURES_INLINE
  const intake: Intake = intakeOf(venueOf(chain, first.config.generation), config.instruments, state)
  return {
    ...parts,
    config,
    clock,
    chain,
    hash,
    intake,
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
    signatures,
    writes: new Writes({
      intake,
      signatures,
      state,
      sequencer,
      availability,
      grace,
      receipts: new ReceiptCache(),
    }),
    own: new OwnReads(history, instruments),
    tree: new TreeReads(hash, () => finalized),
    settlement: new SettlementReads(chain, facts.landed),
    transparency: new TransparencyReads({ settings: config, chain, clock, facts }, first),
  }
}

function venueOf(chain: ChainPort, generation: number): Uint8Array {
  const { genesis_hash, program_id, config_account } = chain
  return venueId({ genesis_hash, program_id, config_account, generation })
}
