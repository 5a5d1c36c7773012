/** Parses place and modify requests into commands, and checks orders without placing them. */
import { encodeCancel } from '../../protocol/bodies/cancel'
import { anchorPoolHash, areAnchors, encodePlace } from '../../protocol/bodies/place'
import { concatBytes, equalBytes, fromHex } from '../../protocol/bytes'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { sha256 } from '../../protocol/sha256'
import type { Modify, Place, PlaceFields } from '../commands'
import { LIMITS } from '../limits'
import { checkExpiry } from '../machine/rules/checks'
import { instrumentOf, nextClose } from '../machine/state/instrument'
import type { State } from '../machine/state/state'
import { type Intake, rulesFor, type Signed } from './context'
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
import { checkInstrumentRules } from './instrument_rules'
import { type Opening, openNote, readOpening } from './opening'

/** The terms of an order, which the place signature covers, with the opening of its note. */
export type OrderForm = Omit<PlaceFields, 'signature' | 'digest' | 'opening'> & {
  opening: Opening | undefined
}
/** A place command before its signature is verified and its note is opened. */
type PlaceForm = OrderForm & Pick<PlaceFields, 'signature'>

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

/** Refuses with the first failing check that precedes the signature in protocol.md "Order of checks". */
export function intakePlace(
  intake: Intake,
  account_id: string,
  value: unknown,
  origin: string | undefined,
): Signed<Place> {
  const form = readPlace(value)
  checkInstrumentRules(form, rulesFor(intake, form.symbol))
  const { trading_key, signature } = form
  const body = placeBody(intake, form)
  return {
    claims: [{ signature, body, trading_key }],
    command: () => ({
      ...form,
      kind: 'place',
      account_id,
      origin,
      opening: openNote(intake.known, form.collateral_commitment, form.opening, trading_key),
      digest: sha256(body),
    }),
    body_and_signature: concatBytes(body, signature),
  }
}

/** A cancel of the old order and a new order by the same key. Refuses form errors and violated instrument rules. */
export function intakeModify(
  intake: Intake,
  account_id: string,
  order_id_text: string,
  value: unknown,
  origin: string | undefined,
): Signed<Modify> {
  const order_id = orderIdOf(order_id_text)
  const body = objectOf(value, '', ['cancel_nonce', 'cancel_signature', 'replacement'])
  const cancel_nonce = nonceOf(body['cancel_nonce'], 'cancel_nonce')
  const cancel_signature = signatureOf(body['cancel_signature'], 'cancel_signature')
  const form = readPlace(body['replacement'], 'replacement')
  // An order id is never reused.
  if (equalBytes(order_id, form.order_id)) throw refuseField('field_invalid', 'replacement.order_id')
  checkInstrumentRules(form, rulesFor(intake, form.symbol), 'replacement.')
  const { trading_key, signature } = form
  const cancel_body = encodeCancel({ venue: intake.venue, order_id, trading_key, cancel_nonce })
  const place_body = placeBody(intake, form)
  return {
    claims: [
      { signature: cancel_signature, body: cancel_body, trading_key },
      { signature, body: place_body, trading_key },
    ],
    command: () => ({
      kind: 'modify',
      account_id,
      origin,
      cancel: { order_id, trading_key, cancel_nonce, signature: cancel_signature },
      replacement: {
        ...form,
        opening: openNote(intake.known, form.collateral_commitment, form.opening, trading_key),
        digest: sha256(cancel_body, place_body),
      },
    }),
    body_and_signature: concatBytes(cancel_body, cancel_signature, place_body, signature),
  }
}

/**
 * POST /orders/check: throws the refusal that a place would get from its form, instrument, rules, expiry, instrument
 * status or the venue's availability (`unavailable`), in the order of checks. Reveals nothing about keys, notes, nonces or
 * other orders.
 */
export function checkOrder(
  intake: Intake,
  state: State,
  unavailable: RefusalCode | undefined,
  value: unknown,
): void {
  const form = orderOf(objectOf(value, '', ORDER_FIELDS, OPTIONAL_FIELDS), '')
  checkInstrumentRules(form, rulesFor(intake, form.symbol))
  const instrument = instrumentOf(state, form.symbol)
  const refused = checkExpiry(state, form.expiry_slot, nextClose(instrument, state.slot))
  if (refused !== undefined) throw new Refusal(refused.code, refused.facts)
  if (instrument.status !== 'active') throw new Refusal('instrument_paused')
  if (unavailable !== undefined) throw new Refusal(unavailable)
}

/** The 224 bytes that a place signature covers. */
function placeBody(intake: Intake, form: OrderForm): Uint8Array {
  return encodePlace({
    ...form,
    venue: intake.venue,
    expiry_slot: BigInt(form.expiry_slot),
    anchor_pool_hash: anchorPoolHash(form.anchors),
  })
}

/** `at` prefixes field names. */
function readPlace(value: unknown, at = ''): PlaceForm {
  const body = objectOf(value, at, PLACE_FIELDS, OPTIONAL_FIELDS)
  return { ...orderOf(body, at), signature: signatureOf(body['signature'], path(at, 'signature')) }
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
    // The name of the entry is built only for an error.
    const anchor = typeof value[at] === 'string' ? fromHex(value[at], 32) : undefined
    if (anchor === undefined) throw refuseField('field_invalid', `${field}[${at}]`)
    anchors.push(anchor)
  }
  if (!areAnchors(anchors)) throw refuseField('anchors_invalid', field)
  return anchors
}
