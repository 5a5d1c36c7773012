/** From a place request to its command: form, instrument, rules, what is signed, then the facts of the opening. */
import { anchorPoolHash } from '../../protocol/anchors'
import { concatBytes } from '../../protocol/bytes'
import { encodePlace } from '../../protocol/place'
import { sha256 } from '../../protocol/sha256'
import type { Place } from '../commands'
import { checkInstrumentRules } from './check_instrument_rules'
import { type Intake, rulesFor } from './intake'
import { openNote } from './open_note'
import { type OrderForm, readPlace } from './read_place'
import type { Signed } from './signed'

/** Refuses with the first failing check of protocol.md "Order of checks" before the signature. */
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

/** The 224 bytes a place signature covers. */
export function placeBody(intake: Intake, form: OrderForm): Uint8Array {
  return encodePlace({
    ...form,
    venue: intake.venue,
    expiry_slot: BigInt(form.expiry_slot),
    anchor_pool_hash: anchorPoolHash(form.anchors),
  })
}
