/** Builds, signs and encodes requests from the wallet's next command of a key, and frees the notes of rejected ones. */
import { decodeBase58 } from '../../protocol/base58'
import {
  anchorPoolHash,
  bodyId,
  CANCEL_ALL_BODY,
  CANCEL_BODY,
  DEAD_MAN_BODY,
  PLACE_BODY,
  RESHAPE_BODY,
  WITHDRAW_BODY,
} from '../../protocol/bodies/trading'
import { concatBytes, fromHex, toHex } from '../../protocol/bytes'
import { ANCHORS_PER_COMMAND, deriveAnchor, deriveOrderId } from '../../protocol/notes/derive'
import {
  type Amount,
  type BaseUnits,
  feeUpTo,
  type Price,
  quoteAmount,
  type SlotNumber,
} from '../../protocol/units'
import type {
  CancelAllRequest,
  CancelRequest,
  CheckRequest,
  DeadManRequest,
  Instrument,
  ModifyRequest,
  NoteOpening,
  OrderType,
  PlaceRequest,
  ReshapeRequest,
  Side,
  WithdrawalRequest,
} from '../../protocol/wire/trading'
import type { Wallet, WalletNote, WalletPayment } from './wallet'

/**
 * Builds and signs requests from the wallet's next command of a key, and frees the notes of rejected ones.
 *
 * `venue` is the 32-byte venue id. A request is final: after a lost answer the same bytes are sent again. Counters advance
 * at once, so a rejected request leaves a gap, which nonces allow.
 */

/** Anchors per order; the fill index keeps outputs distinct with any number of them. */
const ANCHOR_COUNT = 4

export type OrderTerms = {
  instrument: Instrument
  side: Side
  /** Default `limit`. */
  type?: OrderType
  /** Base units, a multiple of the instrument's lot. */
  amount: BaseUnits
  /** Quote units per whole base token, a multiple of the instrument's tick. */
  price_limit: Price
  /** Base units; by default any fill is accepted. */
  min_fill?: BaseUnits
  /** Last slot in which the order may trade. */
  expiry_slot: SlotNumber
}

/** The least a note must hold to back an order: the amount (sell), or the quote amount at the limit with its fee (buy). */
export function collateralOf(terms: OrderTerms): { mint: string; amount: Amount } {
  const { instrument, side, amount, price_limit } = terms
  if (side === 'sell') return { mint: instrument.base_mint, amount }
  const quote = quoteAmount(amount, price_limit, instrument.base_decimals)
  return { mint: instrument.quote_mint, amount: quote + feeUpTo(quote, instrument.fee_bps) }
}

/**
 * An order backed by `note` and signed by the note's key.
 * @param note as `noteFor` found it
 * @throws RangeError when there is none, or when it is not free or does not cover the order
 */
export function preparePlace(
  wallet: Wallet,
  venue: Uint8Array,
  terms: OrderTerms,
  note: WalletNote | undefined,
): PlaceRequest {
  if (note === undefined) throw new RangeError('no free note covers the order')
  requireFree([note])
  const { mint, amount } = collateralOf(terms)
  if (note.mint !== mint || BigInt(note.amount) < amount)
    throw new RangeError('the note does not cover the order')
  return placeOn(wallet, venue, terms, note)
}

function requireFree(notes: readonly WalletNote[]): void {
  if (notes.some(({ state }) => state !== 'free')) throw new RangeError('the note is not free')
}

/** The body that `preparePlace` would sign next, for `POST /orders/check`; no counter advances. */
export function unsignedPlace(wallet: Wallet, terms: OrderTerms, note: WalletNote): CheckRequest {
  const { commands } = wallet.counters(note.key_index)
  return { ...unsignedOf(wallet, terms, note, commands), opening: openingOf(note) }
}

function unsignedOf(wallet: Wallet, terms: OrderTerms, note: WalletNote, command: number) {
  const { key_index } = note
  const { instrument, side, type = 'limit', amount, price_limit, min_fill = 0n, expiry_slot } = terms
  return {
    order_id: toHex(deriveOrderId(wallet.seed, key_index, command)),
    trading_key: wallet.tradingKeyText(key_index),
    symbol: instrument.symbol,
    side,
    type,
    amount: String(amount),
    price_limit: String(price_limit),
    min_fill: String(min_fill),
    expiry_slot,
    nonce: nonceOf(command),
    collateral_commitment: note.commitment,
    continuation_anchors: Array.from({ length: ANCHOR_COUNT }, (_, at) =>
      anchorOf(wallet, key_index, command, at),
    ),
  }
}

