/** Every refusal the engine itself gives, through the Venue, with the field where one is named. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { toHex } from '../../protocol/bytes'
import { FIELD_MODULUS } from '../../protocol/field'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire'
import { bytes } from './memory_chain'
import { TestSite, type TestVenue } from './open_test_venue'
import { refusalOf } from './refusal_of'
import { type Deposit, element, Trader } from './trader'

const site = new TestSite()
let open: TestVenue
let alice: Trader
let bob: Trader
let money: Deposit
let goods: Deposit
let small: Deposit
let live: wire.PlaceRequest

beforeAll(async () => {
  open = await site.open()
  alice = await Trader.provisioned(open, 'alice')
  bob = await Trader.provisioned(open, 'bob')
  money = alice.deposit('quote', 200_000_000n)
  goods = alice.deposit('base', 5_000_000_000n)
  small = alice.deposit('quote', 5_000n)
  const backing = alice.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  live = alice.place(backing)
  await open.venue.place('alice', live)
})
afterAll(() => site.remove())

const place = (change: Partial<wire.CheckRequest> = {}, deposit = money) =>
  open.venue.place('alice', alice.place(deposit, change))
/** A body changed after signing, as no client would send it. */
const bent = (change: Record<string, unknown>) =>
  open.venue.place('alice', { ...alice.place(money), ...change } as wire.PlaceRequest)
const without = (name: string) => {
  const request: Record<string, unknown> = { ...alice.place(money) }
  delete request[name]
  return open.venue.place('alice', request as wire.PlaceRequest)
}
const id = () => toHex(bytes(16))
const beyond_field = FIELD_MODULUS.toString(16).padStart(64, '0')

type Case = [string, RefusalCode, () => Promise<unknown>, string?]

const form: Case[] = [
  ['a missing field', 'field_missing', () => without('amount'), 'amount'],
  ['a missing signature', 'field_missing', () => without('signature'), 'signature'],
  ['an undefined field', 'field_unknown', () => bent({ leverage: '3' })],
  ['an upper-case id', 'field_invalid', () => bent({ order_id: 'AB'.repeat(16) }), 'order_id'],
  ['an id of another width', 'field_invalid', () => bent({ order_id: 'ab' }), 'order_id'],
  ['a number as amount', 'field_invalid', () => bent({ amount: 1000000 }), 'amount'],
  ['an amount with a leading zero', 'field_invalid', () => bent({ amount: '01' }), 'amount'],
  ['an amount of 2^64', 'field_invalid', () => bent({ amount: '18446744073709551616' }), 'amount'],
  ['a slot as text', 'field_invalid', () => bent({ expiry_slot: '200' }), 'expiry_slot'],
  ['a fraction of a slot', 'field_invalid', () => bent({ expiry_slot: 200.5 }), 'expiry_slot'],
  ['a nonce of zero', 'field_invalid', () => bent({ nonce: '0' }), 'nonce'],
  ['a side that is none', 'field_invalid', () => bent({ side: 'short' }), 'side'],
  ['a key of another width', 'field_invalid', () => bent({ trading_key: 'abc' }), 'trading_key'],
  ['a short signature', 'field_invalid', () => bent({ signature: 'ab'.repeat(63) }), 'signature'],
  [
    'a collateral beyond the field',
    'field_element_invalid',
    () => bent({ collateral_commitment: beyond_field }),
    'collateral_commitment',
  ],
  [
    'an opening without blinding',
    'field_missing',
    () => bent({ opening: { mint: money.opening.mint, amount: '1' } }),
    'opening.blinding',
  ],
  ['an order id of zeros', 'order_id_zero', () => bent({ order_id: '0'.repeat(32) }), 'order_id'],
  ['no anchors', 'anchors_invalid', () => bent({ continuation_anchors: [] }), 'continuation_anchors'],
  [
    'seventeen anchors',
    'anchors_invalid',
    () => bent({ continuation_anchors: Array.from({ length: 17 }, () => toHex(element())) }),
  ],
  [
    'a repeated anchor',
    'anchors_invalid',
    () => bent({ continuation_anchors: Array(2).fill(toHex(element())) }),
  ],
  ['an anchor beyond the field', 'anchors_invalid', () => bent({ continuation_anchors: [beyond_field] })],
]

