/** Defines the schema of every value in bodies, queries and answers (protocol.md "Values on the wire"). */

import { FormatRegistry, type StringOptions, type TSchema, Type } from '@sinclair/typebox'
import { FIELD_MODULUS } from '../../protocol/field'
import { ANCHORS_MAX } from '../../protocol/limits'
import type { RefusalCode } from '../../protocol/refusals'

export { type Static, type TSchema, Type as t } from '@sinclair/typebox'

const MODULUS_HEX = FIELD_MODULUS.toString(16).padStart(64, '0')
const U64_MAX_TEXT = '18446744073709551615'
const ZEROS = '0'.repeat(64)

// Lowercase hex and decimals of equal length compare as text like their values.
FormatRegistry.Set('u64', (text) => text.length < 20 || (text.length === 20 && text <= U64_MAX_TEXT))
FormatRegistry.Set('field-element', (text) => text < MODULUS_HEX && text !== ZEROS)
FormatRegistry.Set('order-id', (text) => text !== ZEROS.slice(0, 32))
FormatRegistry.Set('safe-integer', (text) => Number.isSafeInteger(Number(text)))

/** Assigns a refusal code to the failure of one keyword; the default is `field_invalid`. */
export type RefusalHint = { 'x-refusal': Partial<Record<'format' | 'items', RefusalCode>> }
const hint = (format: RefusalCode): RefusalHint => ({ 'x-refusal': { format } })

const hex = (bytes: number, options: StringOptions = {}) =>
  Type.String({ pattern: `^[0-9a-f]{${bytes * 2}}$`, ...options })
const base58 = (shortest: number, longest: number, options: StringOptions) =>
  Type.String({ pattern: `^[1-9A-HJ-NP-Za-km-z]{${shortest},${longest}}$`, ...options })

/** An object with exactly these fields. */
export const exact = <P extends Record<string, TSchema>>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })
/** Values are never coerced: `"5"` is not an integer. */
export const Integer = (minimum: number, maximum: number, description?: string) =>
  Type.Integer({ minimum, maximum, ...(description === undefined ? {} : { description }) })
export const Slot = Integer(0, Number.MAX_SAFE_INTEGER, 'Blockchain slot.')
export const Seq = Integer(0, Number.MAX_SAFE_INTEGER, 'Event number of the account.')
export const Count = Integer(0, Number.MAX_SAFE_INTEGER)
export const Milliseconds = Integer(0, Number.MAX_SAFE_INTEGER, 'Milliseconds.')

export const U64 = Type.String({
  pattern: '^(0|[1-9][0-9]{0,19})$',
  format: 'u64',
  description: 'Unsigned 64-bit integer as a canonical decimal string.',
})
export const Nonce = Type.String({
  pattern: '^[1-9][0-9]{0,19}$',
  format: 'u64',
  description: 'Replay-protection nonce from 1, strictly increasing per trading key.',
})
export const FieldElement = hex(32, {
  format: 'field-element',
  description: 'Non-zero element of the BN254 scalar field, 32 bytes big-endian, lowercase hex.',
  ...hint('field_element_invalid'),
})
export const OrderId = hex(16, {
  format: 'order-id',
  description: 'Client-chosen order id, 16 bytes, never zero.',
  ...hint('order_id_zero'),
})
export const CommandId = hex(16, { description: 'First 16 bytes of the SHA-256 of the canonical body.' })
export const Hash = hex(32, { description: '32 bytes, lowercase hex.' })
export const Bytes = Type.String({ pattern: '^([0-9a-f]{2})*$', description: 'Bytes, lowercase hex.' })
export const Signature = hex(64, { description: 'Ed25519 signature over the canonical body, lowercase hex.' })
export const PublicKey = base58(32, 44, { description: 'Ed25519 public key, base58.' })
export const Address = base58(32, 44, { description: 'Solana address, base58.' })
export const TransactionSignature = base58(64, 88, { description: 'Solana transaction signature, base58.' })

export const SymbolName = Type.String({ pattern: '^[A-Z0-9-]{1,16}$', description: 'Instrument symbol.' })
export const SideName = Type.Union([Type.Literal('buy'), Type.Literal('sell')])
export const OrderTypeName = Type.Union([Type.Literal('limit'), Type.Literal('ioc'), Type.Literal('fok')])
export const Anchors = Type.Array(hex(32), {
  minItems: 1,
  maxItems: ANCHORS_MAX,
  description: 'Continuation anchors: distinct, non-zero field elements.',
  'x-refusal': { items: 'anchors_invalid' },
})

/** Integers in a query are text; `integerOf` converts them. */
export const QueryInteger = (description: string) =>
  Type.String({ pattern: '^(0|[1-9][0-9]{0,15})$', format: 'safe-integer', description })
export const QueryLimit = (maximum: number, description: string) =>
  Type.String({ pattern: upTo(maximum), 'x-maximum': maximum, description })

/** Pattern of the decimals from 1 to `maximum`, a digit followed by zeros. */
function upTo(maximum: number): string {
  const digits = String(maximum)
  const lower = Array.from({ length: digits.length - 1 }, (_, index) => `[1-9][0-9]{${index}}`)
  const lead = Number(digits[0])
  if (lead > 1) lower.push(`[1-${lead - 1}][0-9]{${digits.length - 1}}`)
  return `^(${[...lower, digits].join('|')})$`
}
/** The value of a valid QueryInteger or QueryLimit. */
export function integerOf(text: string | undefined, absent: number): number {
  return text === undefined ? absent : Number(text)
}
