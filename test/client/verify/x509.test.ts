/** The DER reader takes one spelling of each value; who may issue certificates and revocation lists, rule by rule. */

import { describe, expect, test } from 'bun:test'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import fc from 'fast-check'
import {
  readRevocationList,
  requireCurrent,
  requireIssuedBy,
  requireListCurrent,
  requireListOf,
  requireNotRevoked,
} from '../../../client/verify/tdx/collateral'
import * as der from '../../../enclave/der'
import * as x509 from '../../../enclave/x509'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { readCertificate, readExtensions } from '../../../protocol/x509/certificate'
import {
  DerReader,
  isSignedBy,
  MalformedDer,
  openDer,
  rawSignature,
  readBitString,
  readBoolean,
  readNamedBits,
  readOid,
  readSerial,
  readSmallInteger,
  readTime,
  TAG,
} from '../../../protocol/x509/der'
import { issueRevocationList } from '../../../sandbox/enclave/authorities'
import { makePki, NOW_MS } from '../../kit/verify/development_pki'

const reader = (...bytes: number[]) => new DerReader(Uint8Array.from(bytes))
const time = (tag: number, text: string) => new DerReader(Uint8Array.of(tag, text.length, ...utf8(text)))

describe('structure', () => {
  test('a length in another than its shortest form is refused', () => {
    expect(openDer(Uint8Array.of(0x30, 0x00), TAG.sequence).done).toBe(true)
    for (const bytes of [
      [0x30, 0x81, 0x00],
      [0x30, 0x80, 0x00, 0x00],
      [0x30, 0x82, 0x00, 0x01, 0x00],
      [0x30, 0x84, 0, 0, 0, 0],
      [0x30, 0x01],
      [0x30],
      [],
      [0x30, 0x00, 0x00],
      [0x31, 0x00],
    ])
      expect(() => openDer(Uint8Array.from(bytes), TAG.sequence)).toThrow(MalformedDer)
  })
  test('an indefinite length is no length of 128', () => {
    expect(() => reader(0x30, 0x80, ...new Array(128).fill(0)).value(TAG.sequence)).toThrow(/length form/)
  })
  test('an element that ends within its tag, length or content is cut short', () => {
    for (const bytes of [[], [0x30], [0x30, 0x81], [0x30, 0x82, 0x01], [0x30, 0x02, 0x00]])
      expect(() => reader(...bytes).value(TAG.sequence)).toThrow(/cut short/)
  })
  test('long lengths are read', () => {
    for (const length of [127, 128, 255, 256, 65_535, 65_536]) {
      const encoded = der.octets(new Uint8Array(length))
      expect(new DerReader(encoded).value(TAG.octet_string).length).toBe(length)
    }
  })
})

