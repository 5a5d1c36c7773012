/** Updates a wallet from account events, each note recomputed first, and from the chain: recovered notes, spends, refunds. */
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { ANCHORS_PER_COMMAND, deriveAnchor } from '../../protocol/notes/derive'
import {
  type BlindingParts,
  depositCommitment,
  noteInner,
  nullifierOf,
  openingCommitment,
  outputBlinding,
} from '../../protocol/notes/notes'
import { TacitError } from '../../protocol/tacit_error'
import { type Amount, feeUpTo, parseU64 } from '../../protocol/units'
import type { Info } from '../../protocol/wire/public'
import type {
  AccountEvent,
  Fill,
  Nonces,
  NoteEvent,
  Order,
  Reshape,
  Withdrawal,
} from '../../protocol/wire/trading'
import { EventsMissing } from '../api/event_stream'
import type { KeyScan } from './recover'
import type { VaultHistory } from './vault_history'
import type { Wallet, WalletNote, WalletOrder, WalletPayment, WalletState } from './wallet'

/** The venue's event contradicts the wallet's own derivation: stop trading with it. */
export class WalletMismatch extends TacitError<{ subject: string }> {
  override readonly name = 'WalletMismatch'
  readonly code = 'wallet_mismatch'
  constructor(subject: string) {
    super(`${subject} differs from what this wallet derives`, { subject })
  }
}

/** The vault was restored from the chain after this wallet's last event. */
export class WalletOutdated extends TacitError<{ generation: number }> {
  override readonly name = 'WalletOutdated'
  readonly code = 'wallet_outdated'
  /** @param generation the vault's */
  constructor(generation: number) {
    super(
      "the venue was restored from the chain since, and this wallet's orders are gone: 'tacit wallet sync' takes its notes over",
      { generation },
    )
  }
}

type Vault = NonNullable<WalletState['vault']>

/** Its vault is another one than the venue's, whose events would be absorbed as its own. */
export class WalletOfOtherVault extends TacitError<Vault> {
  override readonly name = 'WalletOfOtherVault'
  readonly code = 'wallet_of_other_vault'
  constructor(vault: Vault) {
    super(
      `this wallet is of another vault, program ${vault.program_id} on the chain ${vault.genesis_hash}: name the wallet of this venue`,
      vault,
    )
  }
}

/**
 * A venue that was restored numbers events from 1 again and knows no order, payment or request of before, so a wallet with any
 * of them must be synced with the chain first; one without joins. A wallet that was used stays with its vault.
 * @param venue as verified
 * @throws WalletOfOtherVault, WalletOutdated
 */
export function joinVenue(
  { state }: Wallet,
  { genesis_hash, program_id, generation }: Pick<Info, 'genesis_hash' | 'program_id' | 'generation'>,
): void {
  const { vault, notes, keys } = state
  const is_other =
    vault !== undefined && (vault.genesis_hash !== genesis_hash || vault.program_id !== program_id)
  if (is_other && ofVenue(state) + notes.length + keys.length > 0) throw new WalletOfOtherVault(vault)
  judgeGeneration(state, generation)
  Object.assign(state, { vault: { genesis_hash, program_id }, generation })
}
const ofVenue = ({ seq, orders, payments, requests = [] }: WalletState): number =>
  seq + orders.length + payments.length + requests.length
function judgeGeneration(state: WalletState, generation: number): void {
  const { notes, keys } = state
  // One that names its generation was recovered or synced in it: a copy of the seed may have traded there.
  const is_used = ofVenue(state) + (state.generation === undefined ? 0 : notes.length + keys.length) > 0
  if (is_used && (state.generation ?? 0) !== generation) throw new WalletOutdated(generation)
}

const FINAL = ['order.filled', 'order.cancelled', 'order.expired', 'order.replaced']

