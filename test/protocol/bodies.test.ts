/** Canonical bodies equal the published vectors, decode to the same fields, and no signed string can be a Solana message. */

import { describe, expect, test } from 'bun:test'
import { createHash, hkdfSync } from 'node:crypto'
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
import { fromHex, toHex } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { deriveAccountKey, deriveTradingKey } from '../../protocol/notes/derive'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf, sign } from '../../protocol/sign'
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

test('a passphrase costs what the specification says', () => {
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
