/** The form of a place body: every field in its exact shape, before anything is looked up. */
import { areAnchors } from '../../protocol/anchors'
import type { PlaceFields } from '../commands'
import {
  elementOf,
  hexOf,
  integerOf,
  keyOf,
  nonceOf,
  objectOf,
  orderIdOf,
  path,
  refuseField,
  symbolOf,
  u64Of,
  wordOf,
} from './form'
import { type Opening, readOpening } from './read_opening'

/** A place command before its signature is checked and its note is opened. */
export type PlaceForm = Omit<PlaceFields, 'signature' | 'digest' | 'opening'> & {
  opening: Opening | undefined
}

const FIELDS = [
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
] as const

/** Reads a place body. `signed` bodies must carry `signature`, bodies of a check must not. `at` prefixes field names. */
export function readPlace(value: unknown, signed: boolean, at = ''): PlaceForm {
  const body = objectOf(value, at, signed ? [...FIELDS, 'signature'] : FIELDS, ['min_fill', 'opening'])
  const field = (name: string) => path(at, name)
  return {
    order_id: orderIdOf(body['order_id'], field('order_id')),
    trading_key: keyOf(body['trading_key'], field('trading_key')),
    symbol: symbolOf(body['symbol'], field('symbol')),
    side: wordOf(body['side'], field('side'), ['buy', 'sell']),
    type: wordOf(body['type'], field('type'), ['limit', 'ioc', 'fok']),
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
  if (value.length < 1 || value.length > 16) throw refuseField('anchors_invalid', field)
  const anchors = value.map((anchor, index) => hexOf(anchor, `${field}[${index}]`, 32))
  if (!areAnchors(anchors)) throw refuseField('anchors_invalid', field)
  return anchors
}