/**
 * Absorbs the event after the last one. An event already absorbed changes nothing; one that throws leaves the wallet at the
 * event before it.
 * @param generation the vault's, as `/info` and the verified chain state it
 * @throws WalletOutdated; EventsMissing when events between were left out; WalletMismatch when a note, amount or change
 * contradicts the wallet's derivation
 */
export function absorbEvent(wallet: Wallet, generation: number, event: AccountEvent): void {
  const { seq } = wallet.state
  judgeGeneration(wallet.state, generation)
  if (event.seq <= seq) return
  if (event.seq !== seq + 1) throw new EventsMissing(seq + 1, event.seq - 1)
  const { kind, data } = event
  if (kind === 'fill.matched') absorbFill(wallet, generation, data as Fill)
  else if (kind === 'fill.voided') absorbVoidedFill(wallet, generation, data as Fill)
  else if (FINAL.includes(kind)) absorbFinal(wallet, data as Order)
  else if (kind === 'order.replace_refused') absorbRefused(wallet, data as Order)
  else if (kind.startsWith('withdrawal.')) absorbWithdrawal(wallet, generation, data as Withdrawal)
  else if (kind.startsWith('reshape.')) absorbReshape(wallet, generation, data as Reshape)
  else if (kind === 'note.exited') absorbExited(wallet, data as NoteEvent)
  Object.assign(wallet.state, { seq: event.seq, generation })
}

/**
 * Closes an order. Fill events follow the closing event when their notes are hashed after the auction, so the collateral
 * is freed only once every fill is absorbed. A replacement may continue with the same note.
 */
function absorbFinal(wallet: Wallet, data: Order): void {
  const order = wallet.order(data.order_id)
  if (order === undefined) return
  const filled = unitsOf('the filled amount of an order', data.filled_amount)
  order.open = false
  order.filled_final = String(filled)
  const heir = data.replaced_by === undefined ? undefined : wallet.order(data.replaced_by)
  if (order.filled !== order.filled_final || heir?.collateral === order.collateral) return
  wallet.release([order.collateral])
}

/** A replacement that waited was rejected: it never lived, and its note is free unless the old order keeps it. */
function absorbRefused(wallet: Wallet, { replacement }: Pick<Order, 'replacement'>): void {
  const refused = wallet.order(replacement ?? '')
  if (refused === undefined) return
  refused.open = false
  refused.filled_final = '0'
  if (!wallet.isBacking(refused.collateral)) wallet.release([refused.collateral])
}

/**
 * Spends the order's collateral and adds proceeds and change.
 * @throws WalletMismatch when price, fee, a commitment or the presence of change contradicts the order's terms
 */
function absorbFill(wallet: Wallet, generation: number, fill: Fill): void {
  const order = wallet.order(fill.order_id)
  if (order === undefined || fill.fill_index < order.consumed.length) return
  const collateral = wallet.note(order.collateral)
  if (collateral === undefined || fill.fill_index !== order.consumed.length)
    throw new WalletMismatch('the collateral of a fill')
  const { amount, quote, fee } = checkTerms(order, fill)
  const buys = order.side === 'buy'
  const change = BigInt(collateral.amount) - (buys ? quote + fee : amount)
  if (change < 0n || change > 0n !== (fill.change_commitment !== undefined))
    throw new WalletMismatch('the change of a fill')
  const source = sourceOf(wallet, generation, order, fill)
  const proceeds = buys ? { mint: order.base_mint, amount } : { mint: order.quote_mint, amount: quote - fee }
  const filled = String(BigInt(order.filled) + amount)
  const made: WalletNote[] = []
  // A tiny sale whose fee takes all of it has no proceeds note.
  if (proceeds.amount > 0n) {
    const commitment = fill.proceeds_commitment
    made.push(ownOutput(wallet, source, { ...proceeds, commitment, origin: 'proceeds', state: 'free' }))
  }
  if (fill.change_commitment !== undefined) {
    const state = order.open || filled !== order.filled_final ? 'pending' : 'free'
    const rest = { mint: collateral.mint, amount: change, origin: 'change', state } as const
    const commitment = fill.change_commitment
    made.push(ownOutput(wallet, { ...source, index_role: source.index_role + 1 }, { ...rest, commitment }))
  }
  for (const note of made) wallet.addNote(note)
  collateral.state = 'spent'
  wallet.payFee(order.quote_mint, fee)
  order.filled = filled
  order.quote = String(BigInt(order.quote) + quote)
  order.fee = String(BigInt(order.fee) + fee)
  order.consumed.push(order.collateral)
  if (fill.change_commitment !== undefined) order.collateral = fill.change_commitment
}

