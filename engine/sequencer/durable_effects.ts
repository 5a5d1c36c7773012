/** Applies the effects of a durable record: read models, streams, relayer, status and anchoring. */
import type { CommandKind } from '../commands'
import type { History } from '../history/contract'
import { withTexts } from '../history/event_text'
import type { Journal } from '../journal/contract'
import type { State } from '../machine/state/state'
import type { AccountsPort } from '../ports'
import type { Metrics } from '../reads/metrics'
import type { PublicFacts } from '../reads/public_facts'
import type { FinalizedView, InstrumentReads } from '../reads/public_reads'
import type { Hub } from '../streams/hub'
import type { Anchoring } from './anchoring'
import type { Availability } from './availability'
import type { Closing } from './closing'
import type { Outbox } from './outbox'
import type { Entry } from './sequencer'

type DurableParts = {
  history: History
  hub: Hub
  facts: PublicFacts
  state: State
  instruments: InstrumentReads
  availability: Availability
  outbox: Outbox
  anchoring: Anchoring
  metrics: Metrics
  finalized: FinalizedView
  closing: Closing
  accounts: Pick<AccountsPort, 'endCredential'>
  journal: Pick<Journal, 'head'>
}

export function applyDurable(parts: DurableParts, entry: Entry): void {
  const { seq, outcome, records } = entry
  parts.metrics.command(records.length)
  const events = withTexts(outcome.events)
  parts.history.record(seq, events)
  parts.facts.record(seq, entry.command, outcome.events, parts.state.settings?.build)
  for (let at = 1; at < records.length; at++) parts.history.record(seq + at, [])
  for (const { account_id, event, text } of events) parts.hub.publish(account_id, event, text)
  applyKind(parts, entry)
  if (isWorthAnchoring(entry)) parts.anchoring.dirty(seq + records.length - 1)
}

function applyKind(parts: DurableParts, { command, seq, outcome }: Entry): void {
  switch (command.kind) {
    case 'closed':
      parts.closing.closedDurable(seq, parts.journal.head())
      break
    case 'decided':
      parts.closing.decidedDurable({ seq, outcome })
      break
    case 'hashed':
      parts.outbox.hashedDurable(command.batch_id)
      break
    case 'batch_stage':
      if (command.stage.stage === 'finalized') parts.finalized.batch_id = command.stage.batch_id
      break
    case 'spent_restored':
      parts.finalized.batch_id = command.batches.at(-1)?.batch_id ?? parts.finalized.batch_id
      break
    case 'leaves':
      parts.finalized.leaf_count = command.first_index + command.leaves.length
      parts.finalized.slot = command.slot
      break
    case 'halted':
      parts.availability.halt(command.reason)
      break
    case 'resumed':
      parts.availability.halt(undefined)
      break
    // A replaced credential's tokens end, too: they were issued for its former version.
    case 'credential':
      parts.accounts.endCredential(command.credential_id.toHex())
      break
    case 'instrument_status':
      parts.instruments.setStatus(command.symbol, command.status)
      break
  }
}

/** The venue's own records, which would keep the head dirty permanently. */
const NOT_WORTH: readonly CommandKind[] = [
  'slot',
  'decided',
  'batch_signed',
  'batch_stage',
  'payout_stage',
  'queue_capacity',
  'snapshot_taken',
]

function isWorthAnchoring({ command, outcome }: Entry): boolean {
  if (outcome.events.length > 0) return true
  return !NOT_WORTH.includes(command.kind)
}
