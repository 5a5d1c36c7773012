/** From a reshape request to a verified command. */
import { bodyId } from '../../protocol/body_id'
import { concatBytes } from '../../protocol/bytes'
import { encodeReshape } from '../../protocol/reshape'
import type { Reshape } from '../commands'
import { type Intake, requireSignature } from './intake'
import { openNote } from './open_note'
import { readReshape } from './read_reshape'
import type { Signed } from './signed'

/** Refuses form faults, `reshape_invalid` and `signature_invalid`. */
export function intakeReshape(intake: Intake, account_id: string, value: unknown): Signed<Reshape> {
  const form = readReshape(value)
  const body = encodeReshape({ ...form, venue: intake.venue, expiry_slot: BigInt(form.expiry_slot) })
  requireSignature(form.signature, body, form.trading_key)
  return {
    command: {
      kind: 'reshape',
      account_id,
      reshape_id: bodyId(body),
      ...form,
      openings: form.openings.map((opening, at) =>
        openNote(intake.known, form.inputs[at]!, opening, form.trading_key),
      ),
    },
    body_and_signature: concatBytes(body, form.signature),
  }
}
