/** Packs withdrawals, reshapes and served exits into settlement batches, oldest first. */
import { LIMITS } from '../limits'
import { holdAll } from '../state/note_holders'
import { hexBytes, type State, settingsOf } from '../state/state'
import type { Exit, Reshape, SettlementBatch, Withdrawal } from './batch'
import { coverLeaf, createNote, moveFees, spendNote } from './batch_entries'
import type { Packer } from './packer'

const NO_ORDER = '0'.repeat(32)
/** A part is room for one nullifier and two outputs with their memos: 128 bytes of a transaction. */
const PART_BYTES = 128
const NULLIFIER_BYTES = 32
const OUTPUT_BYTES = 48
/** A payout with its accounts, its nullifier and its change; the accounts of its mint once per batch. */
const PAYOUT_PARTS = 2
const PAYOUT_MINT_PARTS = 1
/** Mints one `settle` can pay (protocol/vault/settle_data.ts). */
const PAYOUT_MINTS_MAX = 8

/**
 * Payments join a batch that is open anyway. They open their own when nothing is on its way to the chain, when they
 * fill one, or when the oldest has waited long enough.
 */
export function packPayments(state: State, packer: Packer): void {
  const { waiting } = state.settlement
  const may_open = mayOpen(state)
  let packed = 0
  for (const payment of waiting) {
    const joins = packer.room >= partsOf(state, payment, packer.batch)
    if (!joins && !may_open) break
    if (!joins) packer.seal()
    packOne(state, packer.take(partsOf(state, payment, packer.batch)), payment)
    packed += 1
  }
  waiting.splice(0, packed)
}

function mayOpen(state: State): boolean {
  const { waiting, batches } = state.settlement
  const first = waiting[0]
  if (first === undefined) return false
  const idle = [...batches.values()].every(
    (batch) => batch.progress !== 'built' && batch.progress !== 'submitted',
  )
  const full = waiting.length * PAYOUT_PARTS >= settingsOf(state).settlement_parts_max
  const waited = state.slot - first.accepted_slot >= LIMITS.payment_wait_slots_max
  return idle || full || waited
}

/** What a payment takes of a batch's capacity; more than any has where the batch pays too many mints already. */
function partsOf(
  state: State,
  payment: Withdrawal | Reshape | Exit,
  batch: SettlementBatch | undefined,
): number {
  if (payment.kind === 'reshape') {
    const bytes = payment.inputs.length * NULLIFIER_BYTES + payment.amounts.length * OUTPUT_BYTES
    return Math.ceil(bytes / PART_BYTES)
  }
  const mints = new Set(batch?.payouts.map((payout) => mintOf(state, payout)))
  if (mints.has(mintOf(state, payment))) return PAYOUT_PARTS
  return mints.size < PAYOUT_MINTS_MAX ? PAYOUT_PARTS + PAYOUT_MINT_PARTS : Number.POSITIVE_INFINITY
}

function mintOf(state: State, payout: Withdrawal | Exit): string {
  return payout.kind === 'exit' ? payout.mint.toHex() : state.mints[payout.note.mint]!.bytes.toHex()
}

function packOne(state: State, batch: SettlementBatch, payment: Withdrawal | Reshape | Exit): void {
  payment.settlement_batch = batch.batch_id
  if (payment.kind === 'withdrawal') packWithdrawal(state, batch, payment)
  else if (payment.kind === 'reshape') packReshape(state, batch, payment)
  else packExit(state, batch, payment)
}

function packWithdrawal(state: State, batch: SettlementBatch, withdrawal: Withdrawal): void {
  const { note, amount, fee } = withdrawal
  spendNote(state, batch, note)
  moveFees(state, batch, note.mint, fee)
  batch.payouts.push(withdrawal)
  withdrawal.change = createNote(
    state,
    batch,
    { owner: note.owner, mint: note.mint, amount: note.amount - amount - fee, status: 'free' },
    { anchor: withdrawal.change_anchor, order_id: NO_ORDER, nonce: withdrawal.nonce, index_role: 1 },
  )
  if (withdrawal.change !== undefined) state.notes.hold(withdrawal.change)
}

function packReshape(state: State, batch: SettlementBatch, reshape: Reshape): void {
  for (const note of reshape.inputs) spendNote(state, batch, note)
  const { owner, mint } = reshape.inputs[0]!
  reshape.outputs = reshape.amounts.map((amount, index) => {
    const source = { anchor: reshape.anchor, order_id: NO_ORDER, nonce: reshape.nonce }
    const made = { owner, mint, amount, status: 'free' as const }
    return createNote(state, batch, made, { ...source, index_role: 2 * index + 1 })!
  })
  holdAll(state.notes, reshape.outputs)
  batch.reshapes.push(reshape)
}

function packExit(state: State, batch: SettlementBatch, exit: Exit): void {
  if (exit.note !== undefined) spendNote(state, batch, exit.note)
  else coverLeaf(state, batch, state.leaves.indexOf(hexBytes(exit.commitment, 32)))
  batch.payouts.push(exit)
}