function placeOn(wallet: Wallet, venue: Uint8Array, terms: OrderTerms, note: WalletNote): PlaceRequest {
  const { key_index } = note
  const command = wallet.counters(key_index).commands++
  const unsigned = unsignedOf(wallet, terms, note, command)
  const { symbol, base_mint, quote_mint, base_decimals, fee_bps } = terms.instrument
  const { side } = terms
  const signature = signBody(wallet, key_index, placeBody(venue, unsigned))
  note.state = 'pending'
  wallet.state.orders.push({
    order_id: unsigned.order_id,
    key_index,
    command,
    nonce: unsigned.nonce,
    anchor_count: ANCHOR_COUNT,
    symbol,
    side,
    base_mint,
    quote_mint,
    base_decimals,
    fee_bps,
    price_limit: unsigned.price_limit,
    amount: unsigned.amount,
    collateral: note.commitment,
    consumed: [],
    filled: '0',
    quote: '0',
    fee: '0',
    open: true,
  })
  return { ...unsigned, signature, opening: openingOf(note) }
}

/** Cancels, cancel-alls and dead-man timers of a key share one nonce counter. */
export function prepareCancel(
  wallet: Wallet,
  venue: Uint8Array,
  order_id: string,
  key_index: number,
): CancelRequest {
  const unsigned = nextCancel(wallet, key_index)
  return { ...unsigned, signature: signBody(wallet, key_index, cancelBody(venue, order_id, unsigned)) }
}

/**
 * Replaces an open order by a new one on the note that backs it, both or neither. When the venue rejects it,
 * `dropRefused` with the replacement's id.
 * @throws RangeError when the wallet has no such open order
 */
export function prepareModify(
  wallet: Wallet,
  venue: Uint8Array,
  order_id: string,
  terms: OrderTerms,
): ModifyRequest {
  const order = wallet.order(order_id)
  const note = order?.open ? wallet.note(order.collateral) : undefined
  if (note?.state !== 'pending') throw new RangeError('the wallet has no such open order')
  const { cancel_nonce, signature } = prepareCancel(wallet, venue, order_id, note.key_index)
  const replacement = placeOn(wallet, venue, terms, note)
  return { cancel_nonce, cancel_signature: signature, replacement }
}

/** Of one instrument, or of all of them. */
export function prepareCancelAll(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  symbol?: string,
): CancelAllRequest {
  const next = nextCancel(wallet, key_index)
  const unsigned = symbol === undefined ? next : { ...next, symbol }
  return { ...unsigned, signature: signBody(wallet, key_index, cancelAllBody(venue, unsigned)) }
}

/** Cancels all orders of the key unless another timer follows within `timeout_slots`; 0 disarms. */
export function prepareDeadMan(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  timeout_slots: number,
): DeadManRequest {
  const unsigned = { ...nextCancel(wallet, key_index), timeout_slots }
  return { ...unsigned, signature: signBody(wallet, key_index, deadManBody(venue, unsigned)) }
}

/**
 * Merges up to four notes of one key and mint, or splits one; the amounts sum to those of the notes.
 * @throws RangeError when a note is not free
 */
export function prepareReshape(
  wallet: Wallet,
  venue: Uint8Array,
  notes: WalletNote[],
  to: { amounts: Amount[]; expiry_slot: SlotNumber },
): ReshapeRequest {
  requireFree(notes)
  const { key_index } = notes[0]!
  const command = wallet.counters(key_index).commands++
  const ascending = [...notes].sort((a, b) => (a.commitment < b.commitment ? -1 : 1))
  const unsigned = {
    trading_key: wallet.tradingKeyText(key_index),
    inputs: ascending.map((note) => note.commitment),
    amounts: to.amounts.map(String),
    anchor: anchorOf(wallet, key_index, command),
    nonce: nonceOf(command),
    expiry_slot: to.expiry_slot,
  }
  const body = reshapeBody(venue, unsigned)
  for (const note of notes) note.state = 'pending'
  const { inputs, amounts } = unsigned
  const id = toHex(bodyId(body))
  wallet.state.payments.push({ id, kind: 'reshape', key_index, command, inputs, amounts })
  const signature = signBody(wallet, key_index, body)
  return { ...unsigned, signature, openings: ascending.map(openingOf) }
}

