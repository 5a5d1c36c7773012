/** Builds and signs requests from the wallet's next command of a key, and forgets rejected ones. */
import { decodeBase58 } from '../../protocol/base58'
import { bodyId } from '../../protocol/bodies/body_layout'
import { encodeCancel, encodeCancelAll, encodeDeadMan } from '../../protocol/bodies/cancel'
import { anchorPoolHash, encodePlace } from '../../protocol/bodies/place'
import { encodeReshape } from '../../protocol/bodies/reshape'
import { encodeWithdraw } from '../../protocol/bodies/withdraw'
import { compareBytes, fromHex, toHex } from '../../protocol/bytes'
import { ANCHORS_PER_COMMAND, deriveAnchor, deriveOrderId } from '../../protocol/notes/derive'
import { sign } from '../../protocol/sign'
import { feeUpTo, quoteAmount } from '../../protocol/units'
import type {
  CancelAllRequest,
  CancelRequest,
  DeadManRequest,
  Instrument,
  NoteOpening,
  OrderType,
  PlaceRequest,
  ReshapeRequest,
  Side,
  WithdrawalRequest,
} from '../../protocol/wire/trading'
import type { Wallet, WalletNote } from './wallet'

// The opening a request carries for a note the venue may not know: harmless when it does.

function openingOf(note: WalletNote): NoteOpening {
  const { mint, amount, blinding, leaf_index } = note
  return leaf_index === undefined ? { mint, amount, blinding } : { mint, amount, blinding, leaf_index }
}

// Builds and signs a place request from the wallet's next command of a key.

/** Anchors per order; the fill index keeps outputs distinct however few there are. */
const ANCHOR_COUNT = 4

export type OrderTerms = {
  instrument: Instrument
  side: Side
  type?: OrderType
  amount: bigint
  price_limit: bigint
  min_fill?: bigint
  expiry_slot: number
}

/** What a note must hold to back an order: the amount (sell), or the quote amount with fee at the limit (buy). */
export function collateralOf(terms: OrderTerms): { mint: string; amount: bigint } {
  const { instrument, side, amount, price_limit } = terms
  if (side === 'sell') return { mint: instrument.base_mint, amount }
  const quote = quoteAmount(amount, price_limit, instrument.base_decimals)
  return { mint: instrument.quote_mint, amount: quote + feeUpTo(quote, instrument.fee_bps) }
}

/**
 * The request is complete and final: send these very bytes again if the answer is lost. Counters advance at once, so a
 * refused request leaves a gap, which nonces allow.
 */
export function preparePlace(
  wallet: Wallet,
  venue: Uint8Array,
  terms: OrderTerms,
  note: WalletNote,
): PlaceRequest {
  const key_index = note.key_index
  const counters = wallet.counters(key_index)
  const command = counters.commands++
  const anchors = Array.from({ length: ANCHOR_COUNT }, (_, i) =>
    deriveAnchor(wallet.seed, key_index, ANCHORS_PER_COMMAND * command + i),
  )
  const order_id = deriveOrderId(wallet.seed, key_index, command)
  const { instrument, side, type = 'limit', amount, price_limit, min_fill = 0n, expiry_slot } = terms
  const nonce = BigInt(command + 1)
  const body = encodePlace({
    venue,
    order_id,
    trading_key: wallet.tradingKey(key_index),
    symbol: instrument.symbol,
    side,
    type,
    amount,
    price_limit,
    min_fill,
    expiry_slot: BigInt(expiry_slot),
    nonce,
    collateral_commitment: fromHex(note.commitment, 32)!,
    anchor_pool_hash: anchorPoolHash(anchors),
  })
  note.state = 'pending'
  wallet.state.orders.push({
    order_id: toHex(order_id),
    key_index,
    command,
    nonce: String(nonce),
    anchor_count: ANCHOR_COUNT,
    symbol: instrument.symbol,
    side,
    base_mint: instrument.base_mint,
    quote_mint: instrument.quote_mint,
    base_decimals: instrument.base_decimals,
    fee_bps: instrument.fee_bps,
    price_limit: String(price_limit),
    collateral: note.commitment,
    consumed: [],
    filled: '0',
    quote: '0',
    fee: '0',
    open: true,
  })
  return {
    order_id: toHex(order_id),
    trading_key: wallet.tradingKeyText(key_index),
    symbol: instrument.symbol,
    side,
    type,
    amount: String(amount),
    price_limit: String(price_limit),
    min_fill: String(min_fill),
    expiry_slot,
    nonce: String(nonce),
    collateral_commitment: note.commitment,
    continuation_anchors: anchors.map(toHex),
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
    opening: openingOf(note),
  }
}

// Builds and signs cancel, cancel-all and dead-man requests; they share one nonce counter per key.

type Signed = { trading_key: string; cancel_nonce: string; signature: string }

/** Signs a body with the key's next cancel nonce. */
function signNext(
  wallet: Wallet,
  key_index: number,
  encode: (by: { trading_key: Uint8Array; cancel_nonce: bigint }) => Uint8Array,
): Signed {
  const cancel_nonce = BigInt(++wallet.counters(key_index).cancels)
  const body = encode({ trading_key: wallet.tradingKey(key_index), cancel_nonce })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    cancel_nonce: String(cancel_nonce),
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
  }
}