const rules: Case[] = [
  ['an unknown symbol', 'instrument_unknown', () => place({ symbol: 'NONE' })],
  ['an amount below the minimum', 'amount_out_of_range', () => place({ amount: '999999' }), 'amount'],
  ['an amount above the maximum', 'amount_out_of_range', () => place({ amount: '1000001000000' })],
  ['an amount off lot', 'amount_off_lot', () => place({ amount: '1000001' })],
  ['a price of zero', 'price_zero', () => place({ price_limit: '0' })],
  ['a price off tick', 'price_off_tick', () => place({ price_limit: '100000001' })],
  [
    'a value beyond u64',
    'value_overflow',
    () => place({ amount: '1000000000000', price_limit: '18446744073709550000' }),
  ],
  ['a min_fill above the amount', 'min_fill_invalid', () => place({ min_fill: '2000000000' })],
  ['a min_fill off lot', 'min_fill_invalid', () => place({ min_fill: '1' })],
  ['a fok with part as min_fill', 'min_fill_invalid', () => place({ type: 'fok', min_fill: '1000000' })],
  [
    'a timer beyond its bound',
    'timeout_out_of_range',
    () => open.venue.deadMan('alice', alice.deadMan(432_001)),
    'timeout_slots',
  ],
  [
    'a reshape of one into one',
    'reshape_invalid',
    async () => {
      const request = alice.reshape([goods], [1n, 2n])
      return open.venue.reshape('alice', { ...request, amounts: ['3'] })
    },
  ],
]

const owners: Case[] = [
  ['a signature over other content', 'signature_invalid', () => bent({ amount: '2000000000' })],
  ['a key of another account', 'key_bound', () => open.venue.place('bob', alice.place(money))],
  [
    'a cancel by another key',
    'not_owner',
    () => open.venue.cancel('bob', live.order_id, bob.cancel(live.order_id)),
  ],
  ["reading another account's order", 'not_owner', () => open.venue.order('bob', live.order_id)],
  ["another account's nonces", 'key_bound', () => open.venue.nonces('bob', alice.trading_key)],
]

const resends: Case[] = [
  ['an identical resend', 'order_exists', () => open.venue.place('alice', live)],
  ['the id with other content', 'order_id_taken', () => place({ order_id: live.order_id })],
  [
    'cancelling an unknown order',
    'order_unknown',
    () => open.venue.cancel('alice', 'ab'.repeat(16), alice.cancel('ab'.repeat(16))),
  ],
  ['an unknown order', 'order_unknown', () => open.venue.order('alice', id())],
  ['an unknown withdrawal', 'withdrawal_unknown', () => open.venue.withdrawal('alice', id())],
  ['an unknown reshape', 'reshape_unknown', () => open.venue.reshapeOf('alice', id())],
  ['an unknown batch', 'batch_unknown', () => open.venue.settlementBatch(77)],
  ['an unknown leaf', 'leaf_unknown', () => open.venue.treeInclusion({ leaf_index: 99 })],
  ['a nonce that does not advance', 'nonce_stale', () => place({ nonce: '1' })],
  [
    'a cancel nonce that does not advance',
    'nonce_stale',
    async () => {
      await open.venue.deadMan('alice', alice.deadMan(0))
      return open.venue.cancel('alice', live.order_id, alice.cancel(live.order_id, 1n))
    },
  ],
  [
    'an account record again',
    'record_stale',
    () =>
      open.venue.provision({
        account_id: 'bob',
        version: 1,
        status: 'active',
        orders_live_max: 1,
        keys_max: 1,
      }),
  ],
  ['an expiry before the next close', 'expiry_too_soon', () => place({ expiry_slot: open.ledger.slot })],
  ['an expiry beyond the longest life', 'expiry_too_far', () => place({ expiry_slot: 20_000 })],
]

const collateral: Case[] = [
  ['a note never seen', 'note_unknown', () => place({ collateral_commitment: toHex(element()) })],
  [
    'an opening of another amount',
    'note_unknown',
    () => place({ opening: { ...money.opening, amount: '999999999' } }),
  ],
  ['a note of the wrong mint', 'note_wrong_mint', () => place({ side: 'sell' })],
  ['a note in use', 'note_in_use', () => place({ collateral_commitment: live.collateral_commitment })],
  ['a note that is too small', 'collateral_insufficient', () => place({}, small)],
  [
    'a withdrawal below the minimum',
    'withdraw_below_minimum',
    () => open.venue.withdraw('alice', alice.withdrawal(money, 999n)),
  ],
  ['an order across an own one', 'self_cross', () => place({ side: 'sell' }, goods)],
]

