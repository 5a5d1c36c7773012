/** Canonical bodies equal the published vectors, no signed string is a Solana message, and the strict signature rule holds. */

import { describe, expect, test } from 'bun:test'
import { createHash, hkdfSync } from 'node:crypto'
import { ed25519 } from '@noble/curves/ed25519.js'
import { isSignedByEd25519 } from '../../client/verify/verify_receipt'
import { loadNativeEd25519 } from '../../native/load_ed25519'
import {
  ADMISSION_BODY,
  accountIdOf,
  CREDENTIAL_BODY,
  PASSPHRASE_COST,
  REBIND_BODY,
  secretHash,
} from '../../protocol/bodies/account'
import {
  type AuctionExport,
  auctionHash,
  decodeExport,
  encodeExport,
  padExport,
  signedExportBytes,
  unpadExport,
} from '../../protocol/bodies/auction_export'
import { decodeReferencePrice, encodeReferencePrice } from '../../protocol/bodies/signed_calls'
import {
  BINDING_BODY,
  RECEIPT_BODY,
  STATEMENT_BODY,
  sealStatisticsRow,
  statisticsRowBody,
} from '../../protocol/bodies/statements'
import {
  CANCEL_ALL_BODY,
  CANCEL_BODY,
  DEAD_MAN_BODY,
  PLACE_BODY,
  RESHAPE_BODY,
  WITHDRAW_BODY,
} from '../../protocol/bodies/trading'
import { CodecError } from '../../protocol/byte_stream'
import { concatBytes, fromHex, toHex } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { deriveAccountKey, deriveTradingKey } from '../../protocol/notes/derive'
import { sha256 } from '../../protocol/sha256'
import { passesStrictRule, publicKeyOf, sign } from '../../protocol/sign'
import type { StatisticsPeriod } from '../../protocol/wire/public'
import vector from '../vectors/auction_export.json'
import vectors from '../vectors/bodies.json'
import periods from '../vectors/statistics.json'

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

const of = (byte: string, width: number) => fromHex(byte.repeat(width), width)!
const ascii = (text: string, width: number) =>
  Buffer.from(text)
    .toString('hex')
    .padEnd(2 * width, '0')
const venue = of('aa', 32)

test('an admission has 128 bytes, each field in its place', () => {
  const limits = { rate_capacity: 1, rate_refill_per_s: 2, orders_live_max: 258, keys_max: 4 }
  const body = ADMISSION_BODY.encode({
    venue,
    account_key: of('bb', 32),
    version: 5,
    state: 'closed',
    limits,
  })
  const numbers = ['0100000000000000', '0200000000000000', '0201000000000000', '0400000000000000']
  const head = [ascii('tacit/admission1', 16), 'aa'.repeat(32), 'bb'.repeat(32), '0500000000000000']
  expect(toHex(body)).toBe([...head, '0200000000000000', ...numbers].join(''))
  expect(body.length).toBe(128)
})

test('a credential has 240 bytes, each field in its place', () => {
  const body = CREDENTIAL_BODY.encode({
    venue,
    account_id: of('bb', 32),
    credential_id: of('cc', 16),
    version: 7,
    kind: 'revoke',
    secret_hash: of('dd', 32),
    passphrase_digest: of('ee', 32),
    salt: of('ff', 16),
    expiry_s: 9,
  })
  const expected = [
    ...[ascii('tacit/credential1', 24), 'aa'.repeat(32), 'bb'.repeat(32), 'cc'.repeat(16)],
    ...['0700000000000000', '0200000000000000', 'dd'.repeat(32), 'ee'.repeat(32), 'ff'.repeat(16)],
    ...['0900000000000000', '00'.repeat(32)],
  ]
  expect(toHex(body)).toBe(expected.join(''))
  expect(body.length).toBe(240)
})

test('a rebind has 128 bytes, each field in its place', () => {
  const fields = { venue, trading_key: of('bb', 32), account_id: of('cc', 32), cancel_nonce: 3n }
  const expected = [
    ...[ascii('tacit/rebind1', 16), 'aa'.repeat(32), 'bb'.repeat(32), 'cc'.repeat(32)],
    ...['0300000000000000', '00'.repeat(8)],
  ]
  expect(toHex(REBIND_BODY.encode(fields))).toBe(expected.join(''))
})

test('a passphrase costs as much as the specification says', () => {
  expect(PASSPHRASE_COST).toEqual({ m: 65_536, t: 3, p: 1, dkLen: 32 })
})

test('account ids, secret hashes and account keys are those of other programs', () => {
  const key = of('11', 32)
  expect(accountIdOf(key)).toBe(createHash('sha256').update('tacit/account/v1').update(key).digest('hex'))
  expect(toHex(secretHash('secret'))).toBe(createHash('sha256').update('secret').digest('hex'))
  const info = Buffer.concat([Buffer.from('account-key'), Buffer.alloc(8)])
  const derived = Buffer.from(hkdfSync('sha256', key, 'tacit/wallet/v1', info, 32)).toString('hex')
  expect(toHex(deriveAccountKey(key))).toBe(derived)
  expect(toHex(deriveTradingKey(key, 0))).not.toBe(derived)
})

