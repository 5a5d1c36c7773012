/** The reshape body, 288 bytes: merges or splits notes of one key and mint (protocol.md "Canonical signed bodies"). */

import { compareBytes, isZero } from '../bytes'
import { RESHAPE_NOTES_MAX } from '../limits'
import { BodyError, BodyReader, BodyWriter } from './body_layout'

const RESHAPE_BYTES = 288
const DOMAIN = 'tacit/reshape/v1'

type ReshapeBody = {
  venue: Uint8Array
  trading_key: Uint8Array
  /** 1 to 4 commitments, strictly ascending. */
  inputs: Uint8Array[]
  /** 1 to 4 non-zero output amounts; their sum equals the inputs'. */
  amounts: bigint[]
  anchor: Uint8Array
  nonce: bigint
  expiry_slot: bigint
}

/** True for the reshapes the layout can express: 1 to 4 ascending inputs, 1 to 4 non-zero outputs, not 1 to 1. */
function isReshapeShape(inputs: Uint8Array[], amounts: bigint[]): boolean {
  const counts = [inputs.length, amounts.length]
  if (!counts.every((count) => count >= 1 && count <= RESHAPE_NOTES_MAX)) return false
  if (inputs.length === 1 && amounts.length === 1) return false
  if (inputs.some(isZero) || amounts.some((amount) => amount <= 0n)) return false
  return inputs.every((input, at) => at === 0 || compareBytes(inputs[at - 1]!, input) < 0)
}

/** @throws RangeError when the shape is not a merge or split. */
export function encodeReshape(body: ReshapeBody): Uint8Array {
  if (!isReshapeShape(body.inputs, body.amounts)) throw new RangeError('not a merge or split')
  const writer = new BodyWriter(RESHAPE_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.trading_key, 32)
  for (const input of body.inputs) writer.bytes(input, 32)
  writer.zeros(32 * (RESHAPE_NOTES_MAX - body.inputs.length))
  for (const amount of body.amounts) writer.u64(amount)
  writer.zeros(8 * (RESHAPE_NOTES_MAX - body.amounts.length))
  return writer.bytes(body.anchor, 32).u64(body.nonce).u64(body.expiry_slot).done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeReshape(bytes: Uint8Array): ReshapeBody {
  const reader = new BodyReader(bytes, RESHAPE_BYTES)
  reader.domain(DOMAIN)
  const venue = reader.bytes(32)
  const trading_key = reader.bytes(32)
  const input_slots = Array.from({ length: RESHAPE_NOTES_MAX }, () => reader.bytes(32))
  const amount_slots = Array.from({ length: RESHAPE_NOTES_MAX }, () => reader.u64())
  const inputs = input_slots.filter((slot) => !isZero(slot))
  const amounts = amount_slots.filter((amount) => amount !== 0n)
  const padded =
    input_slots.slice(inputs.length).every(isZero) &&
    amount_slots.slice(amounts.length).every((a) => a === 0n)
  if (!padded || !isReshapeShape(inputs, amounts)) throw new BodyError('not a merge or split')
  return {
    venue,
    trading_key,
    inputs,
    amounts,
    anchor: reader.bytes(32),
    nonce: reader.u64(),
    expiry_slot: reader.u64(),
  }
}
