/** Applies facts from outside that only move numbers: oracle prices and epochs. */
import type { CommandOf } from '../commands'
import { instrumentOf } from './instrument_of'
import type { Answer } from './outcome'
import { referenceTicks } from './reference_ticks'
import type { State } from './state'

/** Rounded to the nearest tick, half down. Older than the known one, or not asked for: nothing. */
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

export function applyEpochIntended(state: State, command: CommandOf<'epoch_intended'>): Answer {
  const { epoch, boot_nonce, generation, signature, transaction } = command
  state.epochs.push({ epoch, boot_nonce, generation, signature, transaction, slot: 0 })
  return { kind: 'done' }
}

/** @throws Error for an epoch that was never intended here. */
export function applyEpochOpened(state: State, command: CommandOf<'epoch_opened'>): Answer {
  const intended = state.epochs.findLast((known) => known.epoch === command.epoch)
  if (intended === undefined) throw new Error('an epoch opened that was not intended here')
  intended.slot = command.slot
  state.epoch = command.epoch
  return { kind: 'done' }
}