const bytes = (hex: string) => fromHex(hex, hex.length / 2)!
const { close_head, seed, result_hash } = vector.fields
const FIELDS = {
  ...vector.fields,
  close_head: bytes(close_head),
  seed: bytes(seed),
  result_hash: bytes(result_hash),
} as AuctionExport
const SIGNED = {
  certificate: bytes(vector.certificate),
  certificate_signature: bytes(vector.certificate_signature),
  signature: bytes(vector.signature),
  content: bytes(vector.content),
}

test('contents, signed bytes, result hash and padded file equal the vector', () => {
  expect(toHex(encodeExport(FIELDS))).toBe(vector.content)
  expect(decodeExport(SIGNED.content)).toEqual(FIELDS)
  expect(toHex(signedExportBytes(bytes(vector.venue), BigInt(vector.epoch), SIGNED.content))).toBe(
    vector.signed,
  )
  expect(toHex(auctionHash({ ...FIELDS, ...vector.result }))).toBe(result_hash)
  const padded = padExport(SIGNED)
  expect([padded.length, toHex(sha256(padded))]).toEqual([vector.padded_bytes, vector.padded_sha256])
  expect(unpadExport(padded)).toEqual(SIGNED)
})

test('files grow in steps of four, and each export has one padding', () => {
  const orders = (count: number) =>
    Array.from({ length: count }, (_, at) => ({
      ...FIELDS.orders[0]!,
      order_id: at.toString(16).padStart(32, '0'),
    }))
  const padded = (count: number) =>
    padExport({ ...SIGNED, content: encodeExport({ ...FIELDS, orders: orders(count) }) })
  expect([0, 1, 24_900].map((count) => padded(count).length)).toEqual([2 ** 20, 2 ** 20, 2 ** 20])
  const large = padded(25_000)
  expect(large.length).toBe(2 ** 22)
  expect(decodeExport(unpadExport(large).content).orders).toHaveLength(25_000)
  const small = padExport(SIGNED)
  const longer = new Uint8Array(2 ** 22)
  longer.set(small)
  const dirty = small.slice()
  dirty[dirty.length - 1] = 1
  for (const other of [longer, dirty, small.slice(0, -1), small.slice(0, 200), new Uint8Array()])
    expect(() => unpadExport(other)).toThrow(CodecError)
})

test('a row, shown or withheld, has its bytes and its hash', () => {
  const venue = fromHex(periods.venue, 32)!
  const period = periods.period as StatisticsPeriod
  for (const { body, row } of periods.rows) {
    const { hash, ...rest } = row
    expect(toHex(statisticsRowBody(venue, periods.symbol, period, rest))).toBe(body)
    expect(sealStatisticsRow(venue, periods.symbol, period, rest)).toEqual(row)
    expect(hash).toHaveLength(64)
  }
})

const b = (hex: string) => fromHex(hex, hex.length / 2)!
const signer_seed = new Uint8Array(32).fill(7)
const key = publicKeyOf(signer_seed)
const message = new TextEncoder().encode('tacit/place/v1')
const signature = sign(signer_seed, message)

/** Little-endian encoding of an integer in 32 bytes. */
function le(value: bigint): Uint8Array {
  return b(value.toString(16).padStart(64, '0')).reverse()
}
const PRIME = 2n ** 255n - 19n

/** "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko), table of 12 speccheck cases: message, key, signature. */
const SMALL_ORDER_KEYS = [
  '0100000000000000000000000000000000000000000000000000000000000000',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0000000000000000000000000000000000000000000000000000000000000080',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
]

// Most of these keys have no known secret, so a failed verification would not show that the strict rule rejects them.
test('the strict rule by itself: bounds met exactly and missed by one', () => {
  const order = ed25519.Point.Fn.ORDER
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)]
  const signed = (y: bigint) => le(y | (1n << 255n))
  expect(passesStrictRule(signature, le(PRIME - 2n))).toBe(true)
  expect(passesStrictRule(signature, signed(PRIME - 2n))).toBe(true)
  for (let above = 0n; above < 19n; above++) {
    expect(passesStrictRule(signature, le(PRIME + above))).toBe(false)
    expect(passesStrictRule(signature, signed(PRIME + above))).toBe(false)
  }
  for (const point of SMALL_ORDER_KEYS.map(b)) {
    expect(passesStrictRule(signature, point)).toBe(false)
    expect(passesStrictRule(concatBytes(point, s), key)).toBe(false)
  }
  expect(passesStrictRule(concatBytes(r, le(order - 1n)), key)).toBe(true)
  for (const scalar of [order, order + 1n, 1n << 253n])
    expect(passesStrictRule(concatBytes(r, le(scalar)), key)).toBe(false)
})

const AVX2_ONLY = 'abm avx avx2 bmi1 bmi2 f16c fma movbe'
const fastest = loadNativeEd25519()
const compiled = [fastest, fastest && loadNativeEd25519(undefined, AVX2_ONLY)]
  .filter((one) => one !== undefined)
  .map(
    (verify): typeof verifySignature =>
      (signature, message, public_key) =>
        verify([{ signature, message, public_key }])[0]!,
  )

