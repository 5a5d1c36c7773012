/** The operator's settings: every fault is named, and at once. */

import { expect, test } from 'bun:test'
import { checkConfig, type EngineConfig } from '../../engine/config'
import { LIMITS } from '../../engine/limits'
import { testConfig } from '../kit/venue/open_test_venue'

const good = testConfig('/data')
type Instrument = EngineConfig['instruments'][number]
const withInstrument = (change: Partial<Instrument>): EngineConfig => ({
  ...good,
  instruments: [{ ...good.instruments[0]!, ...change }],
})

test('a usable configuration has no fault', () => {
  expect(checkConfig(good)).toEqual([])
})

test('all faults are named together', () => {
  const faults = checkConfig({ ...good, data_dir: '', fee_key: 'x', token_ttl_s: 1, instruments: [] })
  expect(faults).toHaveLength(4)
  for (const setting of ['data_dir', 'fee_key', 'token_ttl_s', 'instruments']) {
    expect(faults.some((fault) => fault.startsWith(setting))).toBe(true)
  }
})

const faulty: [string, Partial<Instrument>, string][] = [
  ['a value that would be rounded', { tick_size: '1' }, 'tick_size'],
  ['side totals beyond exact integers', { max_amount: '18446744073709000000' }, 'max_amount'],
  ['a minimum of nothing', { min_amount: '0' }, 'min_amount'],
  ['a minimum off lot', { min_amount: '1000001' }, 'min_amount'],
  ['a minimum above the maximum', { min_amount: '2000000000000' }, 'max_amount'],
  ['a reference off tick', { initial_reference: '100000001' }, 'initial_reference'],
  ['a symbol in lower case', { symbol: 'sol' }, 'symbol'],
  ['a mint that is not configured', { base_mint: good.fee_key }, 'base_mint'],
  ['equal mints', { quote_mint: good.instruments[0]!.base_mint }, 'quote_mint'],
  ['other decimals than the mint', { base_decimals: 8 }, 'base_mint'],
  ['no slot between batches', { batch_slots: 0 }, 'batch_slots'],
  ['an oracle rule without an oracle', { price_rule: 'ref' }, 'price_rule'],
]
for (const [what, change, setting] of faulty) {
  test(`${what} is refused and names ${setting}`, () => {
    const faults = checkConfig(withInstrument(change))
    expect(faults.some((fault) => fault.startsWith(`instruments[0].${setting}`))).toBe(true)
  })
}

type Mint = EngineConfig['mints'][number]
const faulty_mints: [string, Partial<Mint>, string][] = [
  ['a mint that is no address', { mint: 'x' }, 'mint'],
  ['more decimals than a mint has', { decimals: 256 }, 'decimals'],
  ['a smallest withdrawal of nothing', { min_withdraw: '0' }, 'min_withdraw'],
  ['a smallest withdrawal that is no number', { min_withdraw: '1.5' }, 'min_withdraw'],
  ['a fee that is no number', { withdraw_fee: '' }, 'withdraw_fee'],
]
for (const [what, change, setting] of faulty_mints) {
  test(`${what} is refused and names ${setting}`, () => {
    const [first, ...others] = good.mints
    const faults = checkConfig({ ...good, mints: [{ ...first!, ...change }, ...others] })
    expect(faults.some((fault) => fault.startsWith(`mints[0].${setting}: `))).toBe(true)
  })
}

test('the number of instruments is bounded, and the bound is named', () => {
  const listed = (count: number): EngineConfig => ({
    ...good,
    instruments: Array.from({ length: count }, (_, at) => ({ ...good.instruments[0]!, symbol: `S-${at}` })),
  })
  expect(checkConfig(listed(LIMITS.instruments_max))).toEqual([])
  const bounds = `instruments: 1 to ${LIMITS.instruments_max} are required`
  expect(checkConfig(listed(LIMITS.instruments_max + 1))).toEqual([bounds])
  expect(checkConfig(listed(0))).toEqual([bounds])
})

test('names are unique', () => {
  const twice = { ...good, instruments: [good.instruments[0]!, good.instruments[0]!] }
  expect(checkConfig(twice)).toEqual(['instruments: SOL-USDC is named twice'])
})
