/** Comparison under a mask, as Intel's identity documents state attributes. */

/** True when every bit that `mask` selects is in `value` as in `expected`, and `expected` has no other bit. */
export function matchesMasked(value: Uint8Array, mask: Uint8Array, expected: Uint8Array): boolean {
  if (value.length !== expected.length || mask.length !== expected.length) return false
  return value.every((byte, at) => (byte & mask[at]!) === expected[at])
}
