/** Parses cancel, cancel-all and dead-man requests into commands. */
import { encodeCancel, encodeCancelAll, encodeDeadMan } from '../../protocol/bodies/cancel'
import { concatBytes } from '../../protocol/bytes'
import type { Cancel, CancelAll, CancelAllFields, CancelFields, DeadMan } from '../commands'
import { LIMITS } from '../limits'
import { type Intake, rulesFor, type Signed } from './context'
import {
  arrayOf,
  type Body,
  integerOf,
  keyOf,
  nonceOf,
  objectOf,
  orderIdOf,
  path,
  refuseField,
  signatureOf,
  symbolOf,
} from './form'

/** Refuses form errors; `order_id_text` comes from the request path. */
export function intakeCancel(
  intake: Intake,
  account_id: string,
  order_id_text: string,
  value: unknown,
): Signed<Cancel> {
  const order_id = orderIdOf(order_id_text)
  const form = cancelFields(objectOf(value, '', ['trading_key', 'cancel_nonce', 'signature']), '')
  const body = encodeCancel({ venue: intake.venue, order_id, ...form })
  return {
    claims: [{ signature: form.signature, body, trading_key: form.trading_key }],
    command: () => ({ ...form, kind: 'cancel', account_id, order_id }),
    body_and_signature: concatBytes(body, form.signature),
  }
}

/**
 * One command for up to 64 requests. Refuses form errors and `instrument_unknown`; each check covers all items before the
 * next check begins.
 */
export function intakeCancelAll(intake: Intake, account_id: string, value: unknown): Signed<CancelAll> {
  const requests = arrayOf(value, 'body', 1, LIMITS.cancel_all_items_max)
  const items = requests.map((one, index) => readCancelAll(one, requests.length === 1 ? '' : `[${index}]`))
  for (const item of items) if (item.symbol !== undefined) rulesFor(intake, item.symbol)
  const claims = items.map(({ signature, trading_key, ...item }) => {
    const symbol = item.symbol ?? ''
    const body = encodeCancelAll({ ...item, trading_key, venue: intake.venue, symbol })
    return { signature, body, trading_key }
  })
  return {
    claims,
    command: () => ({ kind: 'cancel_all', account_id, items }),
    body_and_signature: concatBytes(...claims.flatMap(({ body, signature }) => [body, signature])),
  }
}

/** Refuses form errors and `timeout_out_of_range`; `timeout_slots` 0 disarms. */
export function intakeDeadMan(intake: Intake, account_id: string, value: unknown): Signed<DeadMan> {
  const fields = objectOf(value, '', ['trading_key', 'cancel_nonce', 'timeout_slots', 'signature'])
  const form = cancelFields(fields, '')
  const timeout_slots = integerOf(fields['timeout_slots'], 'timeout_slots')
  if (timeout_slots > LIMITS.dead_man_slots_max) {
    throw refuseField('timeout_out_of_range', 'timeout_slots')
  }
  const body = encodeDeadMan({ ...form, venue: intake.venue, timeout_slots: BigInt(timeout_slots) })
  return {
    claims: [{ signature: form.signature, body, trading_key: form.trading_key }],
    command: () => ({ ...form, kind: 'dead_man', account_id, timeout_slots }),
    body_and_signature: concatBytes(body, form.signature),
  }
}

/** `at` prefixes field names when one request carries several bodies. */
function readCancelAll(value: unknown, at: string): CancelAllFields {
  const fields = objectOf(value, at, ['trading_key', 'cancel_nonce', 'signature'], ['symbol'])
  return {
    ...cancelFields(fields, at),
    symbol: fields['symbol'] === undefined ? undefined : symbolOf(fields['symbol'], path(at, 'symbol')),
  }
}

function cancelFields(fields: Body, at: string): Omit<CancelFields, 'order_id'> {
  return {
    trading_key: keyOf(fields['trading_key'], path(at, 'trading_key')),
    cancel_nonce: nonceOf(fields['cancel_nonce'], path(at, 'cancel_nonce')),
    signature: signatureOf(fields['signature'], path(at, 'signature')),
  }
}
