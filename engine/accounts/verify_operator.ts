/** Verifies calls to the operator's listener: signed by the operator key, used once and short-lived; metrics also by a token. */

import { decodeBase58 } from '../../protocol/base58'
import { OPERATOR_HEADERS, operatorRequestBytes, scrapeTokenBytes } from '../../protocol/bodies/signed_calls'
import { fromHex } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { OPERATOR_CALL_LIFE_MAX_S, SCRAPE_TOKEN_LIFE_MAX_S } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'
import { parseU64 } from '../../protocol/units'
import type { ClockPort } from '../ports'

export type OperatorCall = {
  method: string
  /** Path with query, as in the request line. */
  target: string
  body: Uint8Array
  /** A header by its lower-case name, or null. */
  header(name: string): string | null
}

/**
 * A check for the life of the process. A nonce must exceed the last accepted one, and the first one the start time in
 * unix milliseconds, so a call recorded before a restart is invalid after it. `GET /metrics` is also allowed by a scrape
 * token, which the operator key signed and which lives through restarts until its expiry.
 */
export function openOperatorCheck(options: {
  /** Ed25519 public key, base58. */
  operator_key: string
  /** 32 bytes. */
  venue: Uint8Array
  clock: ClockPort
}): (call: OperatorCall) => void {
  const { clock, venue } = options
  const operator_key = decodeBase58(options.operator_key, 32)
  if (operator_key === undefined) throw new RangeError('operator_key is not 32 bytes of base58')
  let nonce_last = BigInt(Math.floor(clock.unixMs()))
  const isScrape = (method: string, target: string) => method === 'GET' && target === '/metrics'
  return ({ body, header, method, target }) => {
    const bearer = /^Bearer ([1-9][0-9]{0,15})\.([0-9a-f]{128})$/.exec(header('authorization') ?? '')
    if (bearer !== null && isScrape(method, target)) {
      const expiry_unix_s = Number(bearer[1])
      const left_s = expiry_unix_s - clock.unixMs() / 1000
      if (!(left_s > 0 && left_s <= SCRAPE_TOKEN_LIFE_MAX_S)) throw refused()
      const signed = scrapeTokenBytes({ venue, expiry_unix_s })
      if (!verifySignature(fromHex(bearer[2]!, 64)!, signed, operator_key)) throw refused()
      return
    }
    const nonce = parseU64(header(OPERATOR_HEADERS.nonce) ?? '')
    const expiry = parseU64(header(OPERATOR_HEADERS.expiry) ?? '')
    const signature = fromHex(header(OPERATOR_HEADERS.signature) ?? '', 64)
    if (nonce === undefined || expiry === undefined || signature === undefined) throw refused()
    const left_s = Number(expiry) - clock.unixMs() / 1000
    if (!(left_s > 0 && left_s <= OPERATOR_CALL_LIFE_MAX_S) || nonce <= nonce_last) throw refused()
    const request = { venue, nonce, expiry_unix_s: Number(expiry), method, target, body }
    if (!verifySignature(signature, operatorRequestBytes(request), operator_key)) throw refused()
    nonce_last = nonce
  }
}

function refused(): Refusal {
  return new Refusal('operator_signature_invalid')
}
