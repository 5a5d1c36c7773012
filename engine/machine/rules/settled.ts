/** Applies facts of settlement and the chain: hashed notes, exits, stages of batches and of payouts. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import type { ExitEvent, NoteEvent } from '../../../protocol/wire/trading'
import type { CommandOf } from '../../commands'
import { LIMITS } from '../../limits'
import type { BatchStage, ExitRequest, PayoutStage } from '../../ports'
import { dropExit } from '../settlement/pack'
import { keyOf } from '../state/account'
import {
  appendSpent,
  type Exit,
  type Reshape,
  type SettlementBatch,
  UNPAID,
  unopenedExits,
  type Withdrawal,
  withdrawalsOf,
} from '../state/batch'
import { isMember } from '../state/closed'
import { dropAll, type Note, notesOfBatch, retireNote } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import { type Past, rowAt } from '../state/past'
import type { State } from '../state/state'
import { exitView, fillView, reshapeView, withdrawalView } from '../state/views'
import { endOrder } from './order_life'
import { voidPayment } from './payment'

export function applyBatchSigned(state: State, command: CommandOf<'batch_signed'>): Answer {
  const batch = state.settlement.batches.get(command.signed.batch_id)
  if (batch?.hashed === undefined) throw new Error('a batch was signed before it was hashed')
  batch.signed = command.signed
  return { kind: 'done' }
}

/** Ignores a stage of a finalized batch, and a repeated stage. */
export function applyBatchStage(state: State, fx: Effects, command: CommandOf<'batch_stage'>): Answer {
  const { stage } = command
  const { settlement } = state
  const batch = settlement.batches.get(stage.batch_id)
  if (batch === undefined) {
    if (stage.batch_id <= (settlement.landed?.batch_id ?? 0)) return { kind: 'done' }
    throw new Error('the chain names a batch that was never packed')
  }
  const signature = encodeBase58(stage.signature)
  if (batch.progress === stage.stage && batch.signature === signature) return { kind: 'done' }
  settlement.unlanded += unlandedOf(batch, stage.stage) - unlandedOf(batch, batch.progress)
  batch.progress = stage.stage
  batch.signature = signature
  for (const fill of batch.fills) {
    fill.stage = stage.stage
    fill.signature = signature
    fill.seq = fx.emit(fill.account, `fill.${stage.stage}`, (seq) => fillView(fill, seq))
  }
  for (const payout of batch.payouts) stagePayout(state, fx, payout, stage.stage, signature)
  for (const reshape of batch.reshapes) stageReshape(state, fx, reshape, stage, signature)
  if (stage.stage === 'finalized') finalize(state, batch, stage)
  return { kind: 'done' }
}

function unlandedOf(batch: SettlementBatch, progress: SettlementBatch['progress']): number {
  return progress === 'built' || progress === 'submitted' ? batch.fills.length : 0
}

/** A payout enters the vault's queue with its batch, and leaves it when a fork drops the batch. */
function stagePayout(
  state: State,
  fx: Effects,
  payout: Withdrawal | Exit,
  stage: BatchStage['stage'],
  signature: string,
): void {
  const { queued } = state.settlement
  const { payout_number } = payout
  if (payout.payout_stage === 'finalized') return
  const was_queued = queued.has(payout_number)
  if (stage === 'submitted') {
    queued.delete(payout_number)
    Object.assign(payout, { ...UNPAID, payout_number })
  } else queued.set(payout_number, payout)
  if (payout.kind === 'exit') {
    const is_queued = stage !== 'submitted'
    if (is_queued !== was_queued) announceExit(state, fx, payout, is_queued ? 'served' : 'requested')
    return
  }
  payout.signature = signature
  payout.status = stage
  payout.ended_unix_ms = 0
  payout.seq = fx.emit(payout.key.account, `withdrawal.${payout.status}`, (seq) =>
    withdrawalView(payout, seq),
  )
}

function stageReshape(
  state: State,
  fx: Effects,
  reshape: Reshape,
  stage: BatchStage,
  signature: string,
): void {
  reshape.status = stage.stage
  reshape.signature = signature
  if (stage.stage === 'finalized') reshape.ended_unix_ms = state.unix_ms
  reshape.seq = fx.emit(reshape.key.account, `reshape.${stage.stage}`, (seq) =>
    reshapeView(state, reshape, seq),
  )
}

