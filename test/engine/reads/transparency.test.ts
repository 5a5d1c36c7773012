/** One reading of the chain answers everybody for a while; a chain that does not answer makes it old, never wrong. */
import { afterEach, expect, test } from 'bun:test'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { TransparencyReads } from '../../../engine/reads/transparency'
import { TestSite } from '../../kit/venue/open_test_venue'

const site = new TestSite()
afterEach(() => site.remove())

test('one reading answers everybody for two seconds; without the chain it is told on, marked stale', async () => {
  const { chain, config } = await site.open()
  const facts = new PublicFacts(`${site.dir}/other_facts`, new Uint8Array(32).fill(5))
  const clock = { now: 0, monotonicMs: () => clock.now, unixMs: () => 0 }
  const first = { config: await chain.readConfig(), mints: await chain.readMints() }
  const reads = new TransparencyReads({ settings: config, chain, clock, facts, exits: () => [] }, first)
  const count = () => chain.ledger.config.leaf_count

  const [one, other] = await Promise.all([reads.read(), reads.read()])
  expect(other).toBe(one)
  expect(one.tree.leaf_count).toBe(count())
  expect(one.mints.map(({ stale }) => stale)).toEqual([false, false])
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

  chain.readMints = readMints
  const back = await reads.read()
  expect(back.tree.leaf_count).toBe(count())
  expect(back.mints.map(({ stale }) => stale)).toEqual([false, false])
  facts.close()
})