/**
 * The fill is within the order's amount and price limit, its quote amount is exact, and the sum of fees is within the signed
 * terms.
 */
function checkTerms(order: WalletOrder, fill: Fill): { amount: bigint; quote: bigint; fee: bigint } {
  const [amount, quote] = [
    unitsOf('the amount of a fill', fill.amount),
    unitsOf('the price of a fill', fill.quote_amount),
  ]
  const filled = BigInt(order.filled) + amount
  if (amount === 0n || filled > BigInt(order.amount ?? filled))
    throw new WalletMismatch('the amount of a fill')
  const [price, limit] = [unitsOf('the price of a fill', fill.price), BigInt(order.price_limit)]
  const inexact = amount * price !== quote * 10n ** BigInt(order.base_decimals)
  const worse = order.side === 'buy' ? price > limit : price < limit
  if (worse || inexact) throw new WalletMismatch('the price of a fill')
  const fee = unitsOf('the fee of a fill', fill.fee)
  const fee_max = feeUpTo(BigInt(order.quote) + quote, order.fee_bps) - BigInt(order.fee)
  if (fee > fee_max) throw new WalletMismatch('the fee of a fill')
  return { amount, quote, fee }
}

/** @throws WalletMismatch for anything but a decimal number of 64 bits */
function unitsOf(subject: string, value: unknown): bigint {
  const units = typeof value === 'string' ? parseU64(value) : undefined
  if (units === undefined) throw new WalletMismatch(subject)
  return units
}

function sourceOf(wallet: Wallet, generation: number, order: WalletOrder, fill: Fill): OutputSource {
  const { key_index, command, anchor_count } = order
  return {
    key_index,
    generation,
    anchor: deriveAnchor(wallet.seed, key_index, 16 * command + (fill.fill_index % anchor_count)),
    order_id: fromHex(order.order_id, 16)!,
    nonce: BigInt(order.nonce),
    index_role: 2 * fill.fill_index,
  }
}

/**
 * Undoes a fill that never reaches the chain because the vault was frozen: its notes do not exist and the
 * note it consumed is unspent. All fills from some index on are voided; their events come in any order.
 * @throws WalletMismatch for notes that this fill did not make, and for more fees than the order paid
 */
function absorbVoidedFill(wallet: Wallet, generation: number, fill: Fill): void {
  const order = wallet.order(fill.order_id)
  const consumed = order?.consumed[fill.fill_index]
  if (order === undefined || consumed === undefined) return
  const gone = [fill.proceeds_commitment, fill.change_commitment]
  for (const [role, commitment] of gone.entries()) {
    const note = wallet.note(commitment ?? '')
    const source = { ...sourceOf(wallet, generation, order, fill), index_role: 2 * fill.fill_index + role }
    if (note !== undefined && !isMadeBy(source, note)) throw new WalletMismatch('a note of a voided fill')
  }
  const fee = unitsOf('the fee of a voided fill', fill.fee)
  if (fee > BigInt(order.fee)) throw new WalletMismatch('the fee of a voided fill')
  wallet.state.notes = wallet.state.notes.filter((note) => !gone.includes(note.commitment))
  const note = wallet.note(consumed)
  if (note?.state === 'spent') note.state = 'free'
  order.fee = String(BigInt(order.fee) - fee)
  wallet.payFee(order.quote_mint, -fee)
}

