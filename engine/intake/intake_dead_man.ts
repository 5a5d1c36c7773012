/** From a dead-man request to a verified command. */
import { concatBytes } from '../../protocol/bytes'
import { encodeDeadMan } from '../../protocol/dead_man'
import type { DeadMan } from '../commands'
import { LIMITS } from '../limits'
import { refuseField } from './form'
import { type Intake, requireSignature } from './intake'
import { readDeadMan } from './read_cancel'
import type { Signed } from './signed'

/** Refuses form faults, `timeout_out_of_range` and `signature_invalid`. */
export function intakeDeadMan(intake: Intake, account_id: string, value: unknown): Signed<DeadMan> {
  const form = readDeadMan(value)
  const { timeout_slots } = form
  if (timeout_slots > LIMITS.dead_man_slots_max) {
    throw refuseField('timeout_out_of_range', 'timeout_slots')
  }
  const body = encodeDeadMan({ ...form, venue: intake.venue, timeout_slots: BigInt(timeout_slots) })
  requireSignature(form.signature, body, form.trading_key)
  return {
    command: { kind: 'dead_man', account_id, ...form },
    body_and_signature: concatBytes(body, form.signature),
  }
}
