/** The export for the auditor equals its published vector; sizes say nothing of a small batch; other bytes have no decoding. */
import { expect, test } from 'bun:test'
import {
  type AuctionExport,
  decodeExport,
  encodeExport,
  padExport,
  signedExportBytes,
  unpadExport,
} from '../../protocol/bodies/auction_export'
import { auctionHash } from '../../protocol/bodies/auction_result'
import { CodecError } from '../../protocol/byte_stream'
import { fromHex, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import vector from '../vectors/auction_export.json'

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
