/** Encodes DER (ITU-T X.690): the types used in certificates and revocation lists. */

import { concatBytes, utf8 } from '../protocol/bytes'

/** Tag, length, content. */
function tlv(tag: number, ...content: Uint8Array[]): Uint8Array {
  const body = concatBytes(...content)
  const { length } = body
  if (length < 0x80) return concatBytes(Uint8Array.of(tag, length), body)
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return concatBytes(Uint8Array.of(tag, 0x80 | bytes.length, ...bytes), body)
}
export const sequence = (...items: Uint8Array[]): Uint8Array => tlv(0x30, ...items)
export const set = (...items: Uint8Array[]): Uint8Array => tlv(0x31, ...items)
export const octets = (bytes: Uint8Array): Uint8Array => tlv(0x04, bytes)
export const bits = (bytes: Uint8Array, unused = 0): Uint8Array => tlv(0x03, Uint8Array.of(unused), bytes)
export const boolean = (value: boolean): Uint8Array => tlv(0x01, Uint8Array.of(value ? 0xff : 0))
export const enumerated = (value: number): Uint8Array => tlv(0x0a, Uint8Array.of(value))
export const text = (value: string): Uint8Array => tlv(0x0c, utf8(value))
export const explicit = (number: number, ...content: Uint8Array[]): Uint8Array =>
  tlv(0xa0 | number, ...content)
export const implicit = (number: number, content: Uint8Array): Uint8Array => tlv(0x80 | number, content)

/** Non-negative INTEGER from at least one big-endian byte: leading zeros removed, one added where the sign bit would be set. */
export function integer(bytes: Uint8Array): Uint8Array {
  let at = 0
  while (at < bytes.length - 1 && bytes[at] === 0) at++
  const value = bytes.subarray(at)
  return tlv(0x02, value[0]! >= 0x80 ? concatBytes(Uint8Array.of(0), value) : value)
}
export const smallInteger = (value: number): Uint8Array => integer(Uint8Array.of(value >> 8, value & 0xff))

/** OBJECT IDENTIFIER from dotted decimals. */
export function oid(dotted: string): Uint8Array {
  const [first, second, ...rest] = dotted.split('.').map(Number)
  const bytes = [first! * 40 + second!]
  for (const arc of rest) {
    const groups = [arc & 0x7f]
    for (let left = arc >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return tlv(0x06, Uint8Array.from(bytes))
}

/** UTCTime up to 2049, GeneralizedTime after (RFC 5280 section 4.1.2.5), whole seconds. */
export function time(unix_ms: number): Uint8Array {
  const date = new Date(unix_ms)
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, '')
  return date.getUTCFullYear() < 2050 ? tlv(0x17, utf8(digits.slice(2))) : tlv(0x18, utf8(digits))
}