/**
 * Pays part or all of a note to a token account. The note must hold `amount` plus the mint's withdraw fee; the rest
 * comes back as change.
 * @param to `destination` is the token account, base58. @throws RangeError when it is not an address or the note is not free
 */
export function prepareWithdrawal(
  wallet: Wallet,
  venue: Uint8Array,
  note: WalletNote,
  to: { destination: string; amount: Amount; expiry_slot: SlotNumber },
): WithdrawalRequest {
  if (decodeBase58(to.destination, 32) === undefined)
    throw new RangeError('the destination is not a token account address')
  requireFree([note])
  const { key_index, commitment } = note
  const command = wallet.counters(key_index).commands++
  const unsigned = {
    trading_key: wallet.tradingKeyText(key_index),
    commitment,
    destination: to.destination,
    amount: String(to.amount),
    nonce: nonceOf(command),
    expiry_slot: to.expiry_slot,
    change_anchor: anchorOf(wallet, key_index, command),
  }
  const body = withdrawBody(venue, unsigned)
  note.state = 'pending'
  const [id, amounts] = [toHex(bodyId(body)), [unsigned.amount]]
  wallet.state.payments.push({ id, kind: 'withdrawal', key_index, command, inputs: [commitment], amounts })
  return { ...unsigned, signature: signBody(wallet, key_index, body), opening: openingOf(note) }
}

/**
 * Frees the note of an order that the venue rejected with `applied: "no"`; its nonce stays used. After a lost answer
 * send the same bytes again instead. A note that also backs an open order, as after a rejected modify, stays pending.
 */
export function dropRefused(wallet: Wallet, order_id: string): void {
  const order = wallet.order(order_id)
  if (order === undefined) return
  order.open = false
  if (!wallet.isBacking(order.collateral)) wallet.release([order.collateral])
}

/** The same for a withdrawal or reshape. */
export function dropRefusedPayment(
  wallet: Wallet,
  request: Pick<WithdrawalRequest | ReshapeRequest, 'trading_key' | 'nonce'>,
): void {
  const { payments } = wallet.state
  const isRefused = ({ key_index, command }: WalletPayment): boolean =>
    wallet.tradingKeyText(key_index) === request.trading_key && nonceOf(command) === request.nonce
  const at = payments.findIndex(isRefused)
  if (at === -1) return
  const [refused] = payments.splice(at, 1)
  wallet.release(refused!.inputs)
}

/** Command n uses nonce n + 1. */
function nonceOf(command: number): string {
  return String(command + 1)
}

/** Anchor `at` of the 16 that belong to a command, hex. */
function anchorOf(wallet: Wallet, key_index: number, command: number, at = 0): string {
  return toHex(deriveAnchor(wallet.seed, key_index, ANCHORS_PER_COMMAND * command + at))
}

/** The next cancel nonce of a key. */
export function nextCancel(wallet: Wallet, key_index: number): { trading_key: string; cancel_nonce: string } {
  const cancel_nonce = String(++wallet.counters(key_index).cancels)
  return { trading_key: wallet.tradingKeyText(key_index), cancel_nonce }
}

export function signBody(wallet: Wallet, key_index: number, body: Uint8Array): string {
  return toHex(wallet.signer.sign(key_index, body))
}

/** Every request carries the opening of its note: the venue may not know it yet. */
function openingOf(note: WalletNote): NoteOpening {
  const { mint, amount, blinding, leaf_index } = note
  return leaf_index === undefined ? { mint, amount, blinding } : { mint, amount, blinding, leaf_index }
}

/** A command as it was sent. `order_id` is the one in the path of the request, hex. */
export type SentCommand =
  | { kind: 'place'; request: PlaceRequest }
  | { kind: 'cancel'; order_id: string; request: CancelRequest }
  | { kind: 'modify'; order_id: string; request: ModifyRequest }
  | { kind: 'cancel_all'; request: CancelAllRequest | readonly CancelAllRequest[] }
  | { kind: 'dead_man'; request: DeadManRequest }
  | { kind: 'withdraw'; request: WithdrawalRequest }
  | { kind: 'reshape'; request: ReshapeRequest }

/**
 * Canonical body and signature of a command, one pair after the other where it has several: the leaf that
 * `verifyReceipt` looks for (engine.md "Receipts").
 * @param venue 32 bytes
 * @throws RangeError, SyntaxError when a field is not in the form that the venue accepts
 */
