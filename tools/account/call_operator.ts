/** Owns a signed call to the operator's listener. */
import { utf8 } from '../../protocol/bytes'
import { operatorHeaders } from '../../protocol/operator_request'

const CALL_LIFE_S = 60

export type OperatorTarget = {
  /** Base address of the listener. */
  url: string
  /** 32 bytes. */
  venue: Uint8Array
  operator_seed: Uint8Array
  /** PEM certificate the listener must show; without it the system's authorities decide. */
  ca: string | undefined
}

/** Returns the body of the answer. `now_ms` must rise from call to call. @throws Error when the venue declines. */
export async function callOperator(
  { ca, operator_seed, url, venue }: OperatorTarget,
  call: { method: 'GET' | 'POST'; path: string; body: string | undefined },
  now_ms: number,
): Promise<string> {
  const { body, method, path } = call
  const signed = {
    venue,
    nonce: BigInt(now_ms),
    expiry_unix_s: Math.floor(now_ms / 1000) + CALL_LIFE_S,
    method,
    target: path,
    body: utf8(body ?? ''),
  }
  const headers = { 'content-type': 'application/json', ...operatorHeaders(signed, operator_seed) }
  if (!URL.canParse(path, url) || !/^https?:/.test(url))
    throw new Error(`${url} is not the URL of a listener`)
  const answer = await fetch(new URL(path, url), {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
    ...(ca === undefined ? {} : { tls: { ca } }),
  }).catch((error: Error) => {
    const untrusted = /certificate/i.test(error.message)
    const hint = untrusted ? ': name its certificate with --ca' : ''
    throw new Error(`${url} did not answer (${error.message})${hint}`)
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the venue answered ${answer.status}: ${text}`)
  return text
}