describe('values', () => {
  test('integers are minimal and not negative', () => {
    expect(readSmallInteger(reader(2, 1, 0x7f))).toBe(127)
    expect(readSmallInteger(reader(2, 2, 0, 0x80))).toBe(128)
    expect(readSmallInteger(reader(2, 5, 0, 0xff, 0xff, 0xff, 0xff))).toBe(0xffff_ffff)
    for (const bytes of [
      [2, 0],
      [2, 1, 0x80],
      [2, 2, 0, 0x7f],
      [2, 2, 0xff, 0x80],
      [2, 5, 1, 0, 0, 0, 0],
    ])
      expect(() => readSmallInteger(reader(...bytes))).toThrow(MalformedDer)
    expect(() => readSerial(reader(2, 21, 1, ...new Array(20).fill(0)))).toThrow(MalformedDer)
  })
  test('booleans, bit strings and object identifiers have one form', () => {
    expect(readBoolean(reader(1, 1, 0xff))).toBe(true)
    expect(readBoolean(reader(1, 1, 0))).toBe(false)
    for (const bytes of [
      [1, 1, 1],
      [1, 0],
      [1, 2, 0xff, 0xff],
    ])
      expect(() => readBoolean(reader(...bytes))).toThrow(MalformedDer)
    expect(() => readBitString(reader(3, 2, 1, 0xfe))).toThrow(MalformedDer)
    expect(() => readBitString(reader(3, 0))).toThrow(MalformedDer)
    const bits = readNamedBits(reader(3, 2, 1, 0x06))
    expect([5, 6, 0, 40].map(bits)).toEqual([true, true, false, false])
    expect(() => readNamedBits(reader(3, 2, 1, 0x07))).toThrow(MalformedDer)
    expect([0, 7, 8].map(readNamedBits(reader(3, 1, 0)))).toEqual([false, false, false])
    for (const bytes of [
      [3, 0],
      [3, 1, 1],
      [3, 2, 8, 0],
    ])
      expect(() => readNamedBits(reader(...bytes))).toThrow(MalformedDer)
    expect(readOid(reader(6, 3, 0x55, 0x1d, 0x13))).toBe('2.5.29.19')
    for (const [bytes, oid] of [
      [[0x27], '0.39'],
      [[0x28], '1.0'],
      [[0x4f], '1.39'],
      [[0x50], '2.0'],
      [[0x81, 0x34], '2.100'],
    ] as const)
      expect(readOid(reader(6, bytes.length, ...bytes))).toBe(oid)
    expect(readOid(reader(6, 6, 0x2a, 0x8f, 0xff, 0xff, 0xff, 0x7f))).toBe('1.2.4294967295')
    expect(() => readOid(reader(6, 7, 0x2a, 0x81, 0x80, 0x80, 0x80, 0x80, 0x00))).toThrow(/too long/)
    for (const bytes of [
      [6, 0],
      [6, 1, 0x80],
      [6, 2, 0x80, 0x01],
      [6, 1, 0xff],
    ])
      expect(() => readOid(reader(...bytes))).toThrow(MalformedDer)
  })
  test('an extension occurs once', () => {
    const usage = [0x30, 8, 6, 3, 0x55, 0x1d, 0x0f, 4, 1, 0]
    expect([...readExtensions(reader(...usage)).keys()]).toEqual(['2.5.29.15'])
    expect(() => readExtensions(reader(...usage, ...usage))).toThrow(MalformedDer)
  })
  test('times exist and are written in full', () => {
    expect(readTime(time(TAG.utc_time, '260115120000Z'))).toBe(Date.UTC(2026, 0, 15, 12))
    expect(readTime(time(TAG.utc_time, '500101000000Z'))).toBe(Date.UTC(1950, 0, 1))
    expect(readTime(time(TAG.generalized_time, '20500101000000Z'))).toBe(Date.UTC(2050, 0, 1))
    for (const text of ['2601151200Z', '260115120000', '260115120000+0000', '261315120000Z', '260230120000Z'])
      expect(() => readTime(time(TAG.utc_time, text))).toThrow(MalformedDer)
    expect(() => readTime(time(TAG.generalized_time, '20260115120000.5Z'))).toThrow(MalformedDer)
    expect(() => readTime(time(TAG.octet_string, '260115120000Z'))).toThrow(MalformedDer)
  })
  test('a signature is two integers of at most 32 bytes', () => {
    expect(rawSignature(Uint8Array.of(0x30, 6, 2, 1, 1, 2, 1, 2)).at(-1)).toBe(2)
    for (const bytes of [
      [0x30, 3, 2, 1, 1],
      [0x30, 9, 2, 1, 1, 2, 1, 2, 2, 1, 3],
      [0x30, 6, 2, 1, 0xff, 2, 1, 1],
    ])
      expect(() => rawSignature(Uint8Array.from(bytes))).toThrow(MalformedDer)
  })
})

test('no bytes make the readers fail in another way than by refusing', () => {
  const { authorities } = makePki()
  const seed = 20_260_115
  const damaged = fc
    .tuple(fc.nat(authorities.pck.length - 1), fc.integer({ min: 1, max: 255 }))
    .map(([at, bits]) => {
      const bytes = authorities.pck.slice()
      bytes[at]! ^= bits
      return bytes
    })
  for (const read of [readCertificate, readRevocationList])
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 300 }), damaged), (bytes) => {
        try {
          read(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedDer)
        }
      }),
      { seed, numRuns: 300 },
    )
})

const DAY_MS = 86_400_000
const AUTHORITY = { common_name: 'authority', organization: 'Test' }
const OTHER = { common_name: 'other', organization: 'Test' }
const key: KeyObject = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const SIGNS = x509.keyUsage(5, 6)

function issue(extensions: x509.Extension[], subject = AUTHORITY) {
  return x509.issueCertificate({
    subject,
    issuer: AUTHORITY,
    subject_key: key,
    issuer_key: key,
    serial: Uint8Array.of(1),
    not_before_ms: NOW_MS - DAY_MS,
    not_after_ms: NOW_MS + DAY_MS,
    extensions,
  })
}
const certificate = (...args: Parameters<typeof issue>) => readCertificate(issue(...args))
const leaf = certificate([x509.basicConstraints(false)], OTHER)

test('an authority issues when it is one, may sign certificates and the chain is short enough', async () => {
  const judge = (extensions: x509.Extension[], authorities_below = 0) =>
    requireIssuedBy(leaf, certificate(extensions), authorities_below).then(
      () => 'accepted',
      (error: Error) => error.message,
    )
  expect(await judge([x509.basicConstraints(true), SIGNS])).toBe('accepted')
  expect(await judge([x509.basicConstraints(false), SIGNS])).toMatch(/no authority/)
  expect(await judge([SIGNS])).toMatch(/no authority/)
  expect(await judge([x509.basicConstraints(true), x509.keyUsage(0, 6)])).toMatch(/no authority/)
  expect(await judge([x509.basicConstraints(true)])).toMatch(/no authority/)
  expect(await judge([x509.basicConstraints(true, 0), SIGNS])).toBe('accepted')
  expect(await judge([x509.basicConstraints(true, 0), SIGNS], 1)).toMatch(/longer/)
  const named = certificate([x509.basicConstraints(true), SIGNS], OTHER)
  await expect(requireIssuedBy(leaf, named, 0)).rejects.toThrow(/another name/)
})

