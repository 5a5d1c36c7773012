/** Constructs the parts of a running venue around one loaded state, in the order of their dependencies. */
import { join } from 'node:path'
import { Refusal } from '../../protocol/refusals'
import { Exporter } from '../audit/open_exporter'
import type { ClusterNode } from '../cluster/cluster_node'
import type { CommandBody } from '../commands'
import type { EngineConfig } from '../config'
import { Slices } from '../history/slices'
import { Arrivals } from '../intake/arrivals'
import type { GroupSigner } from '../journal/contract'
import { DiskGauge } from '../journal/disk'
import { LIMITS } from '../limits'
import type { Env } from '../machine/state/outcome'
import { indexOf, rowsWaiting } from '../machine/state/past'
import type { State } from '../machine/state/state'
import { collectWhenQuiet } from '../memory/idle_gc'
import type {
  AccountBook,
  AccountsPort,
  ChainPort,
  ClockPort,
  Fronts,
  HashPort,
  KeysPort,
  VaultConfig,
  VaultMint,
  Warning,
} from '../ports'
import { Metrics } from '../reads/metrics'
import { OwnReads } from '../reads/own_reads'
import {
  type FinalizedView,
  InstrumentReads,
  MarketReads,
  SettlementReads,
  TreeReads,
} from '../reads/public_reads'
import { TransparencyReads } from '../reads/transparency'
import { Anchoring } from '../sequencer/anchoring'
import { Availability, type StopReason } from '../sequencer/availability'
import { Closing } from '../sequencer/closing'
import { type ArmedSockets, DisconnectGrace } from '../sequencer/disconnect_grace'
import { applyDurable, EndedTokens } from '../sequencer/durable_effects'
import { HashPump } from '../sequencer/hash_pump'
import { Landings, Outbox } from '../sequencer/outbox'
import { Retention } from '../sequencer/retention'
import { seedsOf } from '../sequencer/seeds'
import { Sequencer } from '../sequencer/sequencer'
import { openIntake, openWrites } from '../sequencer/writes'
import { Scrub } from '../snapshots/scrub'
import { openSnapshotting } from '../snapshots/snapshotting'
import { Hub } from '../streams/hub'
import type { Session } from '../venue'
import type { Loaded } from './load_state'
import { signerOf } from './start'

export type EnginePorts = {
  clock: ClockPort
  hash: HashPort
  chain: ChainPort
  keys: KeysPort
  warnings?: () => readonly Warning[]
  /** Called at most once: memory may be ahead of disk, so the process must exit. */
  fatal: (error: Error) => void
  /** The node of a cluster that leads by this process. */
  node?:
    | Pick<
        ClusterNode,
        'served' | 'resign' | 'stop' | 'rightMs' | 'alone' | 'isCarried' | 'successor' | 'handTo'
      >
    | undefined
  fronts?: Fronts | undefined
}
/** Vault and mints as read from the chain before the boot; in a restore, `config` holds the incremented generation. */
type FirstRead = { config: VaultConfig; mints: VaultMint[] }
export type Engine = ReturnType<typeof assemble>

export type OpenAccounts = (book: AccountBook) => AccountsPort

/**
 * @param openAccounts over the journaled accounts; tests replace it
 * @param views of a node that followed
 */
