/** Executes the operator's calls: reference prices, status of instruments, exports for the auditor, metrics. */
import { join } from 'node:path'
import { Refusal } from '../../protocol/refusals'
import type { Activation, InstrumentChange, ReferencePrice } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { BatchName } from '../audit/export_batch'
import type { Engine } from '../boot/assemble'
import { signerOf } from '../boot/start'
import { intakeReference } from '../intake/requests'
import type { Exit } from '../machine/state/batch'
import { rowsWaiting } from '../machine/state/past'
import { VERSIONS } from '../machine/state/state'
import type { Histogram } from '../memory/histogram'
import { PROVIDER_REASONS, SETTLEMENT_REASONS } from '../ports'
import { ENGINE_REASONS, reasonWord } from '../sequencer/reasons'
import type { Venue } from '../venue'

/** Every word that an entry of `reasons` can begin with, those of the chain's loops included. */
export const REASON_WORDS: readonly string[] = [
  ...new Set([...Object.keys(ENGINE_REASONS), ...Object.keys(SETTLEMENT_REASONS), ...PROVIDER_REASONS]),
]

/** Coarser than the time between two messages, so that no metric shows when a single one came. */
const UNANCHORED_STEP_MS = 10_000

/**
 * Verifies and journals a source's price, the reference of later auctions. Resolves once durable.
 * @throws Refusal of `intakeReference`, or `matching_unavailable`
 */
export async function postReference(
  engine: Engine,
  price: Parsed<typeof ReferencePrice>,
): Promise<{ symbol: string; publish_unix_ms: number; seq: number }> {
  const { availability, clock, config, intake, sequencer, state } = engine
  availability.requireRunning()
  const sources = config.reference_sources ?? []
  const { venue } = intake
  try {
    const command = intakeReference({ venue, sources, instruments: state.instruments }, clock.unixMs(), price)
    const { seq } = await sequencer.submit(command)
    return { symbol: command.symbol, publish_unix_ms: command.publish_unix_ms, seq }
  } catch (error) {
    // The comparison may have used a price that is not durable yet.
    if (error instanceof Refusal && error.code === 'reference_stale') await sequencer.durable()
    throw error
  }
}

/**
 * The file of one batch, which the auditor of the settings alone can read.
 * @throws Refusal `auditor_unset`, `auction_unknown`, `export_busy` or of Availability
 */
export async function exportBatch(engine: Engine, name: BatchName): Promise<Uint8Array<ArrayBuffer>> {
  const { availability, config, exporter, intake, keys, loaded, state } = engine
  const { auditor_key, data_dir } = config
  availability.requireRunning()
  if (auditor_key === '') throw new Refusal('auditor_unset')
  return await exporter.make({
    symbol: name.symbol,
    batch: name.batch,
    journal_dir: join(data_dir, 'journal'),
    snapshots_dir: join(data_dir, 'snapshots'),
    journal_key: keys.journal_key,
    point: loaded.journal.head(),
    signer: signerOf(keys, intake.venue, state.epoch),
    auditor_key,
  })
}

/**
 * Opens, pauses or closes an instrument; closing cancels its orders and is final. Resolves once durable.
 * @throws Refusal `instrument_unknown`; `field_invalid` for a closed one, or to open one that is not configured any more;
 * or of `requireRunning`
 */
export async function changeInstrument(
  { availability, config, sequencer, state }: Engine,
  { status, symbol }: Parsed<typeof InstrumentChange>,
): Promise<{ symbol: string; status: 'active' | 'paused' | 'closed'; seq: number }> {
  availability.requireRunning()
  const known = state.instruments.get(symbol)
  if (known === undefined) throw new Refusal('instrument_unknown')
  const is_configured = config.instruments.some((one) => one.symbol === symbol)
  if ((known.status === 'closed' && status !== 'closed') || (status === 'active' && !is_configured))
    throw new Refusal('field_invalid', { field: 'status' })
  const { seq } = await sequencer.submit({ kind: 'instrument_status', symbol, status })
  return { symbol, status, seq }
}

/**
 * Puts the next version of rules and formats in force. Of several nodes each live one must carry it; one that joins later
 * and does not ends. Resolves once durable, also where it is in force.
 * @throws Refusal `version_unsupported` or of `requireRunning`
 */
export async function activate(
  { availability, node, sequencer, state }: Engine,
  { version }: Parsed<typeof Activation>,
): Promise<{ version: number }> {
  availability.requireRunning()
  const isDue = () => {
    if (version === state.version) return false
    if (version === state.version + 1 && VERSIONS.includes(version)) return true
    throw new Refusal('version_unsupported')
  }
  if (isDue()) {
    if (node !== undefined && !(await node.isCarried(version))) throw new Refusal('version_unsupported')
    availability.requireRunning()
    if (isDue()) await sequencer.submit({ kind: 'activate', version })
  }
  await sequencer.durable()
  return { version }
}

