/** Encodings, money and layouts: one canonical spelling of each value, and the fast ways decide as their definitions do. */

import { describe, expect, test } from 'bun:test'
import { sha256 as noble } from '@noble/hashes/sha2.js'
import bs58 from 'bs58'
import fc from 'fast-check'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { ByteReader, CodecError } from '../../protocol/byte_stream'
import { fromHex, toHex } from '../../protocol/bytes'
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
import { FIELD_MODULUS, fieldFromBytes, isFieldElement } from '../../protocol/notes/poseidon'
import { REFUSALS, Refusal } from '../../protocol/refusals'
import { sha256 } from '../../protocol/sha256'
import { DuplicateKey, fractionIn, strictJson } from '../../protocol/strict_json'
import { canonicalJson } from '../../protocol/tdx/venue_manifest'
import { feeUpTo, parseU64, quoteAmount, U64_MAX } from '../../protocol/units'
import { derOfPem, pemOfDer } from '../../protocol/x509/certificate'

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 })

test('base58 of every 32 bytes decodes to them, with any number of leading zeros', () => {
  fc.assert(
    fc.property(bytes32, fc.nat(32), (bytes, zeros) => {
      bytes.fill(0, 0, zeros)
      expect(decodeBase58(bs58.encode(bytes), 32)).toEqual(bytes)
    }),
  )
})

test('any text decodes to a width exactly if base58 has it as the text of so many bytes', () => {
  const digits = fc.array(fc.constantFrom(...ALPHABET, '0', 'O', ' ', 'é'), { maxLength: 48 })
  const nearly = fc.tuple(bytes32, fc.constantFrom('', '1', '11')).map(([b, ones]) => ones + bs58.encode(b))
  fc.assert(
    fc.property(
      fc.oneof(
        digits.map((list) => list.join('')),
        nearly,
      ),
      fc.constantFrom(31, 32, 33),
      (text, width) => {
        const valid = [...text].every((letter) => ALPHABET.includes(letter))
        const decoded = valid ? bs58.decode(text) : new Uint8Array(0)
        const expected = decoded.length === width ? Uint8Array.from(decoded) : undefined
        expect(decodeBase58(text, width)).toEqual(expected as Uint8Array)
      },
    ),
    { numRuns: 2_000 },
  )
})

test('any bytes of any length have the text the package gives, and come back', () => {
  for (let length = 0; length < 600; length++) {
    const bytes = crypto.getRandomValues(new Uint8Array(length))
    if (length % 3 === 0) bytes.fill(0, 0, length % 11)
    if (length % 50 === 7) bytes.fill(0xff)
    if (length % 50 === 9) bytes.fill(0)
    const text = bs58.encode(bytes)
    expect(encodeBase58(bytes)).toBe(text)
    expect(decodeBase58(text)).toEqual(bytes)
  }
})

test('the powers at which values are split, and their neighbours', () => {
  for (const digits of [8, 9, 10, 17, 18, 19, 35, 36, 37, 72, 73]) {
    for (const text of [`2${'1'.repeat(digits)}`, 'z'.repeat(digits), `1${'z'.repeat(digits)}`]) {
      expect(decodeBase58(text)).toEqual(new Uint8Array(bs58.decode(text)))
      expect(encodeBase58(bs58.decode(text))).toBe(text)
    }
  }
})

test('a character that is no digit makes the text invalid at any place', () => {
  for (const wrong of ['0', 'O', 'I', 'l', ' ', '\u0131']) {
    for (const text of [`${wrong}22222222222`, `2222222${wrong}2222`, `11${wrong}`]) {
      expect(decodeBase58(text)).toBeUndefined()
    }
  }
  expect(decodeBase58('')).toEqual(new Uint8Array(0))
})

test('hex is lowercase and of the exact width', () => {
  expect(toHex(Uint8Array.of(0, 10, 255))).toBe('000aff')
  expect(fromHex('000aff', 3)).toEqual(Uint8Array.of(0, 10, 255))
  for (const text of ['000aFF', '000af', '000aff00', '000ag0', '0x0aff', ''])
    expect(fromHex(text, 3)).toBeUndefined()
})

test('a field element is below the modulus, to the last bit', () => {
  const of = (value: bigint) => Uint8Array.fromHex(value.toString(16).padStart(64, '0'))
  for (const value of [0n, FIELD_MODULUS - 1n]) expect(isFieldElement(of(value))).toBe(true)
  for (const value of [FIELD_MODULUS, FIELD_MODULUS + 1n, 2n ** 256n - 1n])
    expect(isFieldElement(of(value))).toBe(false)
  fc.assert(fc.property(bytes32, (bytes) => isFieldElement(bytes) === fieldFromBytes(bytes) < FIELD_MODULUS))
  expect(isFieldElement(new Uint8Array(31))).toBe(false)
})

test('the native hash is the portable one', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 4 }), (parts) => {
      expect(sha256(...parts)).toEqual(noble(new Uint8Array(Buffer.concat(parts))))
    }),
  )
})

