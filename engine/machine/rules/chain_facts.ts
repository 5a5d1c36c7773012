/** Applies facts from outside: finalized leaves, nullifiers spent before this journal began, oracle prices, epochs. */
import type { CommandOf } from '../../commands'
import { LIMITS } from '../../limits'
import { appendSpent } from '../state/batch'
import { instrumentOf, referenceTicks } from '../state/instrument'
import { retireNote } from '../state/note'
import type { Answer } from '../state/outcome'
import { PAST_KINDS, queuesOf } from '../state/past'
import type { State } from '../state/state'

/**
 * Appends finalized leaves: deposits among them can be opened from here on, and spent notes among them are dropped.
 * @throws Error unless they begin where the known ones end
 */
export function applyLeaves(state: State, command: CommandOf<'leaves'>): Answer {
  const { first_index, leaves } = command
  if (first_index !== state.leaves.size) throw new Error('finalized leaves come without gap or overlap')
  for (const leaf of leaves) {
    state.leaves.append(leaf)
    const note = state.notes.find(leaf)
    if (note === undefined) continue
    note.land()
    const retired = note.status === 'spent' && !state.settlement.batches.has(note.spent_in)
    if (retired) retireNote(state, note)
  }
  return { kind: 'done' }
}

/**
 * Restores the nullifiers spent before this journal began: the first command of a venue restored from chain.
 * @throws Error when a batch is not the next one, repeats a nullifier, or comes after this venue packed a batch
 */
export function applySpentRestored(state: State, command: CommandOf<'spent_restored'>): Answer {
  const { settlement } = state
  for (const { batch_id, nullifiers, signature, slot } of command.batches) {
    if (settlement.batches.size > 0 || batch_id !== settlement.last_batch + 1) {
      throw new Error('restored settlement batches come in order and before any other')
    }
    appendSpent(state, batch_id, nullifiers)
    settlement.last_batch = batch_id
    settlement.last_hashed = batch_id
    settlement.landed = { batch_id, signature, slot }
  }
  return { kind: 'done' }
}

/**
 * The rows that the stores have leave the state, except the newest closed orders: a fresh nonce needs an id that is none of
 * theirs.
 */
export function applySnapshotTaken(state: State, { covered }: CommandOf<'snapshot_taken'>): Answer {
  const queues = queuesOf(state)
  const kept = state.finals.since(state.unix_ms - LIMITS.final_orders_kept_ms)
  const finals = Math.min(covered.finals, kept)
  for (const kind of PAST_KINDS) queues[kind].dropBefore(kind === 'finals' ? finals : covered[kind])
  return { kind: 'done' }
}

/** The packer takes no more places of the queue than this. */
export function applyQueueCapacity(state: State, command: CommandOf<'queue_capacity'>): Answer {
  state.settlement.queue_capacity = command.capacity
  return { kind: 'done' }
}

/** Restores the numbers and open entries of the payout queue. @throws Error after this venue packed a batch */
export function applyQueueRestored(state: State, command: CommandOf<'queue_restored'>): Answer {
  const { settlement } = state
  if (settlement.batches.size > 0) throw new Error('the restored payout queue comes before any batch')
  // A boot that died before its epoch was open may have journaled an earlier queue.
  settlement.queued.clear()
  settlement.next_payout = command.next_payout
  settlement.payouts_open = command.payouts.length
  for (const { number, mint, destination, amount } of command.payouts)
    settlement.queued.set(number, { kind: 'restored', mint, destination, amount })
  return { kind: 'done' }
}

/** Ignores a price that is not newer than the known one, and one for an instrument without an oracle. */
export function applyReference(state: State, command: CommandOf<'reference'>): Answer {
  const instrument = instrumentOf(state, command.symbol)
  const { terms } = instrument
  const stale = command.publish_unix_ms <= instrument.reference_unix_ms
  if (terms.reference_policy !== 'oracle' || stale) return { kind: 'done' }
  const ticks = referenceTicks(terms, command.price)
  if (ticks === undefined) return { kind: 'done' }
  instrument.reference_ticks = ticks
  instrument.reference_unix_ms = command.publish_unix_ms
  instrument.reference_source = command.source
  instrument.book.recenter(ticks)
  return { kind: 'done' }
}

/** Of starts that never opened their epoch only the newest are kept: the transactions of the others cannot land any more. */
export function applyEpochIntended(state: State, command: CommandOf<'epoch_intended'>): Answer {
  const { epoch, boot_nonce, generation, settlement_key, signature, transaction } = command
  const { epochs } = state
  epochs.push({ epoch, boot_nonce, generation, settlement_key, signature, transaction, slot: 0 })
  if (epochs.length > LIMITS.epochs_kept_max)
    epochs.splice(
      epochs.findIndex(({ slot }) => slot === 0),
      1,
    )
  return { kind: 'done' }
}

/**
 * Forgets the epochs but this and the one before, which a provider that lags may still show: a chain that shows an older one is
 * itself older than this journal, also under a known boot nonce.
 * @throws Error for an epoch that this venue did not intend
 */
export function applyEpochOpened(state: State, command: CommandOf<'epoch_opened'>): Answer {
  const intended = state.epochs.findLast((known) => known.epoch === command.epoch)
  if (intended === undefined) throw new Error('an epoch opened that was not intended here')
  intended.slot = command.slot
  state.epoch = command.epoch
  state.epochs.splice(
    0,
    state.epochs.findIndex(({ epoch }) => epoch >= command.epoch - 1),
  )
  return { kind: 'done' }
}
