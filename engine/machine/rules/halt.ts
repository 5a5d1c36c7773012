/** Stops and restarts matching: halts, resumption, the end of a frozen vault, the status of an instrument. */
import type { CommandOf } from '../../commands'
import { instrumentOf } from '../state/instrument'
import type { Answer, Effects } from '../state/outcome'
import type { State } from '../state/state'
import { fillView } from '../state/views'
import { cancelOrders } from './order_life'
import { voidPayment } from './payment'

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
 * Ends any halt, also that of a freeze which the chain disproves: what it cancelled stays cancelled, and fills and payments
 * of packed batches, whose notes stay spent, follow their batches again.
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
