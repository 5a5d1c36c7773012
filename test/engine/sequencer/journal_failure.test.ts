/** A journal that cannot write ends the venue: nothing is served from a memory that may be ahead of the disk. */
import { afterEach, expect, test } from 'bun:test'
import type { DiskFaults } from '../../kit/venue/failing_disk'
import { TestSite } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

/** A venue with two orders ready to be placed, on a journal with injected faults. */
async function failing(faults: DiskFaults) {
  const open = await site.open({}, site.dir, faults)
  const alice = await Trader.provisioned(open, 'alice')
  const requests = [1, 2].map(() => alice.place(alice.deposit('quote', 200_000_000n)))
  await open.chain.finalizeLeaves()
  return { open, alice, requests }
}

/** Writes until the first order is placed: one per group. */
async function writesBefore(): Promise<number> {
  const { open } = await failing({})
  const groups = open.venue.metrics().find(({ name }) => name === 'tacit_journal_groups_total')!.value
  await site.remove()
  site = new TestSite()
  return groups
}

for (const fault of ['write_fails_at', 'sync_fails_at'] as const) {
  test(`after ${fault} every waiting and later command is refused, and the process is told to end once`, async () => {
    const at = (await writesBefore()) + 1
    const { open, alice, requests } = await failing({ [fault]: at })
    const answers = await Promise.all(
      requests.map((request) => refusalOf(open.venue.place('alice', request))),
    )
    expect(answers.map(({ code }) => code)).toEqual(['internal', 'internal'])
    expect(open.fatal).toHaveLength(1)
    const [first] = requests
    expect((await refusalOf(open.venue.place('alice', first!))).code).toBe('matching_unavailable')
    expect((await refusalOf(open.venue.order('alice', first!.order_id))).code).toBe('order_unknown')
    const nonces = async () => await open.venue.nonces('alice', alice.trading_key)
    expect((await refusalOf(nonces())).code).toBe('internal')
    expect(open.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  })
}
