/** Describes the reshape body: merges or splits notes of one key and mint (protocol.md "Canonical signed bodies"). */
import { CodecError } from '../byte_stream'
import { compareBytes, isZero } from '../bytes'
import { array, type Codec, domain, fixed, mapped, struct, u64, type ValueOf } from '../codec'
import { RESHAPE_NOTES_MAX } from '../limits'

const RESHAPE = struct({
  domain: domain('tacit/reshape/v1'),
  venue: fixed(32),
  trading_key: fixed(32),
  /** 1 to 4 commitments, strictly ascending. */
  inputs: slots(fixed(32), new Uint8Array(32), isZero),
  /** 1 to 4 non-zero output amounts; their sum equals the inputs'. */
  amounts: slots(u64, 0n, (amount) => amount === 0n),
  anchor: fixed(32),
  nonce: u64,
  expiry_slot: u64,
})
type ReshapeBody = ValueOf<typeof RESHAPE>

/** @throws RangeError, CodecError when the shape is not a merge or split */
export const {
  encode: encodeReshape,
  decode: decodeReshape,
  shape: RESHAPE_SHAPE,
} = mapped(
  RESHAPE,
  (body) => {
    if (!isReshapeShape(body)) throw new CodecError('not a merge or split')
    return body
  },
  (body: ReshapeBody) => {
    if (!isReshapeShape(body)) throw new RangeError('not a merge or split')
    return body
  },
)

/** Up to 4 values; the slots behind them are zero. */
function slots<T>(inner: Codec<T>, zero: T, isUnused: (value: T) => boolean): Codec<T[]> {
  return mapped(
    array(inner, RESHAPE_NOTES_MAX),
    (values) => {
      const used = values.filter((value) => !isUnused(value))
      if (!values.slice(used.length).every(isUnused)) throw new CodecError('an unused slot is not zero')
      return used
    },
    (values) => [...values, ...new Array<T>(RESHAPE_NOTES_MAX - values.length).fill(zero)],
  )
}

/** True for the reshapes the layout can express: 1 to 4 ascending inputs, 1 to 4 non-zero outputs, not 1 to 1. */
function isReshapeShape({ inputs, amounts }: ReshapeBody): boolean {
  const counts = [inputs.length, amounts.length]
  if (!counts.every((count) => count >= 1 && count <= RESHAPE_NOTES_MAX)) return false
  if (inputs.length === 1 && amounts.length === 1) return false
  if (inputs.some(isZero) || amounts.some((amount) => amount <= 0n)) return false
  return inputs.every((input, at) => at === 0 || compareBytes(inputs[at - 1]!, input) < 0)
}