/** Gauges of the running engine by metric name. */
export function gaugesOf(engine: Engine): Record<string, { help: string; value: number }> {
  const { chain, state, sequencer, loaded, hub, anchoring, snapshotting, disk_gauge, scrub } = engine
  const { slot, lag_ms } = chain.view()
  const { providers, providers_agreeing, fee_payer_lamports } = chain.figures()
  return {
    tacit_chain_slot: { help: 'Confirmed slot.', value: slot },
    tacit_chain_lag_ms: { help: 'Age of the chain view.', value: lag_ms },
    tacit_journal_seq: { help: 'Newest durable journal record.', value: sequencer.seq_durable },
    tacit_journal_pending: {
      help: 'Records applied in memory and not yet durable.',
      value: sequencer.seq_executed - sequencer.seq_durable,
    },
    tacit_disk_free_bytes: { help: 'Free space of the data volume.', value: disk_gauge.free_bytes },
    tacit_files_damaged: {
      help: 'Old segments and snapshots that are damaged.',
      value: scrub.damaged.length,
    },
    tacit_snapshot_seq: {
      help: 'Journal record of the newest snapshot.',
      value: snapshotting.newest?.seq ?? 0,
    },
    tacit_snapshot_failures: { help: 'Snapshots that failed since the start.', value: snapshotting.failures },
    tacit_rows_waiting: {
      help: 'Rows of closed orders and notes in memory until a snapshot has them.',
      value: rowsWaiting(state),
    },
    tacit_history_backlog: {
      help: 'Events not yet written to read models.',
      value: loaded.history.backlog(),
    },
    tacit_accounts: { help: 'Accounts with a record.', value: state.accounts.size },
    tacit_streams: { help: 'Open streams.', value: hub.size() },
    tacit_batches_packed: { help: 'Settlement batches packed.', value: state.settlement.last_batch },
    tacit_batches_hashed: { help: 'Settlement batches hashed.', value: state.settlement.last_hashed },
    tacit_batches_open: { help: 'Settlement batches not finalized.', value: state.settlement.batches.size },
    tacit_exits_open: { help: 'Exit requests that have not ended.', value: state.settlement.exits.size },
    tacit_exit_deadline_unix_s: {
      help: 'Nearest deadline of an exit request that no batch has served; +Inf without one.',
      value: nearestDeadline(state.settlement.exits.values()),
    },
    tacit_providers: { help: 'RPC providers that the settings name.', value: providers },
    tacit_providers_agreeing: { help: 'Those of them under no alarm.', value: providers_agreeing },
    tacit_fee_payer_lamports: {
      help: "The fee payer's balance, as a quorum showed it last; NaN before.",
      value: Number(fee_payer_lamports),
    },
    tacit_payouts_queued: {
      help: 'Payouts in the queue of the vault, not finally closed.',
      value: state.settlement.queued.size,
    },
    tacit_lease_age_ms: {
      help: 'Age of the newest view in which the epoch is of this instance; +Inf without one.',
      value: chain.lease().age_ms,
    },
    tacit_unanchored_ms: {
      help: 'Age of the oldest journal record that no confirmed position on chain covers, in steps of 10 s.',
      value: Math.floor(anchoring.ageMs() / UNANCHORED_STEP_MS) * UNANCHORED_STEP_MS,
    },
  }
}

/** How long the disk takes, in buckets; without sums, in which a single message would show. */
export function latenciesOf({ loaded }: Engine): ReturnType<Venue['metrics']> {
  const { history, journal } = loaded
  const rows = (name: string, help: string, latency: Histogram) =>
    latency.cumulative().map(({ count, le }) => {
      return { name, help, type: 'histogram' as const, labels: { le }, value: count }
    })
  return [
    ...rows('tacit_journal_append_seconds', 'Time from a group to its durability.', journal.latency.append),
    ...rows('tacit_journal_sync_seconds', 'Time of a sync of the journal.', journal.latency.sync),
    ...rows('tacit_history_commit_seconds', 'Time of a commit of the read models.', history.latency),
  ]
}

function nearestDeadline(exits: Iterable<Exit>): number {
  let nearest = Number.POSITIVE_INFINITY
  for (const { settlement_batch, deadline_unix_s } of exits)
    if (settlement_batch === 0) nearest = Math.min(nearest, deadline_unix_s)
  return nearest
}

/** Readiness, and every reason word as a gauge that is there before it is 1, so that an alert can refer to it. */
export function readinessOf({ availability }: Engine): ReturnType<Venue['metrics']> {
  const { ready, reasons } = availability.status()
  const words = new Set(reasons.map(reasonWord))
  const gauge = { type: 'gauge' } as const
  return [
    { ...gauge, name: 'tacit_ready', help: 'Whether the venue is ready.', value: Number(ready) },
    ...REASON_WORDS.map((reason) => ({
      ...gauge,
      name: 'tacit_reason',
      help: 'Whether /system/status gives this reason.',
      labels: { reason },
      value: Number(words.has(reason)),
    })),
  ]
}