describe.each([
  ['the platform', verifySignature] as const,
  ...compiled.map((one, at) => [`library ${at}`, one] as const),
])('strict Ed25519 by %s', (_, verify) => {
  // A library that keeps decompressed keys has this one before it meets the others.
  test('a good signature is accepted', () => {
    expect(verify(signature, message, key)).toBe(true)
  })

  test('other widths are never accepted, a trailing byte included', () => {
    expect(verify(concatBytes(signature, Uint8Array.of(0)), message, key)).toBe(false)
    expect(verify(signature.subarray(0, 63), message, key)).toBe(false)
    expect(verify(signature, message, concatBytes(key, Uint8Array.of(0)))).toBe(false)
    expect(verify(signature, message, key.subarray(0, 31))).toBe(false)
  })

  test('the universal forgery (key = R = identity, S = 0) signs nothing', () => {
    const identity = b(SMALL_ORDER_KEYS[0]!)
    const forged = concatBytes(identity, new Uint8Array(32))
    expect(ed25519.verify(forged, message, identity)).toBe(true)
    expect(verify(forged, message, identity)).toBe(false)
  })

  test('a key or R of small order is refused with either sign bit', () => {
    for (const point of SMALL_ORDER_KEYS.map(b)) {
      expect(verify(signature, message, point)).toBe(false)
      expect(verify(concatBytes(point, signature.subarray(32)), message, key)).toBe(false)
    }
  })

  test('a key with y at or above the field prime is refused', () => {
    for (const y of [PRIME, PRIME + 1n, PRIME + 18n]) {
      expect(verify(signature, message, le(y))).toBe(false)
      expect(verify(signature, message, le(y | (1n << 255n)))).toBe(false)
    }
  })

  test('a key or R that is no point of the curve is refused', () => {
    let outside = 0
    for (let y = 2n; y < 66n; y++) {
      for (const point of [le(y), le(y | (1n << 255n)), le(PRIME - y)]) {
        try {
          ed25519.Point.fromBytes(point)
          continue
        } catch {
          outside++
        }
        expect(verify(signature, message, point)).toBe(false)
        expect(verify(concatBytes(point, signature.subarray(32)), message, key)).toBe(false)
      }
    }
    expect(outside).toBeGreaterThan(64)
  })

  test('S at or above the group order is refused (malleability)', () => {
    const order = ed25519.Point.Fn.ORDER
    const scalar = BigInt(`0x${Buffer.from(signature.subarray(32)).reverse().toString('hex')}`)
    const malleated = concatBytes(signature.subarray(0, 32), le(scalar + order))
    expect(verify(malleated, message, key)).toBe(false)
  })

  test('random flips never verify, and noble agrees on honest signatures', () => {
    for (let at = 0; at < 64; at++) {
      const flipped = signature.slice()
      flipped[at]! ^= 1 << (at % 8)
      expect(verify(flipped, message, key)).toBe(false)
    }
    for (let round = 0; round < 16; round++) {
      const each = new Uint8Array(32).fill(round + 1)
      const made = sign(each, message)
      expect(verify(made, message, publicKeyOf(each))).toBe(ed25519.verify(made, message, publicKeyOf(each)))
    }
  })
})

test('a good signature is accepted, and every flipped bit or other width is not', async () => {
  expect(await isSignedByEd25519(signature, message, key)).toBe(true)
  for (let at = 0; at < 64; at++)
    expect(await isSignedByEd25519(signature.with(at, signature[at]! ^ 1), message, key)).toBe(false)
  expect(await isSignedByEd25519(signature, message.slice(1), key)).toBe(false)
  for (const [one, other] of [
    [signature.slice(1), key],
    [concatBytes(signature, Uint8Array.of(0)), key],
    [signature, key.slice(1)],
    [signature, concatBytes(key, Uint8Array.of(0))],
  ] as const)
    expect(await isSignedByEd25519(one, message, other)).toBe(false)
})

test('forgeries that a platform accepts are rejected', async () => {
  const identity = fromHex(`01${'00'.repeat(31)}`, 32)!
  const universal = concatBytes(identity, new Uint8Array(32))
  expect(ed25519.verify(universal, message, identity)).toBe(true)
  expect(await isSignedByEd25519(universal, message, identity)).toBe(false)
  // y = 1 + the field prime, another spelling of the identity.
  const respelt = fromHex(`ee${'ff'.repeat(30)}7f`, 32)!
  const scalar = BigInt(`0x${Buffer.from(signature.slice(32)).reverse().toString('hex')}`)
  const high = (scalar + ed25519.Point.Fn.ORDER).toString(16).padStart(64, '0')
  const malleated = concatBytes(signature.slice(0, 32), fromHex(high, 32)!.reverse())
  for (const [one, by] of [
    [universal, identity],
    [universal, respelt],
    [malleated, key],
  ] as const) {
    expect(await isSignedByEd25519(one, message, by)).toBe(false)
    expect(verifySignature(one, message, by)).toBe(false)
  }
})
