/** Blocks that a fork takes back before they are final: the venue returns to what holds, and everything lands and pays once. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import type * as wire from '../../../protocol/wire/trading'
import { JTO, USDC } from '../../../sandbox/environment'
import { EmbeddedTrading, soon } from '../../kit/venue/embedded_trading'

/** Slots: a busy machine has time to see what is confirmed before it is final. */
const FINALIZED_DEPTH = 120

const world = new EmbeddedTrading()
const { site } = world
beforeAll(() => world.open({}, FINALIZED_DEPTH), 120_000)
afterAll(() => site.remove())

/** Abandons the block of a transaction and all after it. */
function forkAt(signature: string): void {
  const { chain } = site
  chain.fork(chain.slot() - chain.machine.store.transaction(signature)!.slot + 1)
}

async function accepted(destination: Uint8Array): Promise<string> {
  const deposit = await world.deposited(world.alice, USDC, 5_000_000n)
  const request = world.alice.withdrawal(deposit, 4_000_000n, destination)
  return (await site.venue.withdraw('alice', request)).withdrawal_id
}

async function until(id: string, holds: (one: wire.Withdrawal) => boolean): Promise<wire.Withdrawal> {
  for (;;) {
    const found = await site.venue.withdrawal('alice', id)
    if (holds(found)) return found
    await soon()
  }
}

/** Everything is final, paid once, and nothing is degraded. */
async function expectPaidOnce(id: string, destination: Uint8Array): Promise<void> {
  await until(id, ({ status }) => status === 'paid')
  expect(world.balance(destination)).toBe(4_000_001n)
  const { capacity, entries } = (await site.port.readConfig()).queue
  expect([capacity, entries]).toEqual([60, []])
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)
  while (site.venue.status().reasons.length > 0) await soon()
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  expect(site.fatal).toEqual([])
}

/** The kinds of the withdrawal's events, each with the stage of its payout. */
async function told(id: string): Promise<string[]> {
  const events = (await world.events('alice')).filter(({ kind }) => kind.startsWith('withdrawal.'))
  return events.flatMap(({ kind, data }) => {
    const { withdrawal_id, payout_stage } = data as wire.Withdrawal
    return withdrawal_id === id ? [`${kind.slice('withdrawal.'.length)} ${payout_stage ?? 'none'}`] : []
  })
}

test('a confirmed payment that is taken back is open again, and paid once', async () => {
  const destination = await world.payee(USDC)
  const id = await accepted(destination)
  const paid = await until(id, ({ payout_stage }) => payout_stage === 'confirmed')
  forkAt(paid.payout_signature!)
  await expectPaidOnce(id, destination)
  const stages = await told(id)
  const again = stages.slice(stages.findIndex((one) => one.endsWith(' confirmed')) + 1)
  // The same bytes landed again, and the batch stays where it is.
  expect((await site.venue.withdrawal('alice', id)).payout_signature).toBe(paid.payout_signature!)
  expect(again[0]).toMatch(/^(confirmed|finalized) submitted$/)
  expect(again.filter((one) => one.endsWith(' none'))).toEqual([])
  expect(stages.filter((one) => /^(paid|refunded)/.test(one))).toEqual(['paid finalized'])
}, 180_000)

test('a confirmed settlement that is taken back with its payment is submitted again, then both land', async () => {
  const destination = await world.payee(USDC)
  const id = await accepted(destination)
  const { signature, settlement_batch } = await until(id, ({ payout_stage }) => payout_stage === 'confirmed')
  forkAt(signature!)
  await expectPaidOnce(id, destination)
  const stages = await told(id)
  const again = stages.slice(stages.findIndex((one) => one.endsWith(' confirmed')) + 1)
  // Bytes whose blockhash was of the lost fork expire, and others are submitted.
  const steps = again.filter((stage, at) => stage !== again[at - 1])
  expect(steps.slice(0, 2)).toEqual(['submitted none', 'confirmed none'])
  expect(stages.filter((one) => /^(paid|refunded)/.test(one))).toEqual(['paid finalized'])
  expect(await site.venue.withdrawal('alice', id)).toMatchObject({ settlement_batch: settlement_batch! })
}, 180_000)

test('confirmed fills that are taken back are submitted again and become final once, with notes that can be spent', async () => {
  const { order_id } = await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.confirmed')
  const { last_batch } = site.venue.settlementHealth()
  const [fill] = (await site.venue.order('alice', order_id)).fills
  forkAt(fill!.signature!)
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  const fills = (await world.events('alice'))
    .map(({ kind }) => kind)
    .filter((kind) => kind.startsWith('fill.'))
    .filter((kind, at, all) => kind !== all[at - 1])
  expect(fills.slice(0, 5)).toEqual([
    'fill.matched',
    'fill.submitted',
    'fill.confirmed',
    'fill.submitted',
    'fill.confirmed',
  ])
  expect(fills.filter((kind) => kind === 'fill.finalized')).toHaveLength(1)
  expect(site.venue.settlementHealth().last_batch).toBe(last_batch)
  expect((await site.port.readConfig()).last_batch).toBe(last_batch)
  const { proceeds_commitment } = (await site.venue.order('alice', order_id)).fills[0]!
  const destination = await world.payee(JTO)
  const proceeds = { commitment: proceeds_commitment } as Parameters<typeof world.alice.withdrawal>[0]
  const request = world.alice.withdrawal(proceeds, 1_000_000n, destination)
  const { withdrawal_id } = await site.venue.withdraw('alice', request)
  await until(withdrawal_id, ({ status }) => status === 'paid')
  expect(world.balance(destination)).toBe(1_000_001n)
}, 180_000)
