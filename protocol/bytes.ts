/** Encodes, decodes, compares and joins byte arrays: hex and little-endian integers. */

const HEX_DIGITS = /^[0-9a-f]*$/
const HEX_OF_BYTE = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const encoder = new TextEncoder()

/** Absent in Node below 25 and in older browsers. */
type NativeHex = { toHex?: () => string }
const HEX_IS_NATIVE = 'toHex' in Uint8Array.prototype && 'fromHex' in Uint8Array

/** Lowercase hex without prefix. */
export function toHex(bytes: Uint8Array): string {
  if (HEX_IS_NATIVE) return (bytes as NativeHex).toHex!()
  let text = ''
  for (const byte of bytes) text += HEX_OF_BYTE[byte]
  return text
}

/** Decodes lowercase hex of exactly `width` bytes; undefined for any other text. */
export function fromHex(text: string, width: number): Uint8Array | undefined {
  if (text.length !== width * 2 || !HEX_DIGITS.test(text)) return undefined
  if (HEX_IS_NATIVE) return Uint8Array.fromHex(text)
  const bytes = new Uint8Array(width)
  for (let at = 0; at < width; at++) bytes[at] = Number.parseInt(text.slice(2 * at, 2 * at + 2), 16)
  return bytes
}

/** Decodes lowercase hex of any length, as guest agents send it; undefined for any other text. */
export function fromAnyHex(text: string): Uint8Array | undefined {
  return text.length % 2 === 0 ? fromHex(text, text.length / 2) : undefined
}

export function concatBytes(...parts: Uint8Array[]): Uint8Array {
  let length = 0
  for (const part of parts) length += part.length
  const joined = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

/** Copies byte by byte: for ids and hashes that is faster than creating a view for `set`. */
export function copyBytes(
  from: Uint8Array,
  from_at: number,
  to: Uint8Array,
  to_at: number,
  width: number,
): void {
  for (let at = 0; at < width; at++) to[to_at + at] = from[from_at + at]!
}

/** Equality in time that depends on the length only. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let at = 0; at < a.length; at++) difference |= a[at]! ^ b[at]!
  return difference === 0
}

/** Lexicographic order; a prefix sorts before any extension of it. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const difference = a[at]! - b[at]!
    if (difference !== 0) return difference
  }
  return a.length - b.length
}

export function isZero(bytes: Uint8Array): boolean {
  return isZeroRange(bytes, 0, bytes.length)
}

export function isZeroRange(bytes: Uint8Array, from: number, to: number): boolean {
  const end = Math.min(to, bytes.length)
  for (let at = from; at < end; at++) if (bytes[at] !== 0) return false
  return true
}

/** 8 bytes little-endian. @throws RangeError outside 0..2^64-1. */
export function u64Le(value: bigint | number): Uint8Array {
  const integer = BigInt(value)
  if (integer < 0n || integer > 0xffff_ffff_ffff_ffffn) throw new RangeError('value does not fit u64')
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, integer, true)
  return bytes
}

export function readU64Le(bytes: Uint8Array, at: number): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getBigUint64(at, true)
}

export function utf8(text: string): Uint8Array {
  return encoder.encode(text)
}
