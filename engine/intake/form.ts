/** Parses single fields of a request body into bytes and integers; an invalid field throws a refusal that names it. */
import { decodeBase58 } from '../../protocol/base58'
import { fromHex, isZero } from '../../protocol/bytes'
import { isFieldElement } from '../../protocol/field'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { parseU64 } from '../../protocol/units'

/** A JSON object whose fields are not yet checked. */
export type Body = Readonly<Record<string, unknown>>

/** A refusal that names a field, never its value. */
export function refuseField(code: RefusalCode, field: string): Refusal {
  return new Refusal(code, { field })
}

/**
 * `value` as an object with all required and no undefined fields.
 * Refuses `field_invalid` (not an object), `field_unknown` and `field_missing`, in this order.
 */
export function objectOf(
  value: unknown,
  at: string,
  required: readonly string[],
  optional: readonly string[] = [],
): Body {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refuseField('field_invalid', at === '' ? 'body' : at)
  }
  const body = value as Body
  for (const name of Object.keys(body)) {
    // The name of an unknown field is the caller's text, so the answer does not repeat it.
    if (!required.includes(name) && !optional.includes(name)) {
      throw refuseField('field_unknown', at === '' ? 'body' : at)
    }
  }
  for (const name of required) {
    if (body[name] === undefined) throw refuseField('field_missing', path(at, name))
  }
  return body
}

/** The path of a field in the request: `replacement.amount`. */
export function path(at: string, name: string): string {
  return at === '' ? name : `${at}.${name}`
}

/** Lowercase hex of exactly `width` bytes. */
export function hexOf(value: unknown, field: string, width: number): Uint8Array {
  const bytes = typeof value === 'string' ? fromHex(value, width) : undefined
  if (bytes === undefined) throw refuseField('field_invalid', field)
  return bytes
}

/** A non-zero element of BN254's scalar field, 32 bytes big-endian. Refuses `field_element_invalid` outside it. */
export function elementOf(value: unknown, field: string): Uint8Array {
  const bytes = hexOf(value, field, 32)
  if (!isFieldElement(bytes) || isZero(bytes)) throw refuseField('field_element_invalid', field)
  return bytes
}

/** 32 bytes in canonical base58: keys, mints and token accounts. */
export function keyOf(value: unknown, field: string): Uint8Array {
  const bytes = typeof value === 'string' ? decodeBase58(value, 32) : undefined
  if (bytes === undefined) throw refuseField('field_invalid', field)
  return bytes
}

/** A canonical decimal string below 2^64. */
export function u64Of(value: unknown, field: string): bigint {
  const parsed = typeof value === 'string' ? parseU64(value) : undefined
  if (parsed === undefined) throw refuseField('field_invalid', field)
  return parsed
}

/** A nonce: u64 from 1. */
export function nonceOf(value: unknown, field: string): bigint {
  const nonce = u64Of(value, field)
  if (nonce === 0n) throw refuseField('field_invalid', field)
  return nonce
}

/** A slot, index or count: a JSON integer up to 2^53-1. */
export function integerOf(value: unknown, field: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0 || Object.is(value, -0)) {
    throw refuseField('field_invalid', field)
  }
  return value
}

/** An Ed25519 signature: 64 bytes of lowercase hex. */
export function signatureOf(value: unknown, field: string): Uint8Array {
  return hexOf(value, field, 64)
}

/** A client-chosen id: 16 bytes of lowercase hex, not all zero. Refuses `order_id_zero`. */
export function orderIdOf(value: unknown, field = 'order_id'): Uint8Array {
  const id = hexOf(value, field, 16)
  if (isZero(id)) throw refuseField('order_id_zero', field)
  return id
}

/** An instrument's name: 1 to 16 characters of `A-Z 0-9 -`. */
export function symbolOf(value: unknown, field: string): string {
  if (typeof value !== 'string' || !/^[A-Z0-9-]{1,16}$/.test(value)) throw refuseField('field_invalid', field)
  return value
}

/** One of the words of a closed list. */
export function wordOf<T extends string>(value: unknown, field: string, words: readonly T[]): T {
  if (!words.includes(value as T)) throw refuseField('field_invalid', field)
  return value as T
}

/** An array of `min` to `max` entries. */
export function arrayOf(value: unknown, field: string, min: number, max: number): readonly unknown[] {
  if (!Array.isArray(value) || value.length < min || value.length > max) {
    throw refuseField('field_invalid', field)
  }
  return value
}
