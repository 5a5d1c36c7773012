/** Statements about places: one encoding, strict decoding. */
import { expect, test } from 'bun:test'
import {
  decodeLocation,
  encodeLocation,
  LOCATION_BYTES,
  type LocationBody,
} from '../../protocol/bodies/location'
import { CodecError } from '../../protocol/byte_stream'
import { toHex } from '../../protocol/bytes'

const BODY: LocationBody = {
  ppid: new Uint8Array(16).fill(0x11),
  instance_id: new Uint8Array(20).fill(0x22),
  level: 'inspected',
  issued_s: 0x0102n,
  expires_s: 0xffff_ffff_ffff_ffffn,
  site: 'eu-fra1 rack 12',
}
const VECTOR =
  '74616369742f6c6f636174696f6e2f31' +
  '11'.repeat(16) +
  '22'.repeat(20) +
  '02' +
  '0201000000000000' +
  'ff'.repeat(8) +
  `65752d66726131207261636b203132${'00'.repeat(17)}`

test('the layout is 101 bytes and reads back', () => {
  const bytes = encodeLocation(BODY)
  expect([bytes.length, toHex(bytes)]).toEqual([LOCATION_BYTES, VECTOR])
  expect(decodeLocation(bytes)).toEqual(BODY)
  expect(decodeLocation(encodeLocation({ ...BODY, level: 'registry', site: '' })).level).toBe('registry')
})

test('other widths, domains, levels and padding are rejected', () => {
  const bytes = encodeLocation(BODY)
  const odd = [bytes.slice(1), bytes.with(0, 0), bytes.with(52, 0), bytes.with(52, 3), bytes.with(100, 0x41)]
  for (const one of odd) expect(() => decodeLocation(one)).toThrow(CodecError)
  expect(() => encodeLocation({ ...BODY, site: 'x'.repeat(33) })).toThrow(RangeError)
})
