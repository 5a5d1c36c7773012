/** Refusals of form and of instrument rules, with the field where one is named. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Arrivals, verifyAtOnce } from '../../../engine/intake/arrivals'
import { checkInstrumentRules } from '../../../engine/intake/context'
import { LIMITS } from '../../../engine/limits'
import { ED25519_VECTORS } from '../../../native/ed25519_vectors'
import { toHex } from '../../../protocol/bytes'
import { FIELD_MODULUS } from '../../../protocol/notes/poseidon'
import { Refusal } from '../../../protocol/refusals'
import { feeUpTo, U64_MAX } from '../../../protocol/units'
import { type Case, RefusalSite, testCases } from '../../kit/venue/refusal_site'
import { element } from '../../kit/venue/trader'

const here = new RefusalSite()
beforeAll(() => here.prepare())
afterAll(() => here.site.remove())

const beyond_field = FIELD_MODULUS.toString(16).padStart(64, '0')

const form: Case[] = [
  ['a missing field', 'field_missing', () => here.without('amount'), 'amount'],
  ['a missing signature', 'field_missing', () => here.without('signature'), 'signature'],
  ['an undefined field', 'field_unknown', () => here.bent({ leverage: '3' })],
  ['an upper-case id', 'field_invalid', () => here.bent({ order_id: 'AB'.repeat(16) }), 'order_id'],
  ['an id of another width', 'field_invalid', () => here.bent({ order_id: 'ab' }), 'order_id'],
  ['a number as amount', 'field_invalid', () => here.bent({ amount: 1000000 }), 'amount'],
  ['an amount with a leading zero', 'field_invalid', () => here.bent({ amount: '01' }), 'amount'],
  ['an amount of 2^64', 'field_invalid', () => here.bent({ amount: '18446744073709551616' }), 'amount'],
  ['a slot as text', 'field_invalid', () => here.bent({ expiry_slot: '200' }), 'expiry_slot'],
  ['a fraction of a slot', 'field_invalid', () => here.bent({ expiry_slot: 200.5 }), 'expiry_slot'],
  ['a nonce of zero', 'field_invalid', () => here.bent({ nonce: '0' }), 'nonce'],
  ['a side that is none', 'field_invalid', () => here.bent({ side: 'short' }), 'side'],
  ['a key of another width', 'field_invalid', () => here.bent({ trading_key: 'abc' }), 'trading_key'],
  ['a short signature', 'field_invalid', () => here.bent({ signature: 'ab'.repeat(63) }), 'signature'],
  [
    'a collateral beyond the field',
    'field_element_invalid',
    () => here.bent({ collateral_commitment: beyond_field }),
    'collateral_commitment',
  ],
  [
    'an opening without blinding',
    'field_missing',
    () => here.bent({ opening: { mint: here.money.opening.mint, amount: '1' } }),
    'opening.blinding',
  ],
  ['an order id of zeros', 'order_id_zero', () => here.bent({ order_id: '0'.repeat(32) }), 'order_id'],
  ['no anchors', 'anchors_invalid', () => here.bent({ continuation_anchors: [] }), 'continuation_anchors'],
  [
    'seventeen anchors',
    'anchors_invalid',
    () => here.bent({ continuation_anchors: Array.from({ length: 17 }, () => toHex(element())) }),
  ],
  [
    'a repeated anchor',
    'anchors_invalid',
    () => here.bent({ continuation_anchors: Array(2).fill(toHex(element())) }),
  ],
  [
    'an anchor beyond the field',
    'anchors_invalid',
    () => here.bent({ continuation_anchors: [beyond_field] }),
  ],
]

const rules: Case[] = [
  ['an unknown symbol', 'instrument_unknown', () => here.place({ symbol: 'NONE' })],
  ['an amount below the minimum', 'amount_out_of_range', () => here.place({ amount: '999999' }), 'amount'],
  ['an amount above the maximum', 'amount_out_of_range', () => here.place({ amount: '1000001000000' })],
  ['an amount off lot', 'amount_off_lot', () => here.place({ amount: '1000001' })],
  ['a price of zero', 'price_zero', () => here.place({ price_limit: '0' })],
  ['a price off tick', 'price_off_tick', () => here.place({ price_limit: '100000001' })],
  [
    'a value beyond u64',
    'value_overflow',
    () => here.place({ amount: '1000000000000', price_limit: '18446744073709550000' }),
  ],
  ['a min_fill above the amount', 'min_fill_invalid', () => here.place({ min_fill: '2000000000' })],
  ['a min_fill off lot', 'min_fill_invalid', () => here.place({ min_fill: '1' })],
  ['a fok with part as min_fill', 'min_fill_invalid', () => here.place({ type: 'fok', min_fill: '1000000' })],
  [
    'a timer beyond its bound',
    'timeout_out_of_range',
    () => here.open.venue.deadMan('alice', here.alice.deadMan(432_001)),
    'timeout_slots',
  ],
  [
    'a reshape of one into one',
    'reshape_invalid',
    async () => {
      const request = here.alice.reshape([here.goods], [1n, 2n])
      return here.open.venue.reshape('alice', { ...request, amounts: ['3'] })
    },
  ],
]

describe('form', () => testCases(form))
describe('instrument rules', () => testCases(rules))

test('a check runs the rules that need no signature and books nothing', () => {
  const { signature: _, ...request } = here.alice.place(here.money)
  expect(() => here.open.venue.check('alice', request)).not.toThrow()
  expect(() => here.open.venue.check('alice', { ...request, amount: '1000001' })).toThrow(
    new Refusal('amount_off_lot'),
  )
  expect(() => here.open.venue.check('alice', { ...request, expiry_slot: here.open.ledger.slot })).toThrow(
    new Refusal('expiry_too_soon'),
  )
  expect(() => here.open.venue.check('alice', here.alice.place(here.money))).toThrow(
    new Refusal('field_unknown'),
  )
})

const published = ED25519_VECTORS.map(({ holds }) => holds)
const valid = ED25519_VECTORS.filter(({ holds }) => holds)
const invalid = ED25519_VECTORS.filter(({ holds }) => !holds)
const commands = [
  ...ED25519_VECTORS.map((one) => [one]),
  valid,
  ...invalid.map((one) => [...valid, one]),
  [],
  ...invalid.map((one) => [one, ...valid]),
]
const all_hold = commands.map((claims) => claims.every(({ holds }) => holds))

test('a command is valid when each of its signatures is', () => {
  const verdicts: boolean[] = []
  for (const claims of commands) verifyAtOnce(claims, (holds) => verdicts.push(holds))
  expect(verdicts).toEqual(all_hold)
})

test('commands of one turn are judged at its end, each by its own signatures, in order', async () => {
  const arrivals = new Arrivals()
  const verdicts: [number, boolean][] = []
  for (const [at, claims] of commands.entries())
    arrivals.verify(claims, (holds) => void verdicts.push([at, holds]))
  await Promise.resolve()
  expect(verdicts).toEqual([])
  await new Promise(setImmediate)
  expect(verdicts).toEqual([...all_hold.entries()])
})

test('commands of one turn are judged earlier before what must not overtake them, and when many wait', () => {
  const arrivals = new Arrivals()
  const order: string[] = []
  // A judged command is submitted, which flushes again.
  const arrive = (name: string, claims = valid) =>
    arrivals.verify(claims, (holds) => {
      arrivals.flush()
      order.push(`${name} ${holds}`)
    })
  arrive('first')
  arrive('second', invalid)
  arrivals.flush()
  expect(order).toEqual(['first true', 'second false'])
  const many = Array.from({ length: LIMITS.verified_together_max - 1 }, () => valid[0]!)
  arrive('many', many)
  expect(order).toHaveLength(2)
  arrive('one more', [invalid[0]!])
  expect(order.slice(2)).toEqual(['many true', 'one more false'])
})

test('a body that cannot be read fails its command alone', () => {
  const gone = { ...valid[0]!, message: valid[0]!.message.slice() }
  structuredClone(gone.message.buffer, { transfer: [gone.message.buffer] })
  const arrivals = new Arrivals()
  const verdicts: boolean[] = []
  for (const claims of [valid, [gone], valid]) arrivals.verify(claims, (holds) => void verdicts.push(holds))
  arrivals.flush()
  expect(verdicts).toEqual([true, false, true])
})

test('where no library is built for the machine, the platform verifies', () => {
  const folder = join(import.meta.dir, '../../..')
  const script = `
    Object.defineProperty(process, 'arch', { value: 'arm64' })
    const { loadNativeEd25519 } = await import('${folder}/native/load_ed25519')
    const { ED25519_VECTORS } = await import('${folder}/native/ed25519_vectors')
    const { verifyAtOnce } = await import('${folder}/engine/intake/arrivals')
    const verdicts = []
    for (const vector of ED25519_VECTORS) verifyAtOnce([vector], (holds) => verdicts.push(holds))
    console.log(JSON.stringify({ compiled: loadNativeEd25519() !== undefined, verdicts }))`
  const { stdout } = Bun.spawnSync([process.execPath, '-e', script])
  expect(JSON.parse(stdout.toString())).toEqual({ compiled: false, verdicts: published })
})

test('an order of which the quote amount alone fits u64, and not its fee, is refused', () => {
  const most = (U64_MAX * 1_000n) / 1_001n
  const rules = { lot_size: 1n, tick_size: 1n, min_amount: 1n, max_amount: 1n, base_decimals: 0, fee_bps: 10 }
  const check = (price_limit: bigint) =>
    checkInstrumentRules(
      { type: 'limit', amount: 1n, price_limit } as Parameters<typeof checkInstrumentRules>[0],
      { ...rules, max_price: U64_MAX },
    )
  expect([most, most + 1n].map((quote) => quote + feeUpTo(quote, 10) <= U64_MAX)).toEqual([true, false])
  check(most)
  expect(() => check(most + 1n)).toThrow(new Refusal('value_overflow'))
})