const capacity: Case[] = [
  [
    'a paused instrument',
    'instrument_paused',
    async () => {
      const symbol = 'ALT-USDC'
      await open.engine.sequencer.submit({ kind: 'instrument_status', symbol, status: 'paused' })
      expect(open.venue.instrument(symbol).status).toBe('paused')
      return place({ symbol })
    },
  ],
  [
    'unwired settlement',
    'settlement_unavailable',
    async () => {
      open.chain.health_now = { settlement: 'unwired', reasons: ['no endpoint answers'] }
      const refused = place().finally(() => {
        open.chain.health_now = { settlement: 'wired', reasons: [] }
      })
      expect(open.venue.status()).toMatchObject({ ready: false, reasons: ['no endpoint answers'] })
      return refused
    },
  ],
  [
    'a bound on live orders',
    'order_limit',
    async () => {
      const carol = await Trader.provisioned(open, 'carol', { orders_live_max: 0 })
      const deposit = carol.deposit('quote', 200_000_000n)
      await open.chain.finalizeLeaves()
      return open.venue.place('carol', carol.place(deposit))
    },
  ],
  [
    'a bound on trading keys',
    'key_limit',
    async () => {
      const dave = await Trader.provisioned(open, 'dave', { keys_max: 0 })
      const deposit = dave.deposit('quote', 200_000_000n)
      await open.chain.finalizeLeaves()
      return open.venue.place('dave', dave.place(deposit))
    },
  ],
  [
    'a suspended account',
    'account_suspended',
    async () => {
      const erin = await Trader.provisioned(open, 'erin')
      const limits = { orders_live_max: 1, keys_max: 1 }
      await open.venue.provision({ account_id: 'erin', version: 2, status: 'suspended', ...limits })
      return open.venue.place('erin', erin.place(money))
    },
  ],
  [
    'too many unlanded orders',
    'settlement_backlog',
    async () => {
      const { settlement } = open.engine.state
      settlement.unlanded += 10_001
      return place().finally(() => {
        settlement.unlanded -= 10_001
      })
    },
  ],
  [
    'a halted venue',
    'matching_unavailable',
    async () => {
      open.chain.sink.halted('vault_paused')
      const refusal = await refusalOf(place())
      await open.engine.sequencer.submit({ kind: 'resumed' })
      expect(open.venue.status()).toMatchObject({ matching: 'running' })
      throw refusal
    },
  ],
  ['a session without a record', 'token_invalid', () => open.venue.place('nobody', alice.place(money))],
]

for (const [name, cases] of Object.entries({ form, rules, owners, resends, collateral, capacity })) {
  describe(name, () => {
    for (const [what, code, attempt, field] of cases) {
      test(`${what} answers ${code}`, async () => {
        const refusal = await refusalOf(attempt())
        expect(refusal.code).toBe(code)
        if (field !== undefined) expect(refusal.facts.field).toBe(field)
      })
    }
  })
}

test('a refused command changes nothing and is counted', async () => {
  const { seq_executed } = open.engine.sequencer
  const nonces = await open.venue.nonces('alice', alice.trading_key)
  await refusalOf(place({ amount: '1000001' }))
  await refusalOf(place({ nonce: '1' }))
  expect(open.engine.sequencer.seq_executed).toBe(seq_executed)
  expect(await open.venue.nonces('alice', alice.trading_key)).toEqual(nonces)
  const stale = open.venue.metrics().find(({ labels }) => labels?.['code'] === 'nonce_stale')
  expect(stale?.value).toBeGreaterThanOrEqual(2)
})

test('a check answers what needs no signature and books nothing', () => {
  const { signature: _, ...request } = alice.place(money)
  expect(() => open.venue.check('alice', request)).not.toThrow()
  expect(() => open.venue.check('alice', { ...request, amount: '1000001' })).toThrow(
    new Refusal('amount_off_lot'),
  )
  expect(() => open.venue.check('alice', alice.place(money))).toThrow(new Refusal('field_unknown'))
})

test('a draining venue refuses new orders and takes cancels', async () => {
  open.engine.availability.drain()
  expect((await refusalOf(place())).code).toBe('draining')
  const cancelled = await open.venue.cancel('alice', live.order_id, alice.cancel(live.order_id))
  expect(cancelled.status).toBe('cancelled')
})
