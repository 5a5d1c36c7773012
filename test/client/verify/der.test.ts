/** The DER reader takes one spelling of each value and no other. */

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readRevocationList } from '../../../client/verify/x509/chain'
import * as der from '../../../enclave/der'
import { utf8 } from '../../../protocol/bytes'
import { readCertificate } from '../../../protocol/x509/certificate'
import {
  DerReader,
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
import { makePki } from '../../kit/verify/development_pki'

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
