/** Describes the withdraw body (protocol.md "Canonical signed bodies"). */
import { domain, fixed, struct, u64 } from '../codec'
import { sha256 } from '../sha256'

export const {
  encode: encodeWithdraw,
  decode: decodeWithdraw,
  shape: WITHDRAW_SHAPE,
} = struct({
  domain: domain('tacit/withdraw1'),
  venue: fixed(32),
  trading_key: fixed(32),
  commitment: fixed(32),
  /** Token account that receives `amount`. */
  destination: fixed(32),
  amount: u64,
  nonce: u64,
  expiry_slot: u64,
  /** Never zero: a refund takes its blinding from it too. */
  change_anchor: fixed(32),
})

/** The id of a withdrawal or reshape: the first 16 bytes of SHA-256 of its body. */
export function bodyId(body: Uint8Array): Uint8Array {
  return sha256(body).slice(0, 16)
}
