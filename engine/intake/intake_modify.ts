/** From a modify request to its command: a cancel of the old order and a full new order by the same key. */
import { concatBytes, equalBytes } from '../../protocol/bytes'
import { encodeCancel } from '../../protocol/cancel'
import { sha256 } from '../../protocol/sha256'
import type { Modify } from '../commands'
import { checkInstrumentRules } from './check_instrument_rules'
import { nonceOf, objectOf, orderIdOf, refuseField, signatureOf } from './form'
import { type Intake, rulesFor } from './intake'
import { placeBody } from './intake_place'
import { openNote } from './open_note'
import { readPlace } from './read_place'
import type { Signed } from './signed'

/** Refuses form faults and instrument rules. */
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
  // One id cannot name both orders: it is never reusable.
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
