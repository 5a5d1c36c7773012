/** Builds and signs a place request from the wallet's next command of a key. */
import { anchorPoolHash } from '../../protocol/anchors'
import { fromHex, toHex } from '../../protocol/bytes'
import { deriveAnchor, deriveOrderId } from '../../protocol/derive'
import { encodePlace } from '../../protocol/place'
import { sign } from '../../protocol/sign'
import { feeUpTo, quoteAmount } from '../../protocol/units'
import type { Instrument, OrderType, PlaceRequest, Side } from '../../protocol/wire'
import { openingOf } from './opening'
import type { Wallet, WalletNote } from './wallet'

/** Anchors per order; the fill index keeps outputs distinct however few there are. */
const ANCHOR_COUNT = 4
const ANCHORS_PER_COMMAND = 16

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
