/** A restore from the chain over folders of a lost venue: nothing of it counts, and nothing of the new journal is missing. */
import { afterEach, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadState } from '../../../engine/boot/load_state'
import { toHex } from '../../../protocol/bytes'
import { MemoryChain } from '../../kit/venue/memory_chain'
import { isAtRest, TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

/** Two orders that match at the next close. */
async function crossed(open: TestVenue, alice: Trader, bob: Trader): Promise<void> {
  const buy = alice.place(alice.deposit('quote', 200_000_000n))
  const sell = bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell' })
  await open.chain.finalizeLeaves()
  await open.venue.place(alice.account_id, buy)
  await open.venue.place(bob.account_id, sell)
  await open.chain.tick(2)
}

/** A venue that is gone: one batch has landed, and with `hashed` another one has not. */
async function lost(hashed: boolean) {
  const open = await site.open()
  const [alice, bob] = [await Trader.provisioned(open, 'alice'), await Trader.provisioned(open, 'bob')]
  await crossed(open, alice, bob)
  await open.chain.settleNext()
  if (hashed) {
    await crossed(open, alice, bob)
    await open.engine.pump.idle()
    await open.chain.outbox.waitForPayload(2)
    expect(open.engine.hash.spent().batch_count).toBe(2)
  }
  await open.engine.anchoring.now()
  const { unix_ms } = open.engine.chain.view()
  await open.close()
  expect(site.ledger.config.last_batch).toBe(1)
  return { lost_s: Math.floor(unix_ms / 1_000), config: open.config, chain: open.chain }
}

/** @param effective_unix_s from then on it can be used */
function announce(effective_unix_s: number): void {
  const { ledger } = site
  const pending = [{ action: 'authorize_restore', effective_unix_s, value: '' }]
  ledger.config = { ...ledger.config, pending }
  // As the program does.
  ledger.sent_opening = async () => {
    if (ledger.config.pending.length === 0) return
    ledger.config = { ...ledger.config, pending: [], generation: ledger.config.generation + 1 }
  }
}

const ALL = ['journal', 'snapshots', 'stores', 'history', 'facts', 'trees']
test.each([
  ['everything', false, ALL],
  ['the journal', false, ['journal']],
  ['the journal', true, ['journal']],
  ['all but read models and trees', true, ['journal', 'snapshots', 'stores']],
  ['all but the trees', true, ALL.filter((one) => one !== 'trees')],
] as const)(
  '%s is gone, with a hashed batch (%p): every order and event of the new journal is read, also after a start',
  async (_, hashed, gone) => {
    const { lost_s } = await lost(hashed)
    for (const folder of gone) rmSync(join(site.dir, folder), { recursive: true })
    announce(lost_s - 60)
    const open = await site.open()
    expect(open.venue.status()).toMatchObject({ ready: true, matching: 'running' })
    const carol = await Trader.provisioned(open, 'carol')
    const deposits = Array.from({ length: 30 }, () => carol.deposit('quote', 200_000_000n))
    await open.chain.finalizeLeaves()
    const orders = deposits.map((deposit) => carol.place(deposit, { price_limit: '50000000' }))
    for (const order of orders) await open.venue.place('carol', order)
    await open.engine.snapshotting.now()
    expect([open.engine.snapshotting.failures, open.fatal]).toEqual([0, []])
    await open.engine.anchoring.now()
    await open.close()
    site.ledger.sent_opening = async () => {}
    const again = await site.open()
    expect(again.venue.status()).toMatchObject({ ready: true })
    const { items } = await again.venue.events('carol', { after: 0, limit: 100 })
    expect(items.filter(({ kind }) => kind === 'order.accepted')).toHaveLength(orders.length)
    for (const { order_id } of orders)
      expect(await again.venue.order('carol', order_id)).toMatchObject({ status: 'accepted' })
  },
  60_000,
)

test.each([
  ['not effective yet', 3_600],
  ['void after 30 days', -30 * 86_400 - 3_600],
] as const)(
  'by an announcement that is %s a start on an empty journal takes no read model away',
  async (_, from_s) => {
    const { lost_s, config, chain } = await lost(false)
    rmSync(join(site.dir, 'journal'), { recursive: true })
    announce(lost_s + from_s)
    const loaded = await loadState(config, { keys: site.keys, chain }, await chain.readConfig())
    expect(loaded.verdict.fault).toBe('rolled_back')
    expect(loaded.history.watermark()).toBeGreaterThan(5)
    await loaded.journal.close()
    await loaded.history.close()
    loaded.facts.close()
    loaded.stores.close()
  },
)

const readSettled = MemoryChain.prototype.readSettled
afterEach(() => {
  MemoryChain.prototype.readSettled = readSettled
})

test.each([0, 1])(
  'trees that are right already do not stand for a history: one with %p of 2 batches is passed over',
  async (count) => {
    const open = await site.open()
    const [alice, bob] = [await Trader.provisioned(open, 'alice'), await Trader.provisioned(open, 'bob')]
    for (let batch = 1; batch <= 2; batch++) {
      await crossed(open, alice, bob)
      await open.chain.settleNext()
    }
    await open.engine.anchoring.now()
    const { unix_ms } = open.engine.chain.view()
    await open.close()
    rmSync(join(site.dir, 'journal'), { recursive: true })
    announce(Math.floor(unix_ms / 1_000) - 60)
    MemoryChain.prototype.readSettled = async function* (after: number) {
      for await (const whole of readSettled.call(this, after)) {
        yield whole.filter(({ batch_id }) => batch_id <= count)
        yield whole
      }
    }
    const restored = await site.open()
    expect(restored.venue.status()).toMatchObject({ ready: true })
    expect(restored.engine.state.nullifiers.size).toBe(site.ledger.config.spent_count)
    expect(restored.engine.state.settlement.last_hashed).toBe(2)
  },
  60_000,
)

test.each([['left'], ['gone']])(
  'a batch of a lost venue whose trees are %s does not come back where a process is killed after another one has its number',
  async (trees) => {
    const { lost_s } = await lost(true)
    rmSync(join(site.dir, 'journal'), { recursive: true })
    if (trees === 'gone') rmSync(join(site.dir, 'trees'), { recursive: true })
    announce(lost_s - 60)
    const open = await site.open()
    await crossed(open, await Trader.provisioned(open, 'carol'), await Trader.provisioned(open, 'dave'))
    await open.chain.settleNext()
    expect(site.ledger.config.last_batch).toBe(2)
    await open.engine.sequencer.durable()
    await open.engine.anchoring.now()
    await open.engine.loaded.history.flush()
    // As a kill would leave it.
    const killed = mkdtempSync(join(tmpdir(), 'tacit-killed-'))
    const isLeft = (path: string) => isAtRest(path) && !path.endsWith('journal.lock')
    cpSync(site.dir, killed, { recursive: true, filter: isLeft })
    await open.close()
    const next = await site.open({}, killed)
    expect(toHex(next.engine.hash.spent().root)).toBe(toHex(site.ledger.spent.root()))
    await next.close()
    rmSync(killed, { recursive: true })
  },
  60_000,
)
