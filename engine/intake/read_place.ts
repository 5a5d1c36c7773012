/** The form of a place body: every field in its exact shape, before anything is looked up. */
import { areAnchors } from '../../protocol/anchors'
import { fromHex } from '../../protocol/bytes'
import type { PlaceFields } from '../commands'
import { LIMITS } from '../limits'
import {
  type Body,
  elementOf,
  integerOf,
  keyOf,
  nonceOf,
  objectOf,
  orderIdOf,
  path,
  refuseField,
  signatureOf,
  symbolOf,
  u64Of,
  wordOf,
} from './form'
import { type Opening, readOpening } from './read_opening'

/** The terms of an order, as a place signature covers them, with the opening of its note. */
export type OrderForm = Omit<PlaceFields, 'signature' | 'digest' | 'opening'> & {
  opening: Opening | undefined
}
/** A place command before its signature is checked and its note is opened. */
export type PlaceForm = OrderForm & Pick<PlaceFields, 'signature'>

const ORDER_FIELDS = [
  'order_id',
  'trading_key',
  'symbol',
  'side',
  'type',
  'amount',
  'price_limit',
  'expiry_slot',
  'nonce',
  'collateral_commitment',
  'continuation_anchors',
]
const PLACE_FIELDS = [...ORDER_FIELDS, 'signature']
const OPTIONAL_FIELDS = ['min_fill', 'opening']
const SIDES = ['buy', 'sell'] as const
const TYPES = ['limit', 'ioc', 'fok'] as const

/** Reads a place body; `at` prefixes field names. */
export function readPlace(value: unknown, at = ''): PlaceForm {
  const body = objectOf(value, at, PLACE_FIELDS, OPTIONAL_FIELDS)
  return { ...orderOf(body, at), signature: signatureOf(body['signature'], path(at, 'signature')) }
}

/** Reads the body of a check: a place body without its signature. */
export function readOrder(value: unknown): OrderForm {
  return orderOf(objectOf(value, '', ORDER_FIELDS, OPTIONAL_FIELDS), '')
}

function orderOf(body: Body, at: string): OrderForm {
  const field = (name: string) => path(at, name)
  return {
    order_id: orderIdOf(body['order_id'], field('order_id')),
    trading_key: keyOf(body['trading_key'], field('trading_key')),
    symbol: symbolOf(body['symbol'], field('symbol')),
    side: wordOf(body['side'], field('side'), SIDES),
    type: wordOf(body['type'], field('type'), TYPES),
    amount: u64Of(body['amount'], field('amount')),
    price_limit: u64Of(body['price_limit'], field('price_limit')),
    min_fill: body['min_fill'] === undefined ? 0n : u64Of(body['min_fill'], field('min_fill')),
    expiry_slot: integerOf(body['expiry_slot'], field('expiry_slot')),
    nonce: nonceOf(body['nonce'], field('nonce')),
    collateral_commitment: elementOf(body['collateral_commitment'], field('collateral_commitment')),
    anchors: readAnchors(body['continuation_anchors'], field('continuation_anchors')),
    opening: readOpening(body['opening'], field('opening')),
  }
}

function readAnchors(value: unknown, field: string): Uint8Array[] {
  if (!Array.isArray(value)) throw refuseField('field_invalid', field)
  // Bounded before any entry is read, so an oversized pool costs nothing.
  if (value.length < 1 || value.length > LIMITS.anchors_max) throw refuseField('anchors_invalid', field)
  const anchors: Uint8Array[] = []
  for (let at = 0; at < value.length; at++) {
    // Only a fault needs the name of its place.
    const anchor = typeof value[at] === 'string' ? fromHex(value[at], 32) : undefined
    if (anchor === undefined) throw refuseField('field_invalid', `${field}[${at}]`)
    anchors.push(anchor)
  }
  if (!areAnchors(anchors)) throw refuseField('anchors_invalid', field)
  return anchors
}
