/** From a cancel request to its command. */
import { concatBytes } from '../../protocol/bytes'
import { encodeCancel } from '../../protocol/cancel'
import type { Cancel } from '../commands'
import { orderIdOf } from './form'
import type { Intake } from './intake'
import { readCancel } from './read_cancel'
import type { Signed } from './signed'

/** Refuses form faults; `order_id` is the path's. */
export function intakeCancel(
  intake: Intake,
  account_id: string,
  order_id_text: string,
  value: unknown,
): Signed<Cancel> {
  const order_id = orderIdOf(order_id_text)
  const form = readCancel(value)
  const body = encodeCancel({ venue: intake.venue, order_id, ...form })
  return {
    claims: [{ signature: form.signature, body, trading_key: form.trading_key }],
    command: () => ({ ...form, kind: 'cancel', account_id, order_id }),
    body_and_signature: concatBytes(body, form.signature),
  }
}
