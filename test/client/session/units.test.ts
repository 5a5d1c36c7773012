/** Exact money: the written amount is exactly the signed one, or is rejected. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import * as tacit from '../../../client/index'
import { U64_MAX } from '../../../protocol/units'

const INSTRUMENT = {
  base_decimals: 9,
  quote_decimals: 6,
  lot_size: '1000000',
  tick_size: '10000',
  min_amount: '1000000',
  max_amount: '1000000000000',
}

test('every amount of 64 bits is written and read back without a change', () => {
  const amount = fc.bigInt({ min: 0n, max: U64_MAX })
  fc.assert(
    fc.property(amount, fc.integer({ min: 0, max: 18 }), (units, decimals) => {
      expect(tacit.parseAmount(tacit.formatAmount(units, decimals), decimals)).toBe(units)
    }),
  )
})

test('a text without an exact value is refused, and never rounded', () => {
  const wrong = ['', '.', '1.', '.5', '01', '1e3', '-1', '+1', ' 1', '1,5', '0x1', 'NaN', '1_0', '0.0000001']
  for (const text of [...wrong, '18446744073709.551616', '9'.repeat(60)])
    expect(() => tacit.parseAmount(text, 6)).toThrow(tacit.InexactValue)
  expect(tacit.parseAmount('18446744073709.551615', 6)).toBe(U64_MAX)
  expect(tacit.parseAmount('1.50000000', 6)).toBe(1_500_000n)
  expect(tacit.formatAmount(1n, 0)).toBe('1')
})

test('prices keep to ticks, amounts to lots and to the limits of the instrument', () => {
  expect(tacit.parsePrice(INSTRUMENT, '150.25')).toBe(150_250_000n)
  expect(tacit.parsePrice({ ...INSTRUMENT, tick_size: '1' }, '0.000001')).toBe(1n)
  expect(tacit.formatPrice(INSTRUMENT, 150_250_000n)).toBe('150.25')
  expect(tacit.parseOrderAmount(INSTRUMENT, '0.001')).toBe(1_000_000n)
  for (const price of ['150.251', '0', '0.0', '150.2500001'])
    expect(() => tacit.parsePrice(INSTRUMENT, price)).toThrow(tacit.InexactValue)
  for (const amount of ['0.0011', '0', '1000.001', '0.0005'])
    expect(() => tacit.parseOrderAmount(INSTRUMENT, amount)).toThrow(tacit.InexactValue)
})
