/** Applies facts from outside: leaves, nullifiers spent before this journal began, oracle prices, epochs, halts, settings. */
import type { CommandOf, Settings } from '../../commands'
import { LIMITS } from '../../limits'
import { Book } from '../book/book'
import { appendSpent } from '../state/batch'
import {
  addInstrument,
  type InstrumentTerms,
  instrumentOf,
  referenceTicks,
  termsOf,
} from '../state/instrument'
import { retireNote } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import { PAST_KINDS, queuesOf } from '../state/past'
import { keyBytes, requireVersion, type State, setSettings } from '../state/state'
import { fillView } from '../state/views'
import { cancelOrders } from './order_life'
import { voidPayment } from './payment'

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

/** Only the newest starts that never opened their epoch are kept: transactions of older ones cannot land any more. */
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

/** A freeze acts at once, or behind the decision of a closed batch, which the chain alone makes (matching.md "The decision"). */
export function applyHalted(state: State, fx: Effects, command: CommandOf<'halted'>): Answer {
  // A pause must not replace a graver reason, because the end of the pause would then resume the venue.
  const paused = state.halted === undefined || state.halted === 'vault_paused'
  if (!paused && command.reason !== 'vault_frozen') return { kind: 'done' }
  if (state.halted === 'vault_frozen') return { kind: 'done' }
  state.halted = command.reason
  if (command.reason === 'vault_frozen' && state.closed === undefined) endAll(state, fx)
  return { kind: 'done' }
}

/**
 * Ends any halt, also that of a freeze which the chain disproves: cancelled orders stay cancelled, and fills and payments of
 * packed batches, whose notes stay spent, follow their batches again.
 */
export function applyResumed(state: State): Answer {
  state.halted = undefined
  return { kind: 'done' }
}

/** `closed` is permanent and cancels all resting orders. */
export function applyInstrumentStatus(
  state: State,
  fx: Effects,
  command: CommandOf<'instrument_status'>,
): Answer {
  const instrument = instrumentOf(state, command.symbol)
  if (instrument.status === 'closed') return { kind: 'done' }
  instrument.status = command.status
  if (command.status === 'closed') {
    const orders = [...state.orders.values()].filter((order) => order.instrument === instrument)
    cancelOrders(state, fx, orders, 'instrument_closed')
  }
  return { kind: 'done' }
}

/** A frozen vault ends all orders, and all fills and payments that are not on chain: funds leave by escape (settlement.md). */
export function endAll(state: State, fx: Effects): void {
  cancelOrders(state, fx, state.orders.values(), 'vault_frozen')
  for (const payment of [...state.settlement.waiting]) {
    if (payment.kind !== 'exit') voidPayment(state, fx, payment)
  }
  for (const batch of state.settlement.batches.values()) {
    if (batch.progress !== 'built' && batch.progress !== 'submitted') continue
    for (const fill of batch.fills) {
      fill.stage = 'voided'
      fill.seq = fx.emit(fill.account, 'fill.voided', (seq) => fillView(fill, seq))
    }
    for (const payout of batch.payouts) if (payout.kind === 'withdrawal') voidPayment(state, fx, payout)
    for (const reshape of batch.reshapes) voidPayment(state, fx, reshape)
  }
}

/**
 * Mints and instruments are never removed; an instrument that is no longer configured is paused.
 * @throws Error when the units of a known instrument change: its orders and fills are stored in them
 */
export function applyConfigure(state: State, command: CommandOf<'configure'>): Answer {
  const { settings } = command
  const { settlement_parts_min: min } = LIMITS
  if (settings.settlement_parts_max < min) throw new Error(`settlement_parts_max is below ${min}`)
  for (const mint of settings.mints) setMint(state, mint)
  for (const config of settings.instruments) setInstrument(state, config)
  const configured = new Set(settings.instruments.map((config) => config.symbol))
  for (const instrument of state.instruments.values()) {
    if (!configured.has(instrument.terms.symbol) && instrument.status === 'active')
      instrument.status = 'paused'
  }
  setSettings(state, settings)
  return { kind: 'done' }
}

/** @throws VersionUnknown, which ends the process; Error unless it is the next one */
export function applyActivate(state: State, { version }: CommandOf<'activate'>): Answer {
  if (version !== state.version + 1) throw new Error('a version follows the one before')
  state.version = requireVersion(version)
  return { kind: 'done' }
}

/** The index of a mint never changes, because fee blindings depend on it. */
function setMint(state: State, config: Settings['mints'][number]): void {
  const at = state.mints.findIndex((mint) => mint.text === config.mint)
  const mint = {
    bytes: keyBytes(config.mint),
    text: config.mint,
    min_withdraw: BigInt(config.min_withdraw),
    withdraw_fee: BigInt(config.withdraw_fee),
  }
  if (at !== -1) {
    state.mints[at] = mint
    return
  }
  state.mints.push(mint)
  state.settlement.fees.push(0n)
}

function setInstrument(state: State, config: Settings['instruments'][number]): void {
  const terms = termsOf(config, (mint) => {
    const index = state.mints.findIndex((one) => one.text === mint)
    if (index === -1) throw new Error('an instrument names a mint that is not configured')
    return index
  })
  const known = state.instruments.get(terms.symbol)
  if (known !== undefined) {
    if (!sameUnits(known.terms, terms)) throw new Error('the units of a known instrument changed')
    known.terms = terms
    return
  }
  const last = terms.reference_policy === 'last'
  addInstrument(state, {
    index: state.instruments.size,
    terms,
    status: 'active',
    reference_ticks: last ? terms.initial_reference_ticks : undefined,
    reference_unix_ms: 0,
    reference_source: '',
    next_batch: 1,
    live: 0,
    book: new Book(state.pool, terms.initial_reference_ticks),
  })
}

function sameUnits(a: InstrumentTerms, b: InstrumentTerms): boolean {
  return (
    a.base === b.base &&
    a.quote === b.quote &&
    a.lot_size === b.lot_size &&
    a.tick_size === b.tick_size &&
    a.base_decimals === b.base_decimals &&
    a.reference_policy === b.reference_policy
  )
}
