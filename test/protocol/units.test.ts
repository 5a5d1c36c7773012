/** Money and text forms: one canonical spelling, exact arithmetic, fees that never exceed what was reserved. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { REFUSALS, Refusal } from '../../protocol/refusals'
import { feeUpTo, parseU64, quoteAmount, U64_MAX } from '../../protocol/units'

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
