/** Owns the sending of a record to the operator's listener. */
import type { AccountRecord } from '../../protocol/account_record'
import { utf8 } from '../../protocol/bytes'
import { operatorHeaders } from '../../protocol/operator_request'

const TARGET = '/accounts'
const CALL_LIFE_S = 60

/** Posts and returns the venue's answer. @throws Error with the status and the venue's words when it declines. */
export async function postRecord(
  record: AccountRecord,
  operator_seed: Uint8Array,
  url: string,
  venue: Uint8Array,
  now_ms: number,
): Promise<unknown> {
  const body = JSON.stringify(record)
  const expiry_unix_s = Math.floor(now_ms / 1000) + CALL_LIFE_S
  const call = {
    venue,
    nonce: BigInt(now_ms),
    expiry_unix_s,
    method: 'POST',
    target: TARGET,
    body: utf8(body),
  }
  const headers = { 'content-type': 'application/json', ...operatorHeaders(call, operator_seed) }
  const answer = await fetch(new URL(TARGET, url), { method: 'POST', headers, body })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the venue answered ${answer.status}: ${text}`)
  return JSON.parse(text)
}