test('canonical JSON sorts the keys at every level, inside lists too', () => {
  const value = { b: [{ d: 1, c: [{ z: 'é', a: [] }] }], a: null }
  expect(canonicalJson(value)).toBe('{"a":null,"b":[{"c":[{"a":[],"z":"é"}],"d":1}]}')
})

test('numbers that JSON would round are found by their key, and nothing else is taken for one', () => {
  expect(fractionIn('{"a":120,"b":"1.5e3","c":[true,false],"d":{"e":"\\":1.5"}}')).toBeUndefined()
  for (const number of ['1.5', '1e2', '1E2', '120e+1', '-0.0'])
    expect([number, fractionIn(`{"a":12,"b":{"c":[7,${number}]}}`)]).toEqual([number, 'c'])
})

test('written bytes are read back, block by block', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { minLength: 1, maxLength: 4 }),
      (blocks) => {
        expect(derOfPem(blocks.map((der) => pemOfDer(der, 'CERTIFICATE')).join(''), 'CERTIFICATE')).toEqual(
          blocks,
        )
      },
    ),
  )
})

const BLOCK = pemOfDer(Uint8Array.of(1, 2, 3), 'CERTIFICATE')
test.each([
  ['nothing', ''],
  ['text before a block', `x${BLOCK}`],
  ['text behind a block', `${BLOCK}x`],
  ['another label', pemOfDer(Uint8Array.of(1), 'PRIVATE KEY')],
  ['a cut block', BLOCK.slice(0, -5)],
  ['characters outside base64', BLOCK.replace('AQID', 'AQ*D')],
])('%s is refused', (_, text) => {
  expect(derOfPem(text, 'CERTIFICATE')).toBeUndefined()
})

describe('forms', () => {
  test('u64 has one spelling', () => {
    expect(parseU64('0')).toBe(0n)
    expect(parseU64('18446744073709551615')).toBe(U64_MAX)
    for (const text of [
      '',
      '00',
      '01',
      '-1',
      '+1',
      '1e3',
      '1.0',
      ' 1',
      '0x1',
      '18446744073709551616',
      '1_000',
    ]) {
      expect(parseU64(text)).toBeUndefined()
    }
  })

  test('hex is lowercase and of exact width', () => {
    expect(fromHex('00ff', 2)).toEqual(Uint8Array.of(0, 255))
    for (const text of ['00FF', '0x0f', '00f', '00ff00', 'zz00']) expect(fromHex(text, 2)).toBeUndefined()
  })

  test('base58 has one spelling of each 32-byte value', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const text = encodeBase58(bytes)
        expect(decodeBase58(text, 32)).toEqual(bytes)
        expect(decodeBase58(`1${text}`, 32)).toBeUndefined()
        expect(decodeBase58(text, 31)).toBeUndefined()
      }),
    )
    for (const text of ['', '0', 'l', 'O', 'I', '1'.repeat(33), '1'.repeat(10_000)]) {
      expect(decodeBase58(text, 32)).toBeUndefined()
    }
  })
})

describe('money', () => {
  test('a quote amount is exact or refused', () => {
    expect(quoteAmount(1_500_000_000n, 142_370_000n, 9)).toBe(213_555_000n)
    expect(() => quoteAmount(1n, 1n, 9)).toThrow(RangeError)
  })

  test('fees of any partition of fills sum to the fee of the whole', () => {
    const parts = fc.array(fc.bigInt({ min: 1n, max: 10n ** 15n }), { minLength: 1, maxLength: 20 })
    fc.assert(
      fc.property(parts, fc.integer({ min: 0, max: 10_000 }), (fills, fee_bps) => {
        let traded = 0n
        let charged = 0n
        for (const quote of fills) {
          traded += quote
          const fee = feeUpTo(traded, fee_bps) - charged
          expect(fee >= 0n).toBe(true)
          charged += fee
        }
        expect(charged).toBe(feeUpTo(traded, fee_bps))
        expect(charged * 10_000n >= traded * BigInt(fee_bps)).toBe(true)
      }),
    )
  })
})

describe('refusals', () => {
  test('codes are unique words with a status the specification knows', () => {
    expect(new Set(REFUSALS.map((refusal) => refusal.code)).size).toBe(REFUSALS.length)
    for (const { code, status, message } of REFUSALS) {
      expect(code).toMatch(/^[a-z][a-z0-9_]*$/)
      expect([400, 401, 403, 404, 405, 409, 413, 415, 426, 429, 500, 503]).toContain(status)
      expect(message.endsWith('.')).toBe(true)
    }
  })

  test('only an identical resend was applied', () => {
    expect(
      REFUSALS.filter(({ code }) => new Refusal(code).applied === 'yes').map(({ code }) => code),
    ).toEqual(['order_exists'])
  })
})

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

test('a quote ends a string behind an even number of backslashes', () => {
  for (const text of ['{"a":"\\\\","b":1}', '{"a":"\\\\\\"","b":1}'])
    expect(strictJson(text)).toEqual(JSON.parse(text))
  expect(() => strictJson('{"a":"\\\\","a":1}')).toThrow(DuplicateKey)
})
