/** Refusals that depend on the venue's state: owners, resends, replay, collateral, capacity. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { toHex } from '../../../protocol/bytes'
import { bytes } from '../../kit/venue/memory_chain'
import { refusalOf } from '../../kit/venue/refusal_of'
import { type Case, RefusalSite, testCases } from '../../kit/venue/refusal_site'
import { element, Trader } from '../../kit/venue/trader'

const here = new RefusalSite()
beforeAll(() => here.prepare())
afterAll(() => here.site.remove())

const id = () => toHex(bytes(16))

const owners: Case[] = [
  ['a signature over other content', 'signature_invalid', () => here.bent({ amount: '2000000000' })],
  ['a key of another account', 'key_bound', () => here.open.venue.place('bob', here.alice.place(here.money))],
  [
    'a cancel by another key',
    'not_owner',
    () => here.open.venue.cancel('bob', here.live.order_id, here.bob.cancel(here.live.order_id)),
  ],
  ["reading another account's order", 'not_owner', () => here.open.venue.order('bob', here.live.order_id)],
  [
    "another account's nonces",
    'key_bound',
    async () => await here.open.venue.nonces('bob', here.alice.trading_key),
  ],
]

const resends: Case[] = [
  ['an identical resend', 'order_exists', () => here.open.venue.place('alice', here.live)],
  ['the id with other content', 'order_id_taken', () => here.place({ order_id: here.live.order_id })],
  [
    'cancelling an unknown order',
    'order_unknown',
    () => here.open.venue.cancel('alice', 'ab'.repeat(16), here.alice.cancel('ab'.repeat(16))),
  ],
  ['an unknown order', 'order_unknown', () => here.open.venue.order('alice', id())],
  ['an unknown withdrawal', 'withdrawal_unknown', () => here.open.venue.withdrawal('alice', id())],
  ['an unknown reshape', 'reshape_unknown', () => here.open.venue.reshapeOf('alice', id())],
  ['an unknown batch', 'batch_unknown', () => here.open.venue.settlementBatch(77)],
  ['an unknown leaf', 'leaf_unknown', () => here.open.venue.treeInclusion(99)],
  ['a nonce that does not advance', 'nonce_stale', () => here.place({ nonce: '1' })],
  [
    'a cancel nonce that does not advance',
    'nonce_stale',
    async () => {
      await here.open.venue.deadMan('alice', here.alice.deadMan(0))
      return here.open.venue.cancel('alice', here.live.order_id, here.alice.cancel(here.live.order_id, 1n))
    },
  ],
  [
    'an account record again',
    'record_stale',
    () =>
      here.open.venue.provision({
        account_id: 'bob',
        version: 1,
        state: 'active',
        orders_live_max: 1,
        keys_max: 1,
      }),
  ],
  [
    'an expiry before the next close',
    'expiry_too_soon',
    () => here.place({ expiry_slot: here.open.ledger.slot }),
  ],
  ['an expiry beyond the longest life', 'expiry_too_far', () => here.place({ expiry_slot: 20_000 })],
]

const collateral: Case[] = [
  ['a note never seen', 'note_unknown', () => here.place({ collateral_commitment: toHex(element()) })],
  [
    'an opening of another amount',
    'note_unknown',
    () => here.place({ opening: { ...here.money.opening, amount: '999999999' } }),
  ],
  ['a note of the wrong mint', 'note_wrong_mint', () => here.place({ side: 'sell' })],
  [
    'a note in use',
    'note_in_use',
    () => here.place({ collateral_commitment: here.live.collateral_commitment }),
  ],
  ['a note that is too small', 'collateral_insufficient', () => here.place({}, here.small)],
  [
    'a withdrawal below the minimum',
    'withdraw_below_minimum',
    () => here.open.venue.withdraw('alice', here.alice.withdrawal(here.money, 999n)),
  ],
  ['an order across an own one', 'self_cross', () => here.place({ side: 'sell' }, here.goods)],
]

const capacity: Case[] = [
  [
    'a paused instrument',
    'instrument_paused',
    async () => {
      const symbol = 'ALT-USDC'
      await here.open.engine.sequencer.submit({ kind: 'instrument_status', symbol, status: 'paused' })
      expect(here.open.venue.instrument(symbol).status).toBe('paused')
      return here.place({ symbol })
    },
  ],
  [
    'unwired settlement',
    'settlement_unavailable',
    async () => {
      here.open.chain.health_now = { settlement: 'unwired', reasons: ['no endpoint answers'], overdue: false }
      const refused = here.place().finally(() => {
        here.open.chain.health_now = { settlement: 'wired', reasons: [], overdue: false }
      })
      expect(here.open.venue.status()).toMatchObject({ ready: false, reasons: ['no endpoint answers'] })
      return refused
    },
  ],
  [
    'a bound on here.live orders',
    'account_order_limit',
    async () => {
      const carol = await Trader.provisioned(here.open, 'carol', { orders_live_max: 0 })
      const deposit = carol.deposit('quote', 200_000_000n)
      await here.open.chain.finalizeLeaves()
      return here.open.venue.place('carol', carol.place(deposit))
    },
  ],
  [
    'a bound on trading keys',
    'account_key_limit',
    async () => {
      const dave = await Trader.provisioned(here.open, 'dave', { keys_max: 0 })
      const deposit = dave.deposit('quote', 200_000_000n)
      await here.open.chain.finalizeLeaves()
      return here.open.venue.place('dave', dave.place(deposit))
    },
  ],
  [
    'a suspended account',
    'account_suspended',
    async () => {
      const erin = await Trader.provisioned(here.open, 'erin')
      const limits = { orders_live_max: 1, keys_max: 1 }
      await here.open.venue.provision({ account_id: 'erin', version: 2, state: 'suspended', ...limits })
      return here.open.venue.place('erin', erin.place(here.money))
    },
  ],
  [
    'too many unlanded orders',
    'settlement_backlog',
    async () => {
      const { settlement } = here.open.engine.state
      settlement.unlanded += 10_001
      return here.place().finally(() => {
        settlement.unlanded -= 10_001
      })
    },
  ],
  [
    'a halted venue',
    'matching_unavailable',
    async () => {
      here.open.chain.sink.halted('vault_paused')
      const refusal = await refusalOf(here.place())
      await here.open.engine.sequencer.submit({ kind: 'resumed' })
      expect(here.open.venue.status()).toMatchObject({ matching: 'running' })
      throw refusal
    },
  ],
  [
    'a session without a record',
    'token_invalid',
    () => here.open.venue.place('nobody', here.alice.place(here.money)),
  ],
]

describe('owners', () => testCases(owners))
describe('resends, existence and replay', () => testCases(resends))
describe('collateral', () => testCases(collateral))
describe('capacity', () => testCases(capacity))

test('a refused command changes nothing', async () => {
  const { seq_executed } = here.open.engine.sequencer
  const nonces = await here.open.venue.nonces('alice', here.alice.trading_key)
  await refusalOf(here.place({ amount: '1000001' }))
  await refusalOf(here.place({ nonce: '1' }))
  expect(here.open.engine.sequencer.seq_executed).toBe(seq_executed)
  expect(await here.open.venue.nonces('alice', here.alice.trading_key)).toEqual(nonces)
})

test('a draining venue refuses new orders and takes cancels', async () => {
  here.open.engine.availability.drain()
  expect((await refusalOf(here.place())).code).toBe('draining')
  const cancelled = await here.open.venue.cancel(
    'alice',
    here.live.order_id,
    here.alice.cancel(here.live.order_id),
  )
  expect(cancelled.status).toBe('cancelled')
})
