/** A journal that cannot write ends the venue: nothing is served from a memory that may be ahead of the disk. */
import { afterEach, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TestSite } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

for (const trouble of ['write_fails', 'sync_fails'] as const) {
  test(`once a ${trouble}, every waiting and later command is refused, and the process is told to end once`, async () => {
    const exists = join(site.dir, 'fails')
    const open = await site.open({}, site.dir, { while: { exists, trouble } })
    const alice = await Trader.provisioned(open, 'alice')
    const requests = [1, 2].map(() => alice.place(alice.deposit('quote', 200_000_000n)))
    await open.chain.finalizeLeaves()
    await open.engine.sequencer.durable()
    writeFileSync(exists, '')
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