test('a certificate without basic constraints is that of a leaf', () => {
  expect(certificate([SIGNS]).basic_constraints).toEqual(leaf.basic_constraints)
  expect(leaf.basic_constraints).toEqual({ ca: false, path_length: undefined })
})

test('a common name with a character that could imitate another is refused', () => {
  const { common_name } = certificate([SIGNS], { ...OTHER, common_name: 'SGX Root CA' })
  expect(common_name).toBe('SGX Root CA')
  for (const odd of ['SGX Root CA\u0000', '\u00e9 SGX Root CA', 'SGX\u00a0Root CA', 'SGX Root C\u0410'])
    expect(() => certificate([SIGNS], { ...OTHER, common_name: odd })).toThrow(/not ASCII/)
})

test('a common name is a string of one of four types', () => {
  const bytes = issue([SIGNS], OTHER)
  const tag_at = Buffer.from(bytes).indexOf('other') - 2
  const taken = Array.from({ length: 256 }, (_, tag) => tag).filter((tag) => {
    try {
      return readCertificate(bytes.with(tag_at, tag)).common_name === 'other'
    } catch (error) {
      expect(error).toBeInstanceOf(MalformedDer)
      return false
    }
  })
  expect(taken).toEqual([0x0c, 0x13, 0x14, 0x16])
})

test('a key or signature of another width signs nothing', async () => {
  const { public_key, signed, signature } = certificate([SIGNS])
  expect(await isSignedBy(public_key, signed, signature)).toBe(true)
  for (const width of [0, 1, 32, 63]) {
    expect(await isSignedBy(public_key.slice(0, width), signed, signature)).toBe(false)
    expect(await isSignedBy(public_key, signed, signature.slice(0, width))).toBe(false)
  }
  expect(await isSignedBy(concatBytes(public_key, Uint8Array.of(0)), signed, signature)).toBe(false)
  expect(await isSignedBy(public_key, signed, concatBytes(signature, Uint8Array.of(0)))).toBe(false)
})

test('a certificate is valid from its first to its last millisecond', () => {
  const { not_before_ms, not_after_ms } = leaf
  for (const now_ms of [not_before_ms, not_after_ms]) expect(() => requireCurrent(leaf, now_ms)).not.toThrow()
  expect(() => requireCurrent(leaf, not_before_ms - 1)).toThrow(/not valid yet/)
  expect(() => requireCurrent(leaf, not_after_ms + 1)).toThrow(/has expired/)
})

const LIST = {
  issuer: AUTHORITY,
  issuer_key: key,
  this_update_ms: NOW_MS,
  next_update_ms: NOW_MS + DAY_MS,
  revoked_serials: [Uint8Array.of(1)],
}

test('a revocation list is current from its first to its last millisecond', () => {
  const list = readRevocationList(issueRevocationList(LIST))
  for (const now_ms of [list.this_update_ms, list.next_update_ms])
    expect(() => requireListCurrent(list, now_ms)).not.toThrow()
  expect(() => requireListCurrent(list, list.this_update_ms - 1)).toThrow(/from the future/)
  expect(() => requireListCurrent(list, list.next_update_ms + 1)).toThrow(/has expired/)
})

test('an authority that may not sign revocation lists signs none', async () => {
  const list = readRevocationList(issueRevocationList(LIST))
  const issuer = (...usages: (5 | 6)[]) =>
    certificate([x509.basicConstraints(true), x509.keyUsage(...usages)])
  expect(await requireListOf(list, issuer(5, 6))).toBeUndefined()
  await expect(requireListOf(list, issuer(5))).rejects.toThrow(/may not sign/)
})

test('a list speaks for its own issuer only', () => {
  const revoking = readRevocationList(issueRevocationList(LIST))
  expect(() => requireNotRevoked(leaf, revoking)).toThrow(/is revoked/)
  const elsewhere = readRevocationList(issueRevocationList({ ...LIST, issuer: OTHER, revoked_serials: [] }))
  expect(() => requireNotRevoked(leaf, elsewhere)).toThrow(/another issuer/)
})

test('a partial list, which a critical extension marks, is refused', () => {
  const list = (...extensions: x509.Extension[]) =>
    x509.signedSequence(
      der.sequence(
        der.smallInteger(1),
        x509.ECDSA_SHA256,
        x509.encodeName(AUTHORITY),
        der.time(NOW_MS),
        der.time(NOW_MS + DAY_MS),
        der.explicit(0, der.sequence(x509.extension('2.5.29.20', false, der.smallInteger(1)), ...extensions)),
      ),
      key,
    )
  expect(readRevocationList(list()).revoked.size).toBe(0)
  const delta = x509.extension('2.5.29.27', true, der.smallInteger(1))
  expect(() => readRevocationList(list(delta))).toThrow(/unknown critical/)
})
