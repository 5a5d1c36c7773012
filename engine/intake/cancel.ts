/** Turns cancel, cancel-all and dead-man requests into commands. */
import { encodeCancel, encodeCancelAll, encodeDeadMan } from '../../protocol/bodies/cancel'
import { DEAD_MAN_SLOTS_MAX } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'
import type { DeadManRequest } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { Cancel, CancelAll, CancelAllFields, CancelFields, DeadMan } from '../commands'
import { type Intake, rulesFor, type Signed, signedBy } from './context'

export function intakeCancel({ venue }: Intake, account_id: string, request: CancelFields): Signed<Cancel> {
  const claim = { ...request, body: encodeCancel({ ...request, venue }) }
  return signedBy([claim], () => ({ ...request, kind: 'cancel', account_id }))
}

/** One command for up to 64 requests. Refuses `instrument_unknown`; each check covers all items before the next begins. */
export function intakeCancelAll(
  intake: Intake,
  account_id: string,
  items: CancelAllFields[],
): Signed<CancelAll> {
  for (const { symbol } of items) if (symbol !== undefined) rulesFor(intake, symbol)
  const { venue } = intake
  const claims = items.map(({ symbol = '', ...item }) => ({
    ...item,
    body: encodeCancelAll({ ...item, venue, symbol }),
  }))
  return signedBy(claims, () => ({ kind: 'cancel_all', account_id, items }))
}

/** Refuses `timeout_out_of_range`; `timeout_slots` 0 disarms. */
export function intakeDeadMan(
  { venue }: Intake,
  account_id: string,
  request: Parsed<typeof DeadManRequest>,
): Signed<DeadMan> {
  if (request.timeout_slots > DEAD_MAN_SLOTS_MAX) {
    throw new Refusal('timeout_out_of_range', { field: 'timeout_slots' })
  }
  const timeout_slots = BigInt(request.timeout_slots)
  const claim = { ...request, body: encodeDeadMan({ ...request, venue, timeout_slots }) }
  return signedBy([claim], () => ({ ...request, kind: 'dead_man', account_id }))
}
