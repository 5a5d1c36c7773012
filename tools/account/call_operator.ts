/** Signs admission records and sends signed calls to the operator's listener. */
import { X509Certificate } from 'node:crypto'
import { InputFault, type Options } from '../../client/cli/command'
import { encodeBase58 } from '../../protocol/base58'
import { ADMISSION_BODY } from '../../protocol/bodies/account'
import { operatorHeaders } from '../../protocol/bodies/signed_calls'
import { toHex, utf8 } from '../../protocol/bytes'
import { sign } from '../../protocol/sign'
import type { AccountLimits, AdmissionRequest } from '../../protocol/wire/trading'

const CALL_LIFE_S = 60

/** Limits of an account for which the operator names none. */
export const DEFAULT_LIMITS: AccountLimits = {
  rate_capacity: 100,
  rate_refill_per_s: 50,
  orders_live_max: 10_000,
  keys_max: 10_000,
}

/** The operator's record of an account. `version` must exceed the known one. */
export function signAdmission(
  {
    account_key,
    ...terms
  }: { account_key: Uint8Array } & Pick<AdmissionRequest, 'version' | 'state' | 'limits'>,
  { operator_seed, venue }: Pick<OperatorTarget, 'operator_seed' | 'venue'>,
): AdmissionRequest {
  const signature = toHex(sign(operator_seed, ADMISSION_BODY.encode({ ...terms, account_key, venue })))
  return { account_key: encodeBase58(account_key), ...terms, signature }
}

/** The options that name an operator's listener. */
type TargetOptions = Options<'operator-key' | 'url' | 'venue' | 'ca'>

/** The target that the options name. @throws UsageFault, InputFault */
export function operatorTarget(options: TargetOptions): OperatorTarget {
  const ca = options.file('ca')
  // The runtime says of a wrong one only that the URL does not answer.
  if (ca !== undefined && !isCertificate(ca))
    throw new InputFault('the file of --ca holds no PEM certificate')
  return {
    url: options.text('url'),
    venue: options.hex32('venue'),
    operator_seed: options.seed('operator-key'),
    ca,
  }
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined
  } catch {
    return false
  }
}

/** The venue cannot take the call now, and has changed nothing. */
export class NotReady extends Error {}

export type OperatorTarget = {
  /** Base address of the listener. */
  url: string
  /** 32 bytes. */
  venue: Uint8Array
  operator_seed: Uint8Array
  /** PEM certificate that the listener must present; undefined: one that the system's authorities accept. */
  ca: string | undefined
}

type Call = { method: 'GET' | 'POST'; path: string; body: string | undefined }

/** Returns the response body. `now_ms` must increase with every call. @throws Error when the venue rejects it */
export async function callOperator(target: OperatorTarget, call: Call, now_ms: number): Promise<string> {
  return (await askOperator(target, call, now_ms)).text()
}

/** The same for a body that is no text. */
export async function askOperator(
  { ca, operator_seed, url, venue }: OperatorTarget,
  call: Call,
  now_ms: number,
): Promise<Response> {
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
  if (!answer.ok) {
    const text = await answer.text()
    const is_unready = answer.status === 503 && text.includes('"applied":"no"')
    throw new (is_unready ? NotReady : Error)(`the venue answered ${answer.status}: ${text}`)
  }
  return answer
}
