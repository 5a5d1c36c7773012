/** Layouts: each part encodes to its bytes, decodes to its value, and has one encoding only. */
import { describe, expect, test } from 'bun:test'
import { ByteReader, CodecError } from '../../protocol/byte_stream'
import { toHex } from '../../protocol/bytes'
import {
  array,
  ascii,
  blob,
  bool,
  type Codec,
  domain,
  fixed,
  hex,
  json,
  list,
  mapped,
  option,
  sized,
  struct,
  text,
  tryDecode,
  u8,
  u16,
  u32,
  u64,
  uint,
  union,
  word,
  zeros,
} from '../../protocol/codec'

const row = struct({
  domain: domain('tacit/row/v1'),
  kind: word(['none', 'some'], 1),
  reserved: zeros(3),
  amount: u64,
  name: ascii(8),
})
const shapes = union('kind', { dot: struct({}), line: struct({ length: u16 }) }, 1)

const CASES = [
  ['u8', u8, 255, 'ff'],
  ['u16', u16, 0x0102, '0201'],
  ['u32', u32, 0xfffefdfc, 'fcfdfeff'],
  ['uint', uint, 2 ** 53 - 1, 'ffffffffffff1f00'],
  ['u64', u64, 2n ** 64n - 1n, 'ffffffffffffffff'],
  ['u64 beyond 2^53', u64, 2n ** 53n + 1n, '0100000000002000'],
  ['text', text, 'aä', '030000000000000061c3a4'],
  ['blob', blob, Uint8Array.of(7), '010000000000000007'],
  ['bytes with a count of two bytes', sized(u16), Uint8Array.of(7, 8), '02000708'],
  ['bool', bool, true, '01'],
  ['fixed', fixed(2), Uint8Array.of(1, 2), '0102'],
  ['hex', hex(2), '0a0b', '0a0b'],
  ['ascii', ascii(4), 'ab', '61620000'],
  ['ascii of full width', ascii(2), 'ab', '6162'],
  ['word', word(['a', 'b']), 'b', '01'],
  ['option of none', option(u16), undefined, '00'],
  ['option of one', option(u16), 5, '010500'],
  ['array', array(u16, 2), [1, 2], '01000200'],
  ['list', list(u16, 2), [3], '01000000000000000300'],
  ['list with a count of one byte', list(u16, 2, u8), [3, 4], '0203000400'],
  ['json', json<object>(), { a: 1 }, '07000000000000007b2261223a317d'],
  [
    'struct',
    row,
    { kind: 'some', amount: 9n, name: 'x' },
    '74616369742f726f772f7631000000000200000009000000000000007800000000000000',
  ],
  ['union of an empty layout', shapes, { kind: 'dot' }, '01'],
  ['union', shapes, { kind: 'line', length: 5 }, '020500'],
]

describe('a layout', () => {
  for (const [name, codec, value, bytes] of CASES as unknown as [string, Codec<never>, never, string][]) {
    test(`${name} encodes to its bytes and decodes to its value`, () => {
      expect(toHex(codec.encode(value as never))).toBe(bytes)
      expect(codec.decode(Uint8Array.fromHex(bytes))).toEqual(value)
    })

    test(`${name} rejects missing and trailing bytes`, () => {
      expect(() => codec.decode(Uint8Array.fromHex(bytes).slice(0, -1))).toThrow(CodecError)
      expect(() => codec.decode(Uint8Array.fromHex(`${bytes}00`))).toThrow(CodecError)
    })
  }

  const foreign: [string, Codec<never>, string][] = [
    ['uint above 2^53', uint as never, '0000000000002000'],
    ['flag', bool as never, '02'],
    ['flag of an option', option(u8) as never, '0201'],
    ['word behind the list', word(['a', 'b'], 1) as never, '03'],
    ['word before the list', word(['a', 'b'], 1) as never, '00'],
    ['character', ascii(2) as never, '6180'],
    ['padding', ascii(3) as never, '610061'],
    ['UTF-8', text as never, '0100000000000000ff'],
    ['long UTF-8', text as never, `3100000000000000${'ff'.repeat(49)}`],
    ['domain', domain('a') as never, '62'.padEnd(32, '0')],
    ['reserved byte', zeros(2) as never, '0001'],
    ['count above the bound', list(u8, 1) as never, '02000000000000000101'],
    ['count without values', list(u8) as never, 'ffffffffffff1f00'],
    ['tag', shapes as never, '03'],
    ['tag before the first', shapes as never, '00'],
  ]
  for (const [name, codec, bytes] of foreign) {
    test(`rejects a ${name} that no value has`, () => {
      expect(() => codec.decode(Uint8Array.fromHex(bytes))).toThrow(CodecError)
    })
  }

  const inexpressible: [string, Codec<never>, unknown][] = [
    ['u8', u8 as never, 256],
    ['u16', u16 as never, -1],
    ['u32', u32 as never, 1.5],
    ['uint', uint as never, 2 ** 53],
    ['u64', u64 as never, 2n ** 64n],
    ['u64', u64 as never, -1n],
    ['fixed', fixed(2) as never, new Uint8Array(3)],
    ['hex', hex(2) as never, '0A0B'],
    ['ascii', ascii(2) as never, 'abc'],
    ['ascii', ascii(2) as never, 'ä'],
    ['ascii', ascii(2) as never, '\u0000'],
    ['word', word(['a']) as never, 'b'],
    ['array', array(u8, 2) as never, [1]],
    ['list', list(u8, 1) as never, [1, 2]],
    ['union', shapes as never, { kind: 'circle' }],
  ]
  for (const [name, codec, value] of inexpressible) {
    test(`${name} does not encode ${String(value)}`, () => {
      expect(() => codec.encode(value as never)).toThrow(RangeError)
    })
  }

  test('has a size and offsets where its fields have', () => {
    expect([row.size, row.offsetOf('domain'), row.offsetOf('amount'), row.offsetOf('name')]).toEqual([
      36, 0, 20, 28,
    ])
    expect([array(u16, 3).size, mapped(u8, String, Number).size, list(u8).size]).toEqual([6, 1, undefined])
    const open = struct({ head: u8, name: text, tail: u8 })
    expect([open.size, open.offsetOf('name')]).toEqual([undefined, 1])
    expect(() => open.offsetOf('tail')).toThrow(RangeError)
  })

  test('maps values both ways', () => {
    const decimal = mapped(u8, String, Number)
    expect(toHex(decimal.encode('7'))).toBe('07')
    expect(decimal.decode(Uint8Array.of(7))).toBe('7')
  })
})

test('reading untrusted bytes gives nothing for a foreign encoding, and hides no other error', () => {
  expect(tryDecode(() => u16.decode(Uint8Array.of(1, 0)))).toBe(1)
  expect(tryDecode(() => u16.decode(Uint8Array.of(1)))).toBeUndefined()
  expect(() => tryDecode(() => ascii(1).encode('ab'))).toThrow(RangeError)
})

test('a reader joins blocks, wherever a value is cut', () => {
  const bytes = row.encode({ kind: 'none', amount: 2n ** 60n, name: 'tacit' })
  for (let cut = 0; cut < bytes.length; cut++) {
    const blocks = [bytes.subarray(0, cut), new Uint8Array(0), bytes.subarray(cut)]
    const from = new ByteReader(new Uint8Array(0), 0, blocks.values())
    expect(row.read(from)).toEqual({ kind: 'none', amount: 2n ** 60n, name: 'tacit' })
    expect(() => from.done()).not.toThrow()
  }
})