export function assemble(
  config: EngineConfig,
  ports: EnginePorts,
  loaded: Loaded,
  first: FirstRead,
  openAccounts: OpenAccounts,
  views = openViews(config, loaded, ports, openAccounts),
) {
  const { history, state } = loaded
  const { chain, hash, keys, node } = ports
  const clock = clockOf(ports)
  const given = { config, clock, chain, hash, keys, loaded, state, node, fronts: ports.fronts }
  const files = openFiles(config, keys, loaded, () => snapshotting.kept)
  const arrivals = new Arrivals()
  const availability = new Availability(
    arrivals.flush,
    chain,
    config.lease_ms,
    () => anchoring.isOverdue(),
    () => closing.reopensSlot(),
    files.health,
    ports.warnings,
  )
  availability.halt(state.halted)
  const ending = (reason: StopReason) => (error: Error) => {
    halt(reason)
    ports.fatal(error)
  }
  const fatal = ending('journal_failed')
  const durable = { ...views, arrivals, availability }
  const writer = openWriter(config, { ...ports, clock }, loaded, durable, {
    fatal,
    restart: ending('exits_disproved'),
    disown: (reason: 'forked' | 'rolled_back') => halt(reason),
  })
  const { sequencer, pump, anchoring, closing } = writer
  leadViews(views, availability, sequencer)
  /** Stops every acknowledgement at once, cancels included. */
  const halt = (reason: StopReason, details?: readonly string[]) => {
    availability.stop(reason, details)
    sequencer.stop(new Refusal('outcome_unknown'))
    views.hub.bye('restart', LIMITS.restart_retry_after_ms)
    pump.stop()
    closing.stop()
    anchoring.stop()
    node?.resign()
  }
  const isServing = () => availability.isRunning() && node?.rightMs() !== 0
  const grace = new DisconnectGrace(state, { clock, sequencer, isServing }, views.armed)
  const retention = new Retention(history, clock)
  const around = { sequencer, anchoring, fatal }
  const snapshotting = openSnapshotting(config, given, loaded, around)
  const intake = openIntake(config, { state, past: loaded.stores }, chain, first.config.generation)
  const writes = openWrites(intake, arrivals, { state, sequencer, availability, grace, closing })
  const { venue } = writes.intake
  return {
    ...given,
    ...durable,
    ...files,
    ...writer,
    halt,
    vault: first.config,
    grace,
    retention,
    snapshotting,
    ...writes,
    ...openReads(config, given, loaded, views, { ...first, venue }),
  }
}

/** From here on this node decides and writes. */
export function leadViews(
  { hub, record, right }: Views,
  availability: Availability,
  sequencer: Sequencer,
): void {
  // A client of the node that followed is to learn first who leads.
  right.mayPush = () => !right.is_fronted
  hub.resume()
  record.submit = async (command) => {
    availability.requireRunning()
    await sequencer.submit(command)
  }
}

/** The journaled accounts, as logins need them. */
function bookOf(state: State, { unixMs }: ClockPort, record: Recorder): AccountBook {
  return {
    limits: (account_id) => state.accounts.get(account_id)?.limits,
    credential(credential_id) {
      const account = state.credentials.get(credential_id)
      const credential = account?.credentials.find((one) => one.credential_id === credential_id)
      return credential && { account_id: account!.account_id, credential }
    },
    *tokens() {
      for (const { account_id, credentials, tokens } of state.accounts.values())
        for (const { credential_id, ...token } of tokens) {
          const credential = credentials.find((one) => one.credential_id === credential_id)!
          yield { ...token, account_id, credential }
        }
    },
    recordLogin: (account_id, { credential_id, version, kind }, token) =>
      record.submit({ kind: 'token_issued', account_id, credential_id, version, ...token }, kind),
    recordEnd: ({ account_id, token_id, access }) =>
      record.submit({ kind: 'token_ended', account_id, token_id }, access),
    unixMs,
  }
}

/** No decision reads the host's clock: the chain's, with the time elapsed since it was read, takes its place. */
export function clockOf({ chain, clock }: Pick<EnginePorts, 'chain' | 'clock'>): ClockPort {
  return { unixMs: () => chain.view().unix_ms, monotonicMs: () => clock.monotonicMs() }
}

/** Watches and reads the files while the venue runs. */
function openFiles(
  { data_dir }: EngineConfig,
  { journal_key }: KeysPort,
  { history, facts, state }: Loaded,
  snapshotsKept: () => readonly number[],
) {
  const disk_gauge = new DiskGauge(data_dir)
  const folders = {
    journal_dir: join(data_dir, 'journal'),
    snapshots_dir: join(data_dir, 'snapshots'),
    stores_dir: join(data_dir, 'stores'),
    key: journal_key,
  }
  const scrub = new Scrub(folders, snapshotsKept)
  const health = {
    isFull: () => disk_gauge.isFull() || rowsWaiting(state) > LIMITS.rows_waiting_max,
    isHistoryBroken: history.isBroken,
    isHistoryStalled: () => history.isStalled() || facts.isStalled(),
    damage: () => scrub.damaged,
  }
  return { disk_gauge, scrub, health, exporter: new Exporter() }
}

/** Where logins and their ends are journaled. */
type Recorder = {
  /** Resolves once it is durable. @param access of the credential. @throws Refusal */
  submit(command: CommandBody & { account_id: string }, access: Session['access']): Promise<void>
}

