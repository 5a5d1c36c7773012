/** From cancel, cancel-all and dead-man requests to commands. */
import { encodeCancel, encodeCancelAll, encodeDeadMan } from '../../protocol/bodies/cancel'
import { concatBytes } from '../../protocol/bytes'
import type { Cancel, CancelAll, DeadMan } from '../commands'
import { LIMITS } from '../limits'
import { type Intake, rulesFor, type Signed } from './context'
import {
  arrayOf,
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

// The forms of cancel, cancel-all and dead-man bodies.

type CancelForm = { trading_key: Uint8Array; cancel_nonce: bigint; signature: Uint8Array }
type CancelAllForm = CancelForm & { symbol: string | undefined }
type DeadManForm = CancelForm & { timeout_slots: number }

/** Reads a cancel body; the order it names comes from the path. */
function readCancel(value: unknown): CancelForm {
  return cancelFields(objectOf(value, '', ['trading_key', 'cancel_nonce', 'signature']), '')
}

/** Reads one cancel-all body; `at` prefixes field names where several come in one request. */
function readCancelAll(value: unknown, at: string): CancelAllForm {
  const body = objectOf(value, at, ['trading_key', 'cancel_nonce', 'signature'], ['symbol'])
  return {
    ...cancelFields(body, at),
    symbol: body['symbol'] === undefined ? undefined : symbolOf(body['symbol'], path(at, 'symbol')),
  }
}

/** Reads a dead-man body; `timeout_slots` 0 disarms. */
function readDeadMan(value: unknown): DeadManForm {
  const body = objectOf(value, '', ['trading_key', 'cancel_nonce', 'timeout_slots', 'signature'])
  return { ...cancelFields(body, ''), timeout_slots: integerOf(body['timeout_slots'], 'timeout_slots') }
}

function cancelFields(body: ReturnType<typeof objectOf>, at: string): CancelForm {
  return {
    trading_key: keyOf(body['trading_key'], path(at, 'trading_key')),
    cancel_nonce: nonceOf(body['cancel_nonce'], path(at, 'cancel_nonce')),
    signature: signatureOf(body['signature'], path(at, 'signature')),
  }
}

// From a cancel request to its command.

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

// From cancel-all requests, one or up to 64 keys at once, to one command.

/** Refuses form faults and `instrument_unknown`; checks run over all items, stage by stage. */
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

// From a dead-man request to its command.

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
