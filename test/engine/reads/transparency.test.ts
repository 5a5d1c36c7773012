/** One reading of the chain answers everybody for a while; a chain that does not answer makes it old, never wrong. */
import { afterEach, expect, test } from 'bun:test'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { TransparencyReads } from '../../../engine/reads/transparency'
import { toHex } from '../../../protocol/bytes'
import { seeded, World } from '../../kit/venue/machine_world'
import { TestSite } from '../../kit/venue/open_test_venue'

const VENUE = new Uint8Array(32)
const site = new TestSite()
afterEach(() => site.remove())

test('one reading answers everybody for two seconds; without the chain it is told on, marked stale with its slot and age', async () => {
  const { chain, config } = await site.open()
  const facts = new PublicFacts(`${site.dir}/other_facts`, new Uint8Array(32).fill(5))
  const clock = { now: 0, monotonicMs: () => clock.now, unixMs: () => 0 }
  const first = { config: await chain.readConfig(), mints: await chain.readMints() }
  const reads = new TransparencyReads(
    { settings: config, venue: VENUE, chain, clock, facts, exits: () => [] },
    first,
  )
  const count = () => chain.ledger.config.leaf_count

  const [one, other] = await Promise.all([reads.read(), reads.read()])
  expect(other).toBe(one)
  expect(one.tree.leaf_count).toBe(count())
  expect(one.mints.map(({ stale }) => stale)).toEqual([false, false])
  expect(one.reading).toEqual({ slot: 100, age_ms: 0, stale: false })
  expect(Object.isFrozen(one)).toBe(true)

  chain.ledger.config.leaf_count += 3
  clock.now = 2_000
  expect(reads.read()).toBe(one)
  clock.now = 2_001
  const next = await reads.read()
  expect(next.tree.leaf_count).toBe(count())

  chain.ledger.config.leaf_count += 1
  const { readMints } = chain
  chain.readMints = () => Promise.reject(new Error('the chain is away'))
  clock.now = 9_000
  const old = await reads.read()
  expect(old.tree.leaf_count).toBe(count() - 1)
  expect(old.mints.map(({ stale }) => stale)).toEqual([true, true])
  expect(old.reading).toEqual({ slot: 100, age_ms: 6_999, stale: true })

  chain.readMints = readMints
  const back = await reads.read()
  expect(back.tree.leaf_count).toBe(count())
  expect(back.mints.map(({ stale }) => stale)).toEqual([false, false])
  expect(back.reading).toEqual({ slot: 100, age_ms: 0, stale: false })

  // Providers that answer, but with a state that the venue's own view of the chain left long ago.
  const view = chain.view.bind(chain)
  chain.view = () => ({ ...view(), slot: 251 })
  clock.now = 20_000
  expect((await reads.read()).reading).toEqual({ slot: 100, age_ms: 0, stale: true })
  // An older state than the last one is not shown again.
  chain.view = () => view()
  chain.ledger.slot = 99
  chain.ledger.config.leaf_count -= 1
  clock.now = 30_000
  const last = await reads.read()
  expect(last.reading).toEqual({ slot: 100, age_ms: 0, stale: false })
  expect(last.tree.leaf_count).toBe(count() + 1)
  facts.close()
})

test('the payout queue shows its length and oldest entry, open exits come by deadline, served ones are left out', async () => {
  const { chain, config } = await site.open()
  const facts = new PublicFacts(`${site.dir}/other_facts`, new Uint8Array(32).fill(5))
  const clock = { monotonicMs: () => 0, unixMs: () => 0 }
  const entry = { kind: 'withdrawal', mint: named(1), destination: named(2), amount: 3n } as const
  const entries = [7, 9].map((number) => ({ ...entry, number, queued_slot: 100 + number }))
  chain.ledger.config.queue = { capacity: 60, next_number: 10, entries }
  const world = new World()
  const exitOf = (name: string, deadline_unix_s: number) => {
    const terms = { mint: named(1), amount: 3n, destination: named(2), request_account: named(3) }
    const names = { commitment: seeded(`${name} c`), nullifier: seeded(name), refund_inner: named(4) }
    const request = { ...terms, ...names, deadline_unix_s, stage: 'confirmed' as const }
    world.must({ kind: 'exit_requested', request })
    return request
  }
  exitOf('late', 30)
  exitOf('early', 20)
  world.must({ kind: 'exit_requested', request: { ...exitOf('served', 10), stage: 'finalized' } })
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
  const first = { config: await chain.readConfig(), mints: await chain.readMints() }
  const exits = () => world.state.settlement.exits.values()
  const shown = await new TransparencyReads(
    { settings: config, venue: VENUE, chain, clock, facts, exits },
    first,
  ).read()
  expect(shown.payout_queue).toEqual({ length: 2, oldest_slot: 107 })
  expect(shown.exits).toEqual([
    { nullifier: toHex(seeded('early')), deadline: 20 },
    { nullifier: toHex(seeded('late')), deadline: 30 },
  ])
  facts.close()
})

test('the life left in both trees follows the growth of the last day, not that of the days before', async () => {
  const { chain, config } = await site.open()
  const facts = new PublicFacts(`${site.dir}/other_facts`, new Uint8Array(32).fill(5))
  const clock = { now: 0, monotonicMs: () => clock.now, unixMs: () => 0 }
  const first = { config: await chain.readConfig(), mints: await chain.readMints() }
  const reads = new TransparencyReads(
    { settings: config, venue: VENUE, chain, clock, facts, exits: () => [] },
    first,
  )
  const grown = async (hour: number, leaf_count: number, last_batch: number) => {
    chain.ledger.config = { ...chain.ledger.config, leaf_count, last_batch }
    clock.now = hour * 3_600_000
    const { tree, spent_log_remaining_days } = await reads.read()
    return [tree.remaining_days, spent_log_remaining_days]
  }
  expect(await grown(1, 0, 0)).toEqual([null, null])
  expect(await grown(13, 512, 0)).toEqual([2 ** 40 / 1024 - 1, null])
  for (let hour = 14; hour <= 37; hour++) await grown(hour, 1024, 0)
  // A day later nothing of the first growth counts.
  expect(await grown(38, 1024, 1)).toEqual([null, 2 ** 40 - 1])
  facts.close()
})

const named = (value: number) => new Uint8Array(32).fill(value)
