/** The withdraw body, 200 bytes (protocol.md "Canonical signed bodies"). */
import { BodyReader, BodyWriter } from './body_layout'

const WITHDRAW_BYTES = 200
const DOMAIN = 'tacit/withdraw1'

type WithdrawBody = {
  venue: Uint8Array
  trading_key: Uint8Array
  commitment: Uint8Array
  /** Token account that receives `amount`. */
  destination: Uint8Array
  amount: bigint
  nonce: bigint
  expiry_slot: bigint
  /** Never zero: a refund takes its blinding from it too. */
  change_anchor: Uint8Array
}

export function encodeWithdraw(body: WithdrawBody): Uint8Array {
  return new BodyWriter(WITHDRAW_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.trading_key, 32)
    .bytes(body.commitment, 32)
    .bytes(body.destination, 32)
    .u64(body.amount)
    .u64(body.nonce)
    .u64(body.expiry_slot)
    .bytes(body.change_anchor, 32)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeWithdraw(bytes: Uint8Array): WithdrawBody {
  const reader = new BodyReader(bytes, WITHDRAW_BYTES)
  reader.domain(DOMAIN)
  return {
    venue: reader.bytes(32),
    trading_key: reader.bytes(32),
    commitment: reader.bytes(32),
    destination: reader.bytes(32),
    amount: reader.u64(),
    nonce: reader.u64(),
    expiry_slot: reader.u64(),
    change_anchor: reader.bytes(32),
  }
}