export function prepareCancel(
  wallet: Wallet,
  venue: Uint8Array,
  order_id: string,
  key_index: number,
): CancelRequest {
  const order = fromHex(order_id, 16)!
  return signNext(wallet, key_index, (by) => encodeCancel({ venue, order_id: order, ...by }))
}

export function prepareCancelAll(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  symbol?: string,
): CancelAllRequest {
  const signed = signNext(wallet, key_index, (by) => encodeCancelAll({ venue, symbol: symbol ?? '', ...by }))
  return symbol === undefined ? signed : { ...signed, symbol }
}

export function prepareDeadMan(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  timeout_slots: number,
): DeadManRequest {
  const timeout = BigInt(timeout_slots)
  const signed = signNext(wallet, key_index, (by) => encodeDeadMan({ venue, timeout_slots: timeout, ...by }))
  return { ...signed, timeout_slots }
}

// Builds and signs a reshape: merges notes of one key and mint, or splits one.

export function prepareReshape(
  wallet: Wallet,
  venue: Uint8Array,
  notes: WalletNote[],
  to: { amounts: bigint[]; expiry_slot: number },
): ReshapeRequest {
  const key_index = notes[0]!.key_index
  const command = wallet.counters(key_index).commands++
  const nonce = BigInt(command + 1)
  const anchor = deriveAnchor(wallet.seed, key_index, 16 * command)
  const ascending = [...notes].sort((a, b) =>
    compareBytes(fromHex(a.commitment, 32)!, fromHex(b.commitment, 32)!),
  )
  const body = encodeReshape({
    venue,
    trading_key: wallet.tradingKey(key_index),
    inputs: ascending.map((note) => fromHex(note.commitment, 32)!),
    amounts: to.amounts,
    anchor,
    nonce,
    expiry_slot: BigInt(to.expiry_slot),
  })
  for (const note of notes) note.state = 'pending'
  wallet.state.payments.push({
    id: toHex(bodyId(body)),
    kind: 'reshape',
    key_index,
    command,
    inputs: ascending.map((one) => one.commitment),
    amounts: to.amounts.map(String),
  })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    inputs: ascending.map((note) => note.commitment),
    amounts: to.amounts.map(String),
    anchor: toHex(anchor),
    nonce: String(nonce),
    expiry_slot: to.expiry_slot,
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
    openings: ascending.map(openingOf),
  }
}

// Builds and signs a withdrawal of part or all of a note to a token account.

/** The note must hold `amount` plus the mint's withdraw fee; the rest comes back as change. */
export function prepareWithdrawal(
  wallet: Wallet,
  venue: Uint8Array,
  note: WalletNote,
  to: { destination: string; amount: bigint; expiry_slot: number },
): WithdrawalRequest {
  const destination = decodeBase58(to.destination, 32)
  if (destination === undefined) throw new RangeError('the destination is not a token account address')
  const key_index = note.key_index
  const command = wallet.counters(key_index).commands++
  const nonce = BigInt(command + 1)
  const change_anchor = deriveAnchor(wallet.seed, key_index, 16 * command)
  const body = encodeWithdraw({
    venue,
    trading_key: wallet.tradingKey(key_index),
    commitment: fromHex(note.commitment, 32)!,
    destination,
    amount: to.amount,
    nonce,
    expiry_slot: BigInt(to.expiry_slot),
    change_anchor,
  })
  note.state = 'pending'
  wallet.state.payments.push({
    id: toHex(bodyId(body)),
    kind: 'withdrawal',
    key_index,
    command,
    inputs: [note.commitment],
    amounts: [String(to.amount)],
  })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    commitment: note.commitment,
    destination: to.destination,
    amount: String(to.amount),
    nonce: String(nonce),
    expiry_slot: to.expiry_slot,
    change_anchor: toHex(change_anchor),
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
    opening: openingOf(note),
  }
}

// Forgets commands the venue refused: their notes are free again, their nonces stay used up.

/** After a refusal with `applied: "no"`; after a lost answer send the same bytes again instead. */
export function dropRefused(wallet: Wallet, order_id: string): void {
  const order = wallet.order(order_id)
  if (order === undefined) return
  order.open = false
  const note = wallet.note(order.collateral)
  if (note !== undefined && note.state === 'pending') note.state = 'free'
}

/** The same for a withdrawal or reshape. */
export function dropRefusedPayment(
  wallet: Wallet,
  request: Pick<WithdrawalRequest | ReshapeRequest, 'trading_key' | 'nonce'>,
): void {
  const at = wallet.state.payments.findIndex(
    ({ key_index, command }) =>
      wallet.tradingKeyText(key_index) === request.trading_key && String(command + 1) === request.nonce,
  )
  const payment = wallet.state.payments[at]
  if (payment === undefined) return
  for (const input of payment.inputs) {
    const note = wallet.note(input)
    if (note?.state === 'pending') note.state = 'free'
  }
  wallet.state.payments.splice(at, 1)
}