function finalize(state: State, batch: SettlementBatch, stage: BatchStage): void {
  const { settlement } = state
  settlement.batches.delete(batch.batch_id)
  settlement.landed = { batch_id: batch.batch_id, signature: stage.signature, slot: stage.slot }
  for (const note of batch.inputs) {
    if (note.landed) retireNote(state, note)
  }
  dropAll(state.notes, notesOfBatch(batch))
}

/**
 * Ignores a payout that is not in the queue, and a repeated stage.
 * @throws Error for a number that no batch gave, and for a refund without its note
 */
export function applyPayoutStage(state: State, fx: Effects, command: CommandOf<'payout_stage'>): Answer {
  const { stage } = command
  const { settlement } = state
  if (stage.number >= settlement.next_payout)
    throw new Error('the chain names a payout that was never packed')
  const payout = settlement.queued.get(stage.number)
  if (payout === undefined) return { kind: 'done' }
  if (stage.stage === 'finalized') {
    settlement.queued.delete(stage.number)
    settlement.payouts_open -= 1
  }
  if (payout.kind === 'restored') return { kind: 'done' }
  const signature = encodeBase58(stage.signature)
  if (payout.payout_stage === stage.stage && payout.payout_signature === signature) return { kind: 'done' }
  const refunded = stage.outcome === 'refunded'
  if (refunded && (stage.refund_commitment === undefined || stage.refund_leaf_index === undefined))
    throw new Error('a refund came without its note')
  payout.payout_stage = stage.stage
  payout.payout_signature = signature
  payout.refund_commitment = refunded ? stage.refund_commitment : undefined
  const ended = stage.stage === 'finalized' ? (refunded ? 'refunded' : 'paid') : undefined
  if (payout.kind === 'exit') stageExit(state, fx, payout, ended)
  else stageWithdrawal(state, fx, payout, ended)
  if (payout.kind === 'withdrawal' && ended === 'refunded') registerRefund(state, fx, payout, command)
  return { kind: 'done' }
}

type Ended = 'paid' | 'refunded' | undefined

function stageExit(state: State, fx: Effects, exit: Exit, ended: Ended): void {
  announceExit(state, fx, exit, ended ?? 'served')
  if (ended === undefined) return
  state.settlement.exits.delete(exit.nullifier.toHex())
  if (exit.note !== undefined) state.notes.drop(exit.note)
}

function stageWithdrawal(state: State, fx: Effects, withdrawal: Withdrawal, ended: Ended): void {
  if (ended !== undefined) {
    withdrawal.status = ended
    withdrawal.ended_unix_ms = state.unix_ms
  }
  withdrawal.seq = fx.emit(withdrawal.key.account, `withdrawal.${withdrawal.status}`, (seq) =>
    withdrawalView(withdrawal, seq),
  )
}

/**
 * False for the final refund of a withdrawal whose note the own tree does not hold at that leaf: providers may have invented
 * it. The program accepts no settlement under a tree with a leaf that is not on chain.
 */
export function isRefundHeld(state: State, past: Past, stage: PayoutStage): boolean {
  const { number, refund_commitment: shown, refund_leaf_index: leaf_index } = stage
  const payout = state.settlement.queued.get(number)
  if (stage.stage !== 'finalized' || stage.outcome !== 'refunded' || payout?.kind !== 'withdrawal')
    return true
  if (shown === undefined || leaf_index === undefined || leaf_index >= state.leaves.size) return false
  const { bytes: mint } = state.mints[payout.note.mint]!
  const inner = noteInner(payout.key.bytes, payout.refund_blinding!)
  const own = depositCommitment({ mint, amount: payout.amount, inner, leaf_index })
  return equalBytes(own, shown) && equalBytes(own, rowAt(state, past, 'leaves', leaf_index))
}

