/** Encodings, money and texts: the fast ones decide as their definitions do; one spelling, exact arithmetic and fees. */

import { describe, expect, test } from 'bun:test'
import { sha256 as noble } from '@noble/hashes/sha2.js'
import bs58 from 'bs58'
import fc from 'fast-check'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { FIELD_MODULUS, fieldFromBytes, isFieldElement } from '../../protocol/field'
import { derOfPem, pemOfDer } from '../../protocol/pem'
import { REFUSALS, Refusal } from '../../protocol/refusals'
import { sha256 } from '../../protocol/sha256'
import { fractionIn } from '../../protocol/strict_json'
import { canonicalJson } from '../../protocol/tdx/app_compose'
import { feeUpTo, parseU64, quoteAmount, U64_MAX } from '../../protocol/units'

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

test('a character that is no digit makes the text none, wherever it stands', () => {
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

test('what is written is read back, block by block', () => {
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
