/** The forms of cancel, cancel-all and dead-man bodies. */
import { integerOf, keyOf, nonceOf, objectOf, path, signatureOf, symbolOf } from './form'

export type CancelForm = { trading_key: Uint8Array; cancel_nonce: bigint; signature: Uint8Array }
export type CancelAllForm = CancelForm & { symbol: string | undefined }
export type DeadManForm = CancelForm & { timeout_slots: number }

/** Reads a cancel body; the order it names comes from the path. */
export function readCancel(value: unknown): CancelForm {
  return cancelFields(objectOf(value, '', ['trading_key', 'cancel_nonce', 'signature']), '')
}

/** Reads one cancel-all body; `at` prefixes field names where several come in one request. */
export function readCancelAll(value: unknown, at: string): CancelAllForm {
  const body = objectOf(value, at, ['trading_key', 'cancel_nonce', 'signature'], ['symbol'])
  return {
    ...cancelFields(body, at),
    symbol: body['symbol'] === undefined ? undefined : symbolOf(body['symbol'], path(at, 'symbol')),
  }
}

/** Reads a dead-man body; `timeout_slots` 0 disarms. */
export function readDeadMan(value: unknown): DeadManForm {
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
