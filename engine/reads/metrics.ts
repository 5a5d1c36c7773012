/** Counters and gauges for the operator: nothing per instrument, order or account. */
import { REFUSALS, type RefusalCode } from '../../protocol/refusals'
import type { Engine } from '../boot/assemble'
import type { Venue } from '../venue'

// Gauges of the running engine for the operator's metrics.

export function gaugesOf(engine: Engine): Record<string, { help: string; value: number }> {
  const { chain, state, sequencer, loaded, hub, anchoring, snapshotting } = engine
  const { slot, lag_ms } = chain.view()
  return {
    tacit_chain_slot: { help: 'Confirmed slot.', value: slot },
    tacit_chain_lag_ms: { help: 'Age of the chain view.', value: lag_ms },
    tacit_journal_seq: { help: 'Newest durable journal record.', value: sequencer.seq_durable },
    tacit_journal_pending: {
      help: 'Records applied in memory and not yet durable.',
      value: sequencer.seq_executed - sequencer.seq_durable,
    },
    tacit_snapshot_seq: { help: 'Journal record of the newest snapshot.', value: snapshotting.seq },
    tacit_snapshot_failures: { help: 'Snapshots that failed since the start.', value: snapshotting.failures },
    tacit_history_backlog: {
      help: 'Events not yet written to read models.',
      value: loaded.history.backlog(),
    },
    tacit_orders_live: { help: 'Live orders of the venue.', value: state.orders.size },
    tacit_accounts: { help: 'Accounts with a record.', value: state.accounts.size },
    tacit_streams: { help: 'Open streams.', value: hub.size() },
    tacit_batches_packed: { help: 'Settlement batches packed.', value: state.settlement.last_batch },
    tacit_batches_hashed: { help: 'Settlement batches hashed.', value: state.settlement.last_hashed },
    tacit_batches_open: { help: 'Settlement batches not finalized.', value: state.settlement.batches.size },
    tacit_head_dirty: {
      help: '1 while the journal head waits for an anchor.',
      value: Number(anchoring.isDirty()),
    },
  }
}

// Counters and gauges for the operator: nothing per instrument, order or account.

type Metric = ReturnType<Venue['metrics']>[number]

export class Metrics {
  private readonly refusals = new Map<RefusalCode, number>()
  private commands = 0
  private groups = 0
  private records = 0

  refused(code: RefusalCode): void {
    this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1)
  }
  command(records: number): void {
    this.commands++
    this.records += records
  }
  group(): void {
    this.groups++
  }

  /** `gauges` are read by the caller at the moment of asking. */
  read(gauges: Record<string, { help: string; value: number }>): Metric[] {
    const counters: Metric[] = [
      counter('tacit_commands_total', 'Commands made durable.', this.commands),
      counter('tacit_journal_records_total', 'Journal records made durable.', this.records),
      counter('tacit_journal_groups_total', 'Group commits.', this.groups),
    ]
    // In the order of the list, so that two scrapes compare line by line.
    const refusals = REFUSALS.filter(({ code }) => this.refusals.has(code)).map(({ code }) => ({
      ...counter('tacit_refusals_total', 'Commands refused, by code.', this.refusals.get(code)!),
      labels: { code },
    }))
    const live = Object.entries(gauges).map(([name, { help, value }]) => ({
      name,
      help,
      type: 'gauge' as const,
      value,
    }))
    return [...counters, ...refusals, ...live]
  }
}

function counter(name: string, help: string, value: number): Metric {
  return { name, help, type: 'counter', value }
}
