/** POST /orders/check over a running venue: its contract declares every refusal that the venue's check can give. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { RefusalCode } from '../../protocol/refusals'
import type { CheckRequest } from '../../protocol/wire/trading'
import { ACCOUNT, type Answered, type Harness, openHarness } from '../kit/server/harness'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { Trader } from '../kit/venue/trader'

const site = new TestSite()
let open: TestVenue
let trader: Trader
let harness: Harness
beforeAll(async () => {
  open = await site.open()
  trader = await Trader.provisioned(open, ACCOUNT)
  harness = openHarness({
    venue: { check: (account_id, request) => open.venue.parsed.check(account_id, request) },
  })
})
afterAll(async () => {
  await harness.stop()
  await site.remove()
})

function check(change: Partial<CheckRequest> = {}): Promise<Answered> {
  const { signature: _, ...json } = trader.place(trader.deposit('quote', 200_000_000n), change)
  return harness.call('POST', '/orders/check', { json })
}
async function pause(symbol: string) {
  await open.engine.sequencer.submit({ kind: 'instrument_status', symbol, status: 'paused' })
}

/** In this order: a venue that drains does not return to service. */
const CASES: [code: RefusalCode, status: number, attempt: () => Promise<Answered>][] = [
  ['instrument_unknown', 404, () => check({ symbol: 'NONE' })],
  ['amount_off_lot', 400, () => check({ amount: '1000001' })],
  ['expiry_too_soon', 400, () => check({ expiry_slot: open.ledger.slot })],
  ['expiry_too_far', 400, () => check({ expiry_slot: open.ledger.slot + 20_000 })],
  ['instrument_paused', 503, () => pause('ALT-USDC').then(() => check({ symbol: 'ALT-USDC' }))],
  [
    'settlement_unavailable',
    503,
    () => {
      open.chain.health_now = { settlement: 'unwired', reasons: ['no endpoint answers'], overdue: false }
      return check().finally(() => {
        open.chain.health_now = { settlement: 'wired', reasons: [], overdue: false }
      })
    },
  ],
  [
    'matching_unavailable',
    503,
    async () => {
      await open.engine.sequencer.submit({ kind: 'halted', reason: 'vault_paused' })
      const answered = await check()
      await open.engine.sequencer.submit({ kind: 'resumed' })
      return answered
    },
  ],
  [
    'lease_lost',
    503,
    () => {
      open.chain.lease_age_ms = open.config.lease_ms + 1
      return check().finally(() => {
        open.chain.lease_age_ms = 0
      })
    },
  ],
  [
    'unanchored',
    503,
    () => {
      site.later_ms += open.config.anchor_max_ms
      return check().finally(() => open.engine.anchoring.now())
    },
  ],
  [
    'draining',
    503,
    async () => {
      // A slot that comes late begins a reopening, which ends before the drain.
      await open.chain.tick(1)
      await open.chain.tick(open.config.reopen_slots)
      open.engine.availability.drain()
      return check()
    },
  ],
]

test('an order that fits is answered ok', async () => {
  expect(await check()).toMatchObject({ status: 200, json: { ok: true } })
})

for (const [code, status, attempt] of CASES) {
  test(`${code} is answered with ${status} and is declared`, async () => {
    const { status: answered, json } = await attempt()
    expect([answered, json.code]).toEqual([status, code])
    // The edge logs `refusal_undeclared` for a code that the contract does not declare.
    expect(harness.lines.splice(0)).toEqual([])
  })
}
