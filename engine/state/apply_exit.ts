/** Applies exit requests seen on chain: the note is frozen, what it backs is cancelled, the exit is served. */
import { nullifierOf } from '../../protocol/notes'
import type { CommandOf } from '../commands'
import { LIMITS } from '../limits'
import type { Exit } from '../settlement/batch'
import { announceNote } from './apply_hashed'
import type { Effects } from './effects'
import { endOrder } from './end_order'
import type { Note } from './note'
import type { Answer } from './outcome'
import { hexBytes, type State } from './state'
import { voidPayment } from './void_payment'

/**
 * `confirmed` freezes, `finalized` serves, `vanished` (a fork) unlocks. A request for a spent note changes nothing: it
 * is refused on chain with the spent tree.
 */
export function applyExit(state: State, fx: Effects, command: CommandOf<'exit_requested'>): Answer {
  const { request } = command
  const { exits, waiting } = state.settlement
  const nullifier = request.nullifier.toHex()
  const known = exits.get(nullifier)
  if (request.stage === 'vanished') {
    if (known !== undefined && known.settlement_batch === 0) dropExit(state, known)
    return { kind: 'done' }
  }
  if (
    known === undefined &&
    (state.nullifiers.has(request.nullifier) || exits.size >= LIMITS.exits_open_max)
  ) {
    return { kind: 'done' }
  }
  const exit = known ?? openExit(state, fx, command, nullifier)
  if (exit === undefined) return { kind: 'done' }
  exit.refund_inner ??= request.refund_inner
  const served = exit.settlement_batch > 0 || waiting.includes(exit)
  const payable = exit.note?.status === 'exiting' && exit.refund_inner !== undefined
  if (request.stage === 'finalized' && payable && !served) waiting.push(exit)
  return { kind: 'done' }
}

/** Undefined for a note that a packed batch spends already. */
function openExit(
  state: State,
  fx: Effects,
  command: CommandOf<'exit_requested'>,
  nullifier: string,
): Exit | undefined {
  const { request } = command
  const note = noteOf(state, command, nullifier)
  if (note?.status === 'spent') return undefined
  const exit: Exit = {
    kind: 'exit',
    nullifier,
    mint: request.mint,
    amount: request.amount,
    destination: request.destination,
    deadline_unix_s: request.deadline_unix_s,
    request_account: request.request_account,
    refund_inner: request.refund_inner,
    accepted_slot: state.slot,
    note,
    settlement_batch: 0,
  }
  state.settlement.exits.set(nullifier, exit)
  if (note === undefined) return exit
  for (const order of state.keys.get(note.owner)?.orders ?? []) {
    if (order.collateral === note) endOrder(state, fx, order, { status: 'cancelled', reason: 'note_exited' })
  }
  for (const payment of [...state.settlement.waiting]) {
    if (payment.kind === 'withdrawal' && payment.note === note) voidPayment(state, fx, payment)
    if (payment.kind === 'reshape' && payment.inputs.includes(note)) voidPayment(state, fx, payment)
  }
  note.status = 'exiting'
  note.nullifier = nullifier
  announceNote(state, fx, 'note.exited', note)
  return exit
}

/** The request names amount and mint, so only notes with both are hashed to find the one with this nullifier. */
function noteOf(state: State, command: CommandOf<'exit_requested'>, nullifier: string): Note | undefined {
  const { amount, mint } = command.request
  const text = mint.toHex()
  for (const note of state.notes.values()) {
    if (note.amount !== amount || state.mints[note.mint]!.bytes.toHex() !== text) continue
    const own = note.nullifier ?? nullifierOf(hexBytes(note.commitment!, 32), note.blinding!).toHex()
    if (own === nullifier) return note
  }
  return undefined
}

function dropExit(state: State, exit: Exit): void {
  const { exits, waiting } = state.settlement
  exits.delete(exit.nullifier)
  const at = waiting.indexOf(exit)
  if (at !== -1) waiting.splice(at, 1)
  if (exit.note?.status === 'exiting') exit.note.status = 'free'
}
