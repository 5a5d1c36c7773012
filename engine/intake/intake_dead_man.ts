/** From a dead-man request to its command. */
import { concatBytes } from '../../protocol/bytes'
import { encodeDeadMan } from '../../protocol/dead_man'
import type { DeadMan } from '../commands'
import { LIMITS } from '../limits'
import { refuseField } from './form'
import type { Intake } from './intake'
import { readDeadMan } from './read_cancel'
import type { Signed } from './signed'

/** Refuses form faults and `timeout_out_of_range`. */
export function intakeDeadMan(intake: Intake, account_id: string, value: unknown): Signed<DeadMan> {
  const form = readDeadMan(value)
  const { timeout_slots } = form
  if (timeout_slots > LIMITS.dead_man_slots_max) {
    throw refuseField('timeout_out_of_range', 'timeout_slots')
  }
  const body = encodeDeadMan({ ...form, venue: intake.venue, timeout_slots: BigInt(timeout_slots) })
  return {
    claims: [{ signature: form.signature, body, trading_key: form.trading_key }],
    command: () => ({ ...form, kind: 'dead_man', account_id }),
    body_and_signature: concatBytes(body, form.signature),
  }
}
