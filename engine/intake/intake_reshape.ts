/** From a reshape request to its command. */
import { bodyId } from '../../protocol/body_id'
import { concatBytes } from '../../protocol/bytes'
import { encodeReshape } from '../../protocol/reshape'
import type { Reshape } from '../commands'
import type { Intake } from './intake'
import { openNote } from './open_note'
import { readReshape } from './read_reshape'
import type { Signed } from './signed'

/** Refuses form faults and `reshape_invalid`. */
export function intakeReshape(intake: Intake, account_id: string, value: unknown): Signed<Reshape> {
  const form = readReshape(value)
  const body = encodeReshape({ ...form, venue: intake.venue, expiry_slot: BigInt(form.expiry_slot) })
  return {
    claims: [{ signature: form.signature, body, trading_key: form.trading_key }],
    command: () => ({
      ...form,
      kind: 'reshape',
      account_id,
      reshape_id: bodyId(body),
      openings: form.openings.map((opening, at) =>
        openNote(intake.known, form.inputs[at]!, opening, form.trading_key),
      ),
    }),
    body_and_signature: concatBytes(body, form.signature),
  }
}