function isMadeBy(source: OutputSource, { blinding, key_index }: WalletNote): boolean {
  return key_index === source.key_index && toHex(outputBlinding(source)) === blinding
}

/** A refund is kept on the payment until `adoptRefunds` finds its leaf. @throws WalletMismatch */
function absorbWithdrawal(wallet: Wallet, generation: number, data: Withdrawal): void {
  const payment = wallet.payment(data.withdrawal_id)
  const note = wallet.note(data.commitment)
  if (payment === undefined || note === undefined) return
  if (data.status === 'voided') {
    wallet.release(payment.inputs)
    return
  }
  const { change_commitment, refund_commitment } = data
  if (data.amount !== payment.amounts[0]) throw new WalletMismatch('the amount of a withdrawal')
  const fee = unitsOf('the fee of a withdrawal', data.fee)
  const under_way = data.status === 'accepted' && change_commitment === undefined
  const rest = BigInt(note.amount) - BigInt(data.amount) - fee
  if (!under_way && (rest < 0n || rest > 0n !== (change_commitment !== undefined)))
    throw new WalletMismatch('the change of a withdrawal')
  const is_refunded = data.status === 'refunded'
  if (is_refunded && fromHex(refund_commitment ?? '', 32) === undefined)
    throw new WalletMismatch('a refund without its note')
  if (change_commitment !== undefined) {
    const source = paymentSource(wallet, generation, payment, 1)
    const made = { mint: note.mint, amount: rest, commitment: change_commitment } as const
    wallet.addNote(ownOutput(wallet, source, { ...made, origin: 'change', state: 'free' }))
  }
  if (note.state !== 'spent' && !under_way) {
    note.state = 'spent'
    wallet.payFee(note.mint, fee)
  }
  if (is_refunded) payment.refund = { commitment: refund_commitment!, mint: note.mint, generation }
}

/** @throws WalletMismatch */
function absorbReshape(wallet: Wallet, generation: number, data: Reshape): void {
  const payment = wallet.payment(data.reshape_id)
  if (payment === undefined) return
  const mint = wallet.note(payment.inputs[0]!)?.mint
  if (mint === undefined) return
  if (data.status === 'voided') {
    wallet.release(payment.inputs)
    return
  }
  if (data.outputs.length !== payment.amounts.length) throw new WalletMismatch('the outputs of a reshape')
  const outputs = data.outputs.map(({ commitment }, j) => {
    const amount = BigInt(payment.amounts[j]!)
    const made = { mint, amount, commitment, origin: 'reshape', state: 'free' } as const
    return ownOutput(wallet, paymentSource(wallet, generation, payment, 2 * j + 1), made)
  })
  // Known and compared from the start, but usable only once their batch is on its way.
  if (data.status === 'accepted') return
  for (const output of outputs) wallet.addNote(output)
  for (const input of payment.inputs) wallet.note(input)!.state = 'spent'
}

/** From now on the note backs its exit request alone. */
function absorbExited(wallet: Wallet, data: NoteEvent): void {
  const note = wallet.note(data.commitment)
  if (note?.state === 'free') note.state = 'pending'
}

/** The owning key of an output and the parts of its blinding. */
type OutputSource = BlindingParts & { key_index: number }
type MadeNote = Pick<WalletNote, 'commitment' | 'mint' | 'state' | 'origin' | 'leaf_index'> & {
  amount: Amount
}

/** @throws WalletMismatch when the source gives another commitment; the wallet is unchanged */
function ownOutput(wallet: Wallet, source: OutputSource, made: MadeNote): WalletNote {
  const { key_index } = source
  const blinding = outputBlinding(source)
  const owner = wallet.tradingKey(key_index)
  const mint = decodeBase58(made.mint, 32)!
  const { amount, leaf_index } = made
  const commitment = openingCommitment({ owner, mint, amount, blinding, leaf_index })
  if (toHex(commitment) !== made.commitment) throw new WalletMismatch(`a ${made.origin} note`)
  return { ...made, key_index, amount: String(amount), blinding: toHex(blinding) }
}

