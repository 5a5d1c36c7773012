/** Applies exit requests seen on chain: freezes the note, cancels its order or payment, queues the exit for settlement. */
import { equalBytes } from '../../../protocol/bytes'
import { nullifierOf } from '../../../protocol/notes/notes'
import type { ExitEvent } from '../../../protocol/wire/trading'
import type { CommandOf } from '../../commands'
import { LIMITS } from '../../limits'
import type { ExitRequest } from '../../ports'
import { dropExit } from '../settlement/pack'
import { keyOf } from '../state/account'
import { type Exit, UNPAID } from '../state/batch'
import { isMember } from '../state/closed'
import type { Note } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import type { State } from '../state/state'
import { exitView } from '../state/views'
import { announceNote } from './hashed'
import { endOrder } from './order_life'
import { voidPayment } from './payment'

/**
 * `confirmed` freezes the note, `finalized` queues the exit, `vanished` unlocks the note: a fork took the request back, or it
 * was never there, and then its batch, which the program rejects, goes on without it. A request for a spent note is ignored:
 * once its batch is on chain, the chain port refuses the request with the spent log.
 */
export function applyExit(state: State, fx: Effects, command: CommandOf<'exit_requested'>): Answer {
  const { request } = command
  const { exits, waiting } = state.settlement
  if (waitsForDecision(state, request)) {
    state.closed!.waiting.push({ kind: 'exit', request })
    return { kind: 'done' }
  }
  const known = exits.get(request.nullifier.toHex())
  if (request.stage === 'vanished') {
    if (known !== undefined) dropExit(state, known)
    return { kind: 'done' }
  }
  if (known === undefined && state.nullifiers.has(request.nullifier)) return { kind: 'done' }
  if (known === undefined && exits.size >= LIMITS.exits_open_max) return { kind: 'done' }
  const exit = known ?? openExit(state, fx, request)
  if (exit === undefined) return { kind: 'done' }
  exit.leaf_index ??= request.leaf_index
  const served = exit.settlement_batch > 0 || waiting.includes(exit)
  if (request.stage === 'finalized' && !served) waiting.push(exit)
  return { kind: 'done' }
}

/** Whether the note backs a member of the closed batch, or an earlier stage of the request waits. */
function waitsForDecision(state: State, request: ExitRequest): boolean {
  const { closed } = state
  if (closed === undefined) return false
  const waits = closed.waiting.some(
    (one) => one.kind === 'exit' && equalBytes(one.request.nullifier, request.nullifier),
  )
  const note = noteOfRequest(state, request)
  const key = note && keyOf(state, note.owner)
  const orders = key === undefined ? [] : state.orders.of(key)
  return waits || orders.some((order) => isMember(order) && order.collateral.is(note))
}

/** Undefined for a note that a packed batch already spends. */
function openExit(state: State, fx: Effects, request: ExitRequest): Exit | undefined {
  const note = noteOfRequest(state, request)
  if (note?.status === 'spent') return undefined
  const exit: Exit = {
    kind: 'exit',
    nullifier: request.nullifier,
    commitment: request.commitment,
    mint: request.mint,
    amount: request.amount,
    destination: request.destination,
    deadline_unix_s: request.deadline_unix_s,
    request_account: request.request_account,
    refund_inner: request.refund_inner,
    accepted_slot: state.slot,
    leaf_index: undefined,
    note: undefined,
    settlement_batch: 0,
    ...UNPAID,
  }
  state.settlement.exits.set(exit.nullifier.toHex(), exit)
  if (note !== undefined) takeForExit(state, fx, exit, note)
  return exit
}

/** Freezes a known note for its exit and ends the order or payment that it backs. */
export function takeForExit(state: State, fx: Effects, exit: Exit, note: Note): void {
  const key = keyOf(state, note.owner)
  for (const order of key === undefined ? [] : state.orders.of(key)) {
    if (order.collateral.is(note)) endOrder(state, fx, order, { status: 'cancelled', reason: 'note_exited' })
  }
  for (const payment of [...state.settlement.waiting]) {
    if (payment.kind === 'withdrawal' && payment.note.is(note)) voidPayment(state, fx, payment)
    if (payment.kind === 'reshape' && payment.inputs.some((one) => one.is(note)))
      voidPayment(state, fx, payment)
  }
  if (exit.note === undefined) state.notes.hold(note)
  exit.note = note
  note.status = 'exiting'
  announceNote(state, fx, 'note.exited', note)
  announceExit(state, fx, exit, 'requested')
}

/** Emits an event to the account of the note's key; a note that the engine has not seen has none. */
export function announceExit(state: State, fx: Effects, exit: Exit, status: ExitEvent['status']): void {
  const account = exit.note === undefined ? undefined : keyOf(state, exit.note.owner)?.account
  if (account !== undefined) fx.emit(account, `exit.${status}`, () => exitView(exit, status))
}

/**
 * The known note of a request. The program has checked nullifier against commitment; the check here keeps false chain data
 * from freezing the note with another nullifier, which only its owner can compute.
 */
export function noteOfRequest(state: State, request: ExitRequest): Note | undefined {
  const note = state.notes.find(request.commitment)
  if (note === undefined) return undefined
  return equalBytes(nullifierOf(request.commitment, note.blinding!), request.nullifier) ? note : undefined
}
