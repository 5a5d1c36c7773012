/** Canonical bodies equal the published vectors, decode to the same fields, and no signed string can be a Solana message. */

import { describe, expect, test } from 'bun:test'
import { decodeReferencePrice, encodeReferencePrice } from '../../protocol/bodies/reference_price'
import { BINDING_BODY, RECEIPT_BODY, STATEMENT_BODY } from '../../protocol/bodies/statements'
import {
  CANCEL_ALL_BODY,
  CANCEL_BODY,
  DEAD_MAN_BODY,
  PLACE_BODY,
  RESHAPE_BODY,
  WITHDRAW_BODY,
} from '../../protocol/bodies/trading'
import { CodecError } from '../../protocol/byte_stream'
import { fromHex, toHex } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { publicKeyOf, sign } from '../../protocol/sign'
import vectors from '../vectors/bodies.json'

type Layout = { encode: (fields: never) => Uint8Array; decode: (bytes: Uint8Array) => object }
const LAYOUTS: Record<string, Layout> = {
  place: { encode: PLACE_BODY.encode, decode: PLACE_BODY.decode },
  cancel: { encode: CANCEL_BODY.encode, decode: CANCEL_BODY.decode },
  cancel_all: { encode: CANCEL_ALL_BODY.encode, decode: CANCEL_ALL_BODY.decode },
  dead_man: { encode: DEAD_MAN_BODY.encode, decode: DEAD_MAN_BODY.decode },
  withdraw: { encode: WITHDRAW_BODY.encode, decode: WITHDRAW_BODY.decode },
  reshape: { encode: RESHAPE_BODY.encode, decode: RESHAPE_BODY.decode },
  statement: { encode: STATEMENT_BODY.encode, decode: STATEMENT_BODY.decode },
  binding: { encode: BINDING_BODY.encode, decode: BINDING_BODY.decode },
  receipt: { encode: RECEIPT_BODY.encode, decode: RECEIPT_BODY.decode },
  reference_price: { encode: encodeReferencePrice, decode: decodeReferencePrice },
}
const TEXT = new Set(['symbol', 'side', 'type', 'source'])

/** JSON vectors hold bytes as hex and integers as decimals. */
function revive(fields: Record<string, unknown>): Record<string, unknown> {
  const one = (value: string) => fromHex(value, value.length / 2)
  const revived = Object.entries(fields).map(([name, value]) => {
    if (TEXT.has(name)) return [name, value]
    if (name === 'inputs') return [name, (value as string[]).map(one)]
    if (name === 'amounts') return [name, (value as string[]).map(BigInt)]
    const text = String(value)
    return [name, text.length >= 32 ? one(text) : BigInt(text)]
  })
  return Object.fromEntries(revived)
}

describe('canonical bodies', () => {
  for (const [at, vector] of vectors.entries()) {
    const layout = LAYOUTS[vector.name]!
    const fields = revive(vector.fields)
    const body = fromHex(vector.body, vector.body.length / 2)!

    test(`vector ${at} (${vector.name}) encodes to its bytes and decodes to its fields`, () => {
      expect(toHex(layout.encode(fields as never))).toBe(vector.body)
      expect(layout.decode(body)).toEqual(fields)
    })

    test(`vector ${at} (${vector.name}) carries the signature of its seed`, () => {
      const seed = fromHex(vector.seed, 32)!
      expect(toHex(sign(seed, body))).toBe(vector.signature)
      expect(verifySignature(fromHex(vector.signature, 64)!, body, publicKeyOf(seed))).toBe(true)
      body[20]! ^= 1
      expect(verifySignature(fromHex(vector.signature, 64)!, body, publicKeyOf(seed))).toBe(false)
      body[20]! ^= 1
    })

    test(`vector ${at} (${vector.name}) refuses another width or domain`, () => {
      expect(() => layout.decode(body.subarray(1))).toThrow(CodecError)
      const other = body.slice()
      other[0]! ^= 1
      expect(() => layout.decode(other)).toThrow(CodecError)
    })

    // A Solana message starts with its signature count (legacy) or with a version byte >= 0x80; every signed string
    // starts with the ASCII of its domain, so as a legacy message it would claim 116 required signers in 16 bytes.
    test(`vector ${at} (${vector.name}) cannot be a Solana message`, () => {
      expect(toHex(body.subarray(0, 6))).toBe(toHex(new TextEncoder().encode('tacit/')))
      expect(body[0]).toBeLessThan(0x80)
      const required_signers = body[0]!
      const accounts = body[3]!
      expect(accounts).toBeLessThan(required_signers)
    })
  }

  test('reserved bytes, unknown sides and dirty padding have no decoding', () => {
    const place = fromHex(vectors[0]!.body, 224)!
    for (const at of [111, 112, 113, 114, 119]) {
      const dirty = place.slice()
      dirty[at] = 0xff
      expect(() => PLACE_BODY.decode(dirty)).toThrow(CodecError)
    }
  })

  test('a reshape is a merge or split of 1 to 4 notes with ascending inputs', () => {
    const vector = vectors.find((v) => v.name === 'reshape')!
    const fields = revive(vector.fields) as Parameters<typeof RESHAPE_BODY.encode>[0]
    expect(() => RESHAPE_BODY.encode({ ...fields, inputs: [...fields.inputs].reverse() })).toThrow(RangeError)
    expect(() => RESHAPE_BODY.encode({ ...fields, inputs: fields.inputs.slice(0, 1) })).toThrow(RangeError)
    expect(() => RESHAPE_BODY.encode({ ...fields, amounts: [0n] })).toThrow(RangeError)
    expect(() => RESHAPE_BODY.encode({ ...fields, amounts: [] })).toThrow(RangeError)
  })
})