const NO_ORDER = new Uint8Array(16)

/** @param index_role change of a withdrawal 1, its refund 3; output j of a reshape 2j + 1 (protocol.md "Notes") */
function paymentSource(
  wallet: Wallet,
  generation: number,
  payment: Pick<WalletPayment, 'key_index' | 'command'>,
  index_role: number,
): OutputSource {
  const { key_index, command } = payment
  const anchor = deriveAnchor(wallet.seed, key_index, 16 * command)
  return { key_index, generation, anchor, order_id: NO_ORDER, nonce: BigInt(command + 1), index_role }
}

/** Marks notes that the history shows spent: a served exit spends its note without an event. @returns the marked notes */
export function markSpent(wallet: Wallet, history: VaultHistory): WalletNote[] {
  const gone = wallet.state.notes.filter((note) => {
    if (note.state === 'spent') return false
    return history.spent.has(toHex(nullifierOfNote(note)))
  })
  for (const note of gone) note.state = 'spent'
  return gone
}

export function nullifierOfNote({ commitment, blinding }: WalletNote): Uint8Array {
  return nullifierOf(fromHex(commitment, 32)!, fromHex(blinding, 32)!)
}

/** Index and role of a withdrawal's refund (protocol.md "Notes"). */
export const REFUND_INDEX_ROLE = 3

/** The leaf index of a commitment (hex) in the note tree; undefined while it is not there. */
export type FindLeaf = (commitment: string) => Promise<number | undefined>

/**
 * Adds the notes that the program made for withdrawals with an unusable destination. `withdrawal.refunded` names such a
 * note's commitment, which covers a leaf index that only the chain chooses; `findLeaf` asks the venue's `/tree/inclusion`
 * or a history (`leafFinder`). Neither is trusted: another leaf index gives another commitment.
 * @returns the added notes. @throws WalletMismatch
 */
export async function adoptRefunds(wallet: Wallet, findLeaf: FindLeaf): Promise<WalletNote[]> {
  const adopted: WalletNote[] = []
  for (const payment of wallet.state.payments) {
    const { refund } = payment
    if (refund === undefined || wallet.note(refund.commitment) !== undefined) continue
    const leaf_index = await findLeaf(refund.commitment)
    if (leaf_index === undefined) continue
    const note = ownOutput(wallet, paymentSource(wallet, refund.generation, payment, REFUND_INDEX_ROLE), {
      commitment: refund.commitment,
      mint: refund.mint,
      amount: BigInt(payment.amounts[0]!),
      leaf_index,
      origin: 'refund',
      state: 'free',
    })
    wallet.addNote(note)
    adopted.push(note)
  }
  return adopted
}

/**
 * Raises a key's counters to the nonces that the venue has seen: orders that never filled leave no trace on chain.
 * Command n uses nonce n + 1, so the last used nonce is the count of commands. Counters never decrease.
 * @throws WalletMismatch for a nonce that no wallet can have used
 */
export function alignCounters(wallet: Wallet, key_index: number, nonces: Nonces): void {
  const counters = wallet.counters(key_index)
  counters.commands = Math.max(counters.commands, countOf(nonces.place_nonce, COMMANDS_OF_A_KEY))
  counters.cancels = Math.max(counters.cancels, countOf(nonces.cancel_nonce, Number.MAX_SAFE_INTEGER))
}
const COMMANDS_OF_A_KEY = 2 ** 32 / ANCHORS_PER_COMMAND

function countOf(nonce: string, below: number): number {
  const count = parseU64(nonce)
  if (count === undefined || count >= below) throw new WalletMismatch('a nonce of the venue')
  return Number(count)
}

export type RecoveredNote = {
  commitment: Uint8Array
  mint: Uint8Array
  amount: Amount
  blinding: Uint8Array
  leaf_index?: number
  origin: WalletNote['origin']
}