export function commandBytes(venue: Uint8Array, command: SentCommand): Uint8Array {
  switch (command.kind) {
    case 'place':
      return signed(placeBody(venue, command.request), command.request.signature)
    case 'cancel':
      return signed(cancelBody(venue, command.order_id, command.request), command.request.signature)
    case 'modify': {
      const { cancel_nonce, cancel_signature, replacement } = command.request
      const cancel = { trading_key: replacement.trading_key, cancel_nonce }
      return concatBytes(
        signed(cancelBody(venue, command.order_id, cancel), cancel_signature),
        signed(placeBody(venue, replacement), replacement.signature),
      )
    }
    case 'cancel_all': {
      const requests = [command.request].flat()
      return concatBytes(...requests.map((one) => signed(cancelAllBody(venue, one), one.signature)))
    }
    case 'dead_man':
      return signed(deadManBody(venue, command.request), command.request.signature)
    case 'withdraw':
      return signed(withdrawBody(venue, command.request), command.request.signature)
    case 'reshape':
      return signed(reshapeBody(venue, command.request), command.request.signature)
  }
}

type Unsigned<Request> = Omit<Request, 'signature' | 'opening' | 'openings'>

export function placeBody(venue: Uint8Array, request: Unsigned<PlaceRequest>): Uint8Array {
  const { symbol, side, type, min_fill = '0' } = request
  return PLACE_BODY.encode({
    venue,
    order_id: hex(request.order_id, 16),
    trading_key: address(request.trading_key),
    symbol,
    side,
    type,
    amount: BigInt(request.amount),
    price_limit: BigInt(request.price_limit),
    min_fill: BigInt(min_fill),
    expiry_slot: BigInt(request.expiry_slot),
    nonce: BigInt(request.nonce),
    collateral_commitment: hex(request.collateral_commitment, 32),
    anchor_pool_hash: anchorPoolHash(request.continuation_anchors.map((anchor) => hex(anchor, 32))),
  })
}

export function cancelBody(
  venue: Uint8Array,
  order_id: string,
  request: Unsigned<CancelRequest>,
): Uint8Array {
  return CANCEL_BODY.encode({ venue, order_id: hex(order_id, 16), ...signerOf(request) })
}

export function cancelAllBody(venue: Uint8Array, request: Unsigned<CancelAllRequest>): Uint8Array {
  return CANCEL_ALL_BODY.encode({ venue, symbol: request.symbol ?? '', ...signerOf(request) })
}

export function deadManBody(venue: Uint8Array, request: Unsigned<DeadManRequest>): Uint8Array {
  return DEAD_MAN_BODY.encode({ venue, timeout_slots: BigInt(request.timeout_slots), ...signerOf(request) })
}

export function withdrawBody(venue: Uint8Array, request: Unsigned<WithdrawalRequest>): Uint8Array {
  return WITHDRAW_BODY.encode({
    venue,
    trading_key: address(request.trading_key),
    commitment: hex(request.commitment, 32),
    destination: address(request.destination),
    amount: BigInt(request.amount),
    nonce: BigInt(request.nonce),
    expiry_slot: BigInt(request.expiry_slot),
    change_anchor: hex(request.change_anchor, 32),
  })
}

export function reshapeBody(venue: Uint8Array, request: Unsigned<ReshapeRequest>): Uint8Array {
  return RESHAPE_BODY.encode({
    venue,
    trading_key: address(request.trading_key),
    inputs: request.inputs.map((input) => hex(input, 32)),
    amounts: request.amounts.map(BigInt),
    anchor: hex(request.anchor, 32),
    nonce: BigInt(request.nonce),
    expiry_slot: BigInt(request.expiry_slot),
  })
}

function signerOf(request: Pick<CancelRequest, 'trading_key' | 'cancel_nonce'>): {
  trading_key: Uint8Array
  cancel_nonce: bigint
} {
  return { trading_key: address(request.trading_key), cancel_nonce: BigInt(request.cancel_nonce) }
}

function signed(body: Uint8Array, signature: string): Uint8Array {
  return concatBytes(body, hex(signature, 64))
}

function hex(text: string, width: number): Uint8Array {
  const bytes = fromHex(text, width)
  if (bytes === undefined) throw new RangeError(`expected ${2 * width} lowercase hex digits`)
  return bytes
}

function address(text: string): Uint8Array {
  const bytes = decodeBase58(text, 32)
  if (bytes === undefined) throw new RangeError('expected a base58 key of 32 bytes')
  return bytes
}
