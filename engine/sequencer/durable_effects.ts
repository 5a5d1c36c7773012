/** Applies the effects of a durable record: read models, streams, relayer, status and anchoring. */
import type { JournalSeq } from '../../protocol/units'
import type { Command, CommandKind } from '../commands'
import type { History } from '../history/contract'
import { withTexts } from '../history/event_text'
import type { Journal } from '../journal/contract'
import type { AccountEventOut } from '../machine/state/outcome'
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

/** The read models, which a start fills, and on every node the models of the running venue. */
type Models = { history: History; facts: PublicFacts; state: State }
export type ReadParts = Models & {
  hub: Hub
  instruments: InstrumentReads
  finalized: FinalizedView
  accounts: Pick<AccountsPort, 'durable'>
  ended: EndedTokens
}
/** By account, the newest record that ended tokens: a token verified before it may be one of them. */
export class EndedTokens {
  private readonly seqs = new Map<string, JournalSeq>()

  /** @param from end of the journal, about whose records nothing is known here */
  constructor(private readonly from: JournalSeq) {}

  durable(seq: JournalSeq, command: Command): void {
    if (command.kind === 'token_ended' || command.kind === 'credential')
      this.seqs.set(command.account_id, seq)
  }

  /** Whether a token of the account that lived at `seq` lives still. */
  areNoneSince(seq: JournalSeq, account_id: string): boolean {
    return seq >= (this.seqs.get(account_id) ?? this.from)
  }
}

type DurableParts = ReadParts & {
  availability: Availability
  outbox: Outbox
  anchoring: Anchoring
  metrics: Metrics
  closing: Closing
  journal: Pick<Journal, 'head'>
}
type DurableCommand = { seq: JournalSeq; command: Command; events: readonly AccountEventOut[] }

/** Applies a durable command to the read models. */
export function showDurable(parts: Models | ReadParts, { seq, command, events: all }: DurableCommand): void {
  const events = withTexts(all)
  parts.history.record(seq, events)
  parts.facts.record(seq, command, all, parts.state.settings?.build)
  if (!('hub' in parts)) return
  for (const { account_id, event, text } of events) parts.hub.publish(account_id, event, text)
  parts.accounts.durable(command)
  parts.ended.durable(seq, command)
  const { finalized } = parts
  switch (command.kind) {
    case 'batch_stage':
      if (command.stage.stage === 'finalized') finalized.batch_id = command.stage.batch_id
      break
    case 'spent_restored':
      finalized.batch_id = command.batches.at(-1)?.batch_id ?? finalized.batch_id
      break
    case 'leaves':
      finalized.leaf_count = command.first_index + command.leaves.length
      finalized.slot = command.slot
      break
    case 'instrument_status':
      parts.instruments.setStatus(command.symbol, command.status)
      break
  }
}

/** Applies the rest, of the node that leads: it alone writes. */
export function applyDurable(parts: DurableParts, entry: Entry): void {
  const { seq, command, outcome, records } = entry
  parts.metrics.command(records.length)
  showDurable(parts, { seq, command, events: outcome.events })
  for (let at = 1; at < records.length; at++) parts.history.record(seq + at, [])
  applyKind(parts, entry)
  if (isWorthAnchoring(entry) || voidsRestore(parts, entry)) parts.anchoring.dirty(seq + records.length - 1)
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
    case 'halted':
      parts.availability.halt(command.reason)
      break
    case 'resumed':
      parts.availability.halt(undefined)
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

/** A new journal may not begin over one in use: an announced restore ends with the next position of this one. */
function voidsRestore({ anchoring }: DurableParts, { command }: Entry): boolean {
  return command.kind === 'slot' && anchoring.isRestoreAnnounced()
}