/** Adds a recovered note, spent or free according to the history. */
export function keepRecovered(scan: KeyScan, note: RecoveredNote): void {
  const { wallet, history, key_index } = scan
  const { blinding, leaf_index, origin } = note
  const commitment = toHex(note.commitment)
  if (wallet.note(commitment) !== undefined) return
  const nullifier = toHex(nullifierOf(note.commitment, blinding))
  const batch = history.spent.get(nullifier)
  const mint = encodeBase58(note.mint)
  if (batch !== undefined && history.exits.get(nullifier)?.payout === undefined)
    scan.spending.note(batch, { mint, amount: note.amount })
  wallet.addNote({
    commitment,
    key_index,
    mint,
    amount: String(note.amount),
    blinding: toHex(blinding),
    ...(leaf_index === undefined ? {} : { leaf_index }),
    state: batch === undefined ? 'free' : 'spent',
    origin,
  })
}

/** Adds every note that the program made for this blinding. @returns its inner hash, hex, and whether any note used it */
export function keepProgramNotes(scan: KeyScan, blinding: Uint8Array): { used: boolean; inner: string } {
  const { history, owner } = scan
  const inner = noteInner(owner, blinding)
  const name = toHex(inner)
  const notes = history.program_notes.get(name) ?? []
  for (const note of notes) {
    const { mint, amount, leaf_index } = note
    const commitment = depositCommitment({ mint, amount, inner, leaf_index })
    if (toHex(commitment) === toHex(note.commitment)) keepRecovered(scan, { ...note, blinding })
  }
  return { used: notes.length > 0, inner: name }
}

/**
 * Adds missing notes, marks spent ones and raises counters; a pending note stays pending unless it is spent.
 * @param recovered the wallet that `recoverWallet` found in `history` for the same seed
 */
export function absorbRecovered(
  wallet: Wallet,
  recovered: Wallet,
  history: VaultHistory,
): { added: WalletNote[]; spent: WalletNote[] } {
  const added = recovered.state.notes.filter(({ commitment }) => wallet.note(commitment) === undefined)
  for (const note of added) wallet.addNote({ ...note })
  recovered.state.keys.forEach(({ commands, deposits }, key_index) => {
    const counters = wallet.counters(key_index)
    counters.commands = Math.max(counters.commands, commands)
    counters.deposits = Math.max(counters.deposits, deposits)
  })
  return { added, spent: markSpent(wallet, history) }
}

/**
 * Brings a wallet up to date with a frozen vault, where nothing lands any more: a note that a batch should have spent is free
 * if none did, outputs of such batches are gone, and every order is closed. @param recovered as for `absorbRecovered`
 */
export function absorbFrozen(wallet: Wallet, recovered: Wallet, history: VaultHistory) {
  for (const order of wallet.state.orders) order.open = false
  return absorbLanded(wallet, recovered, history)
}

/**
 * Brings a wallet of an earlier generation into that of a vault which was restored from the chain: what had not landed never
 * will, and orders, payments, events and requests begin again. Counters and fees stay. @param recovered as for `absorbRecovered`
 */
export function absorbRestored(wallet: Wallet, recovered: Wallet, history: VaultHistory) {
  const { generation } = recovered.state
  Object.assign(wallet.state, { generation, seq: 0, orders: [], payments: [], requests: [] })
  const changes = absorbLanded(wallet, recovered, history)
  // Of the request of an exit no event comes again.
  for (const note of wallet.state.notes)
    if (history.exits.get(toHex(nullifierOfNote(note)))?.stage === 'requested') note.state = 'pending'
  return changes
}

/** Keeps the notes that are on chain; those that it does not show as spent are free. */
function absorbLanded(wallet: Wallet, recovered: Wallet, history: VaultHistory) {
  const leaves = new Set(history.leaves.map(toHex))
  wallet.state.notes = wallet.state.notes.filter(({ commitment }) => leaves.has(commitment))
  for (const note of wallet.state.notes) note.state = 'free'
  return absorbRecovered(wallet, recovered, history)
}