/** The views that durable records update. */
export function openViews(
  config: EngineConfig,
  { history, facts, journal, state }: Loaded,
  ports: Pick<EnginePorts, 'chain' | 'clock'>,
  openAccounts: OpenAccounts,
) {
  const record: Recorder = {
    submit: async () => {
      throw new Refusal('lease_lost')
    },
  }
  const right = { mayPush: () => true, is_fronted: false }
  const accounts = openAccounts(bookOf(state, clockOf(ports), record))
  const slices = new Slices(history, (...read) => accounts.chargeRead(...read))
  const instruments = new InstrumentReads(config, state)
  const finalized: FinalizedView = {
    leaf_count: state.leaves.size,
    slot: state.slot,
    batch_id: state.settlement.landed?.batch_id ?? 0,
  }
  return {
    record,
    right,
    armed: new Map() as ArmedSockets,
    ended: new EndedTokens(journal.head().seq),
    accounts,
    history,
    facts,
    state,
    finalized,
    metrics: new Metrics(),
    slices,
    hub: new Hub(history, slices, () => right.mayPush()),
    instruments,
    own: new OwnReads(history, instruments, slices),
  }
}
export type Views = ReturnType<typeof openViews>

/** Reasons to end this instance: an error, or batches that lost invented exits, which a new process must sign. */
type Ends = {
  fatal: (error: Error) => void
  restart: (error: Error) => void
  disown: (reason: 'forked' | 'rolled_back') => void
}

/** The sequencer and the parts that its durable records drive. */
function openWriter(
  config: EngineConfig,
  { chain, clock, hash, keys }: EnginePorts,
  { journal, history, facts, state, stores }: Loaded,
  views: Views & { arrivals: Arrivals; availability: Availability },
  { fatal, restart, disown }: Ends,
) {
  const { arrivals, availability } = views
  stores.onDamage = fatal
  const env: Env = {
    get unavailable() {
      return availability.unavailable()
    },
    past: stores,
  }
  // Its callbacks run only after a first command, so they may refer to the parts constructed below.
  const sequencer = new Sequencer({
    state,
    env,
    journal,
    clock,
    fatal,
    arrived: arrivals.flush,
    barred: () => availability.barred(),
    durable: (entry) => applyDurable(affected, entry),
    released: (end) => {
      history.seal(end)
      facts.seal(end)
      views.metrics.group()
      pump.wake()
      landings.check()
      worked()
      if (history.backlog() <= LIMITS.history_lag_live_events_max) return
      // Slows the writer down while the read models lag, and never stops it.
      return Promise.race([history.flush().catch(() => undefined), Bun.sleep(LIMITS.history_wait_ms)])
    },
  })
  const worked = collectWhenQuiet()
  const seedOf = seedsOf(state, keys.tie_break_key, chain)
  const barred = () => availability.barred()
  const closing = new Closing({ state, sequencer, chain, clock, seedOf, config, barred, disown, fatal })
  const landings = new Landings(state)
  const outbox = new Outbox(state, stores, journal, sequencer, hash, restart)
  const pump = new HashPump(state, stores, hash, sequencer, outbox, fatal)
  const anchoring = new Anchoring(
    chain,
    () => journal.head(),
    () => clock.monotonicMs(),
    config.anchor_max_ms,
  )
  const affected = { ...views, outbox, anchoring, closing, journal }
  return { sequencer, landings, outbox, pump, anchoring, closing }
}

function openReads(
  settings: EngineConfig,
  { chain, clock, hash, keys }: Pick<EnginePorts, 'chain' | 'clock' | 'hash' | 'keys'>,
  { facts, state, stores }: Loaded,
  { instruments, finalized }: Views,
  first: FirstRead & { venue: Uint8Array },
) {
  const { venue } = first
  let known: GroupSigner | undefined
  const signer = () => {
    if (known?.epoch !== state.epoch) known = signerOf(keys, venue, state.epoch)
    return known
  }
  return {
    tree: new TreeReads(
      hash,
      () => finalized,
      (commitment) => indexOf(state, stores, 'leaves', commitment),
    ),
    settlement: new SettlementReads(chain, facts.landed),
    market: new MarketReads({ instruments, statistics: facts.statistics, venue, clock, signer }),
    transparency: new TransparencyReads(
      { settings, venue, chain, clock, facts, exits: () => state.settlement.exits.values() },
      first,
    ),
  }
}