/** The program has turned the payout into a note in deposit form; the chain determined its leaf. */
function registerRefund(
  state: State,
  fx: Effects,
  withdrawal: Withdrawal,
  { stage, refund_spent }: CommandOf<'payout_stage'>,
): void {
  const leaf_index = stage.refund_leaf_index!
  const commitment = withdrawal.refund_commitment!
  // Its owner may have opened, spent and settled it already: the first payer determines when its payout is reported.
  if (refund_spent || state.nullifiers.has(nullifierOf(commitment, withdrawal.refund_blinding!))) return
  // The owner may have requested its exit already, when only the request identified the note.
  const exit = [...state.settlement.exits.values()].find((one) => equalBytes(one.commitment, commitment))
  if (exit !== undefined && exit.settlement_batch > 0) return
  const known = state.notes.find(commitment)
  const note =
    known ??
    state.notes.create({
      owner: withdrawal.key.bytes,
      key: withdrawal.key,
      mint: withdrawal.note.mint,
      amount: withdrawal.amount,
      status: 'free',
      commitment,
      blinding: withdrawal.refund_blinding!,
      leaf_index,
      landed: leaf_index < state.leaves.size,
    })
  // A known note was opened by its owner after the leaf became final, and may already back a command.
  if (known === undefined) state.notes.register(note)
  // A packed batch may spend it already, whose nullifier is not known before it is hashed.
  if (note.status !== 'spent') announceNote(state, fx, 'note.created', note)
  if (exit !== undefined) takeForExit(state, fx, exit, note)
}

/**
 * Invented exits leave their batches before the result counts.
 * @throws Error when the result is not for the oldest unhashed batch, or spends a nullifier again
 */
export function applyHashed(state: State, fx: Effects, command: CommandOf<'hashed'>): Answer {
  const { settlement } = state
  const { batch_id, result } = command
  const batch = settlement.batches.get(batch_id)
  if (batch === undefined || batch_id !== settlement.last_hashed + 1) {
    throw new Error('settlement batches are hashed in order')
  }
  checkShape(batch, command)
  const invented = inventedExits(state, command)
  if (invented === undefined) throw new Error('a nullifier is spent twice')
  batch.hashed = result
  for (const exit of invented) dropExit(state, exit)
  settlement.last_hashed = batch_id
  appendSpent(state, batch_id, batch.hashed.nullifiers)
  batch.outputs.forEach(({ note }, at) => {
    const { commitment, blinding } = result.outputs[at]!
    state.notes.reveal(note, commitment, blinding)
    state.notes.register(note)
    announceNote(state, fx, 'note.created', note)
  })
  for (const [at, withdrawal] of withdrawalsOf(batch).entries())
    withdrawal.refund_blinding = result.refund_blindings[at]
  for (const fill of batch.fills) {
    fill.seq = fx.emit(fill.account, 'fill.matched', (seq) => fillView(fill, seq))
  }
  return { kind: 'done' }
}

function checkShape(batch: SettlementBatch, { result }: CommandOf<'hashed'>): void {
  const refunds = withdrawalsOf(batch).length
  const fits =
    result.nullifiers.length === batch.inputs.length + unopenedExits(batch).length &&
    result.outputs.length === batch.outputs.length &&
    result.refund_inners.length === refunds &&
    result.refund_blindings.length === refunds
  if (!fits) throw new Error('a hash result does not fit its batch')
}

/**
 * The exits, in unlanded batches and of notes that the engine never saw, whose nullifiers the result or an earlier batch
 * spends with another note: a real request has the nullifier of the note that its commitment names. Undefined when a
 * nullifier is spent twice and no such exit has it.
 */
export function inventedExits(
  { settlement, nullifiers }: State,
  { batch_id, result }: Pick<CommandOf<'hashed'>, 'batch_id' | 'result'>,
): Exit[] | undefined {
  const invented: Exit[] = []
  const seen = new Set<string>()
  for (const nullifier of result.nullifiers) {
    const name = nullifier.toHex()
    if (seen.has(name) || nullifiers.has(nullifier)) {
      const exit = settlement.exits.get(name)
      const batch = exit?.note === undefined && settlement.batches.get(exit?.settlement_batch ?? 0)
      if (!exit || !batch || batch.batch_id > batch_id || batch.progress === 'confirmed') return undefined
      invented.push(exit)
    }
    seen.add(name)
  }
  return invented
}

/** Emits an event to the account of the note's key; the fee key has no account. */
function announceNote(state: State, fx: Effects, kind: 'note.created' | 'note.exited', note: Note): void {
  const account = keyOf(state, note.owner)?.account
  const { known } = note
  if (account === undefined || !known) return
  const data = (): NoteEvent => ({
    commitment: note.commitment!.toHex(),
    trading_key: note.owner_text,
    mint: state.mints[note.mint]!.text,
    amount: note.amount.toString(),
  })
  fx.emit(account, kind, data)
}

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
function takeForExit(state: State, fx: Effects, exit: Exit, note: Note): void {
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
function announceExit(state: State, fx: Effects, exit: Exit, status: ExitEvent['status']): void {
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
