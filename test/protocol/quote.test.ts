/** The quote parser: exact structure, on real quotes and on everything near them. */
import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { concatBytes, fromAnyHex, toHex } from '../../protocol/bytes'
import { INTEL_ROOT_KEY } from '../../protocol/tdx/collateral'
import {
  attestationReportData,
  evidenceReportData,
  MalformedQuote,
  parseQuote,
} from '../../protocol/tdx/quote'

const QUOTES = join(import.meta.dir, '../../../shared/quotes')
const present = existsSync(QUOTES)
if (!present) console.log('skipped: no real quotes at ../shared/quotes')

const hardwareQuote = (): Uint8Array =>
  new Uint8Array(readFileSync(join(QUOTES, 'dcap-qvl-b0c06f/quote.bin')))
const STRUCTURE_BYTES = 4936

test.skipIf(!present)('a hardware quote is read field by field', () => {
  const bytes = hardwareQuote()
  const quote = parseQuote(bytes)
  const at = (offset: number, width: number) => toHex(bytes.slice(offset, offset + width))
  expect(quote.version).toBe(4)
  expect(toHex(quote.report.mr_td)).toBe(at(184, 48))
  expect(toHex(quote.report.mr_config_id)).toBe(at(232, 48))
  expect(quote.report.rtmr.map(toHex)).toEqual([at(376, 48), at(424, 48), at(472, 48), at(520, 48)])
  expect(toHex(quote.report.report_data)).toBe(at(568, 64))
  expect(toHex(quote.report.td_attributes)).toBe('0000001000000000')
  expect(toHex(quote.signed)).toBe(at(0, 632))
  expect(quote.pck_chain).toHaveLength(3)
  expect(toHex(quote.pck_chain[2]!)).toContain(toHex(INTEL_ROOT_KEY))
})

test.skipIf(!present)('a quote cut at any place is refused, but for its zero padding', () => {
  const bytes = hardwareQuote()
  expect(bytes).toHaveLength(STRUCTURE_BYTES + 70)
  for (let length = 0; length < STRUCTURE_BYTES; length += 13) {
    expect(() => parseQuote(bytes.slice(0, length))).toThrow(MalformedQuote)
  }
  expect(() => parseQuote(bytes.slice(0, STRUCTURE_BYTES - 1))).toThrow(MalformedQuote)
  expect(parseQuote(bytes.slice(0, STRUCTURE_BYTES)).version).toBe(4)
})

test.skipIf(!present)('anything but zeros behind a quote is refused', () => {
  const bytes = hardwareQuote()
  expect(() => parseQuote(concatBytes(bytes, Uint8Array.of(1)))).toThrow('followed by other bytes')
  bytes[STRUCTURE_BYTES] = 1
  expect(() => parseQuote(bytes)).toThrow('followed by other bytes')
})

test.skipIf(!present)('another version, key type, TEE or certification type is refused', () => {
  const changed = (offset: number, value: number) => {
    const bytes = hardwareQuote()
    bytes[offset] = value
    return () => parseQuote(bytes)
  }
  expect(changed(0, 3)).toThrow('version')
  expect(changed(0, 5)).toThrow(MalformedQuote)
  expect(changed(2, 3)).toThrow('not ECDSA P-256')
  expect(changed(4, 0)).toThrow('not TDX')
  expect(changed(632, 0xff)).toThrow(MalformedQuote)
  expect(changed(636 + 128, 5)).toThrow('not a QE report')
  expect(changed(1252, 6)).toThrow('no PCK certificate chain')
})

test.skipIf(!present)('a reserved byte that is not zero is refused', () => {
  for (const offset of [8, 11, 790, 817, 866, 897, 930, 1025, 1030, 1089]) {
    const bytes = hardwareQuote()
    bytes[offset] = 1
    expect(() => parseQuote(bytes)).toThrow('a reserved byte')
  }
})

test.skipIf(!present)(
  'a byte behind the certification data, or behind the chain inside it, is refused',
  () => {
    const longer = (...lengths: number[]) => {
      const bytes = hardwareQuote()
      for (const at of lengths)
        new DataView(bytes.buffer).setUint32(at, bytes[at]! + bytes[at + 1]! * 256 + 1, true)
      return () => parseQuote(bytes)
    }
    expect(longer(632)).toThrow('the signature data: bytes follow')
    expect(longer(632, 766)).toThrow('the QE certification data: bytes follow')
  },
)

test.skipIf(!present)('version 5 carries the same body behind a descriptor of its type and length', () => {
  const bytes = hardwareQuote()
  const version_5 = (type: number, length: number, more: Uint8Array) => {
    const descriptor = Uint8Array.of(type, 0, length & 0xff, length >> 8, 0, 0)
    const header = bytes.slice(0, 48)
    header[0] = 5
    return concatBytes(header, descriptor, bytes.slice(48, 632), more, bytes.slice(632))
  }
  const td_10 = parseQuote(version_5(2, 584, new Uint8Array()))
  expect(td_10.report).toEqual(parseQuote(bytes).report)
  expect(td_10.signed).toHaveLength(48 + 6 + 584)
  const td_15 = parseQuote(version_5(3, 648, new Uint8Array(64).fill(9)))
  expect(td_15.report.mr_service_td_15).toEqual(new Uint8Array(48).fill(9))
  expect(() => parseQuote(version_5(3, 584, new Uint8Array()))).toThrow('another length')
  expect(() => parseQuote(version_5(2, 648, new Uint8Array()))).toThrow('another length')
  expect(() => parseQuote(version_5(1, 584, new Uint8Array()))).toThrow('not a TD report')
})

test('random bytes never parse and never fail in another way', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 6000 }), (bytes) => {
      expect(() => parseQuote(bytes)).toThrow(MalformedQuote)
    }),
    { numRuns: 100, verbose: 1 },
  )
})

test('report_data is a nonce and the hash of a key, 32 bytes each', () => {
  const bytes = new Uint8Array(32)
  const hash = fromAnyHex('66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925')!
  expect(attestationReportData(bytes.fill(0), bytes)).toEqual(concatBytes(bytes, hash))
  for (const wrong of [new Uint8Array(31), new Uint8Array(33)]) {
    expect(() => attestationReportData(wrong, bytes)).toThrow(RangeError)
    expect(() => attestationReportData(bytes, wrong)).toThrow(RangeError)
  }
})

test('no nonce can make attestation report_data look like evidence', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      fc.uint8Array({ maxLength: 200 }),
      (nonce, sums) => {
        const evidence = evidenceReportData(sums)
        expect(evidence).toHaveLength(64)
        expect(attestationReportData(nonce, new Uint8Array(32).fill(3))).not.toEqual(evidence)
        expect(attestationReportData(evidence.slice(0, 32), nonce)).not.toEqual(evidence)
      },
    ),
  )
})
