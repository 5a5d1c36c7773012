/** A data volume that is full, slow or read-only: the status names it, the rest goes on, and nothing acknowledged is lost. */
import { afterEach, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { disk } from '../../../engine/journal/disk'
import { LIMITS } from '../../../engine/limits'
import { rowsWaiting } from '../../../engine/machine/state/past'
import { fromHex } from '../../../protocol/bytes'
import { fillUp, isMountable, setReadOnly, withSmallVolume } from '../../kit/small_volume'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { testCredential } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

const real = { ...disk }
const site = new TestSite()
afterEach(async () => {
  Object.assign(disk, real)
  await site.remove()
})

const MIB = 2 ** 20
/** The volume has so much space from now on. */
async function free(open: TestVenue, bytes: number): Promise<void> {
  disk.freeBytes = async () => bytes
  await open.engine.disk_gauge.measure()
}
const gauge = (open: TestVenue, of = 'tacit_disk_free_bytes') =>
  open.venue.metrics().find(({ name }) => name === of)!.value

test('the last 256 MiB are for cancels, withdrawals and the drain', async () => {
  const open = await site.open()
  const { venue } = open
  const alice = await Trader.provisioned(open, 'alice')
  const deposits = [1, 2, 3].map(() => alice.deposit('quote', 200_000_000n))
  const [resting, waiting] = deposits.map((deposit) => alice.place(deposit))
  await open.chain.finalizeLeaves()
  await venue.place('alice', resting!)
  expect(venue.status()).toMatchObject({ ready: true, reasons: [] })

  await free(open, 256 * MIB - 1)
  expect((await refusalOf(venue.place('alice', waiting!))).code).toBe('disk_full')
  const split = alice.reshape([deposits[2]!], [150_000_000n, 50_000_000n])
  expect((await refusalOf(venue.reshape('alice', split))).code).toBe('disk_full')
  expect((await refusalOf(venue.place('alice', resting!))).code).toBe('order_exists')
  const status = venue.status()
  expect(status).toMatchObject({ ready: false, matching: 'running' })
  expect(status.reasons).toHaveLength(1)
  expect(status.reasons[0]).toStartWith('disk_full: less than 256 MiB is free')
  expect(gauge(open)).toBe(256 * MIB - 1)
  await venue.withdraw('alice', alice.withdrawal(deposits[2]!, 4_000_000n))
  await venue.cancel('alice', resting!.order_id, alice.cancel(resting!.order_id))

  await free(open, 256 * MIB)
  expect(venue.status().reasons).toEqual([])
  await venue.place('alice', alice.place(deposits[1]!))
})

test('rows that no snapshot took count as a full disk beyond their bound, until one takes them', async () => {
  const open = await site.open()
  const { venue, engine } = open
  const alice = await Trader.provisioned(open, 'alice')
  const [first, second, third] = [1, 2, 3].map(() => alice.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const { retired } = engine.state
  // Four million real rows would take half a minute: only their number is raised.
  const others = rowsWaiting(engine.state) - (retired.size - retired.first)
  let waiting = LIMITS.rows_waiting_max - others
  Object.defineProperty(retired, 'size', { configurable: true, get: () => retired.first + waiting })
  expect(rowsWaiting(engine.state)).toBe(LIMITS.rows_waiting_max)
  expect(gauge(open, 'tacit_rows_waiting')).toBe(LIMITS.rows_waiting_max)
  const resting = alice.place(first!)
  await venue.place('alice', resting)
  waiting++
  expect((await refusalOf(venue.place('alice', alice.place(second!)))).code).toBe('disk_full')
  expect(venue.status().reasons).toEqual([expect.stringMatching(/^disk_full: .* took no snapshot/)])
  await venue.withdraw('alice', alice.withdrawal(third!, 4_000_000n))
  await venue.cancel('alice', resting.order_id, alice.cancel(resting.order_id))
  waiting -= 100
  await venue.place('alice', alice.place(second!))
  expect(venue.status().reasons).toEqual([])
}, 120_000)

test('a volume that cannot be measured keeps its last figure', async () => {
  const open = await site.open()
  await free(open, 300 * MIB)
  disk.freeBytes = () => Promise.reject(new Error('EIO'))
  await open.engine.disk_gauge.measure()
  expect(gauge(open)).toBe(300 * MIB)
})

test.skipIf(!isMountable())('a volume without inodes has no free byte', () =>
  withSmallVolume(`24m,nr_inodes=${2 * LIMITS.disk_inodes_min}`, async (dir) => {
    expect(await disk.freeBytes(dir)).toBeGreaterThan(20 * MIB)
    for (let at = 0; at < LIMITS.disk_inodes_min; at++) writeFileSync(join(dir, `${at}`), '')
    expect(await disk.freeBytes(dir)).toBe(0)
  }),
)

test('a drain whose snapshot the disk does not take still gives the lease back', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'alice')
  const unfinished = join(site.dir, 'snapshots', 'snapshot.unfinished')
  mkdirSync(unfinished)
  await open.venue.drain()
  expect(open.engine.snapshotting.failures).toBe(1)
  expect(disk.list(`${site.dir}/snapshots`)).toEqual(['snapshot.unfinished'])
  await open.close()
  rmdirSync(unfinished)
  const next = await site.open()
  expect(next.engine.loaded.verdict).toEqual({ fault: undefined, released: true })
  expect(next.engine.loaded.snapshot).toBeUndefined()
})

const until = async (holds: () => boolean) => {
  while (!holds()) await Bun.sleep(5)
}

test.skipIf(!isMountable())(
  'a volume without one free byte: cancels go on, and all heals with space',
  async () => {
    await withSmallVolume('24m', async (dir) => {
      // The reserve would not fit into the memory of a test.
      disk.freeBytes = async (path) => (await real.freeBytes(path)) + 254 * MIB
      const open = await site.open({}, dir)
      const { venue, engine } = open
      const alice = await Trader.provisioned(open, 'alice')
      const orders = [1, 2, 3].map(() => alice.place(alice.deposit('quote', 200_000_000n)))
      await open.chain.finalizeLeaves()
      for (const order of orders.slice(0, 2)) await venue.place('alice', order)
      const spare = join(dir, 'journal', 'spare.zeros')
      await until(() => disk.exists(spare))
      await engine.loaded.history.flush()
      expect(venue.status().reasons).toEqual([])

      const free = fillUp(dir)
      await engine.disk_gauge.measure()
      expect((await refusalOf(venue.place('alice', orders[2]!))).code).toBe('disk_full')
      const [first, second] = orders
      await venue.cancel('alice', first!.order_id, alice.cancel(first!.order_id))
      while (!engine.loaded.history.isStalled()) {
        await engine.sequencer.submit({
          kind: 'queue_capacity',
          capacity: engine.state.settlement.queue_capacity + 1,
        })
        await Bun.sleep(5)
      }
      expect(venue.status().reasons.map((reason) => reason.split(':')[0])).toEqual([
        'disk_full',
        'history_stalled',
      ])
      expect(venue.status()).toMatchObject({ ready: false, matching: 'running' })
      expect((await venue.order('alice', first!.order_id)).status).toBe('cancelled')

      free()
      await engine.disk_gauge.measure()
      await until(() => venue.status().reasons.length === 0)
      await venue.place('alice', orders[2]!)
      await open.close()
      const again = await site.open({}, dir)
      const status = async (id: string) => (await again.venue.order('alice', id)).status
      expect(await status(first!.order_id)).toBe('cancelled')
      expect(await status(second!.order_id)).toBe('accepted')
      expect(await status(orders[2]!.order_id)).toBe('accepted')
      expect(again.fatal.concat(open.fatal)).toEqual([])
      await again.close()
    })
  },
  120_000,
)

test.skipIf(!isMountable())(
  'a volume without one free byte: batches close and deposits arrive, and a start after that lacks none of it',
  async () => {
    await withSmallVolume('24m', async (dir) => {
      disk.freeBytes = async (path) => (await real.freeBytes(path)) + 254 * MIB
      const open = await site.open({}, dir)
      const { venue, engine } = open
      const alice = await Trader.provisioned(open, 'alice')
      const order = alice.place(alice.deposit('quote', 200_000_000n))
      await open.chain.finalizeLeaves()
      await venue.place('alice', order)
      await until(() => disk.exists(join(dir, 'journal', 'spare.zeros')))
      await engine.loaded.history.flush()
      const { facts } = engine.loaded
      const free = fillUp(dir)
      const before = facts.batches().closed
      await until(() => {
        void open.chain.tick(1)
        return facts.isStalled()
      })
      // One more than a part of the tree has.
      for (let at = 0; at < 1_025; at++) alice.deposit('quote', 1_000_000n)
      await open.chain.finalizeLeaves()
      const { root } = engine.hash.root()
      expect(open.fatal).toEqual([])
      expect(venue.status().matching).toBe('running')
      expect(venue.status().reasons.map((reason) => reason.split(':')[0])).toContain('history_stalled')
      await venue.cancel('alice', order.order_id, alice.cancel(order.order_id))

      free()
      await engine.disk_gauge.measure()
      await until(() => {
        void open.chain.tick(1)
        return venue.status().reasons.length === 0
      })
      const { closed } = facts.batches()
      expect(closed).toBeGreaterThan(before)
      await open.close()
      const again = await site.open({}, dir)
      expect(again.engine.hash.root().root).toEqual(root)
      expect(again.engine.loaded.facts.batches().closed).toBeGreaterThanOrEqual(closed)
      await again.close()
    })
  },
  120_000,
)

test.skipIf(!isMountable())(
  'a start on a volume without one free byte says so, changes nothing, and succeeds with space',
  async () => {
    await withSmallVolume('24m', async (dir) => {
      disk.freeBytes = async () => 300 * MIB
      const first = await site.open({}, dir)
      const alice = await Trader.provisioned(first, 'alice')
      const order = alice.place(alice.deposit('quote', 200_000_000n))
      await first.chain.finalizeLeaves()
      await first.venue.place('alice', order)
      await first.close()
      const free = fillUp(dir)
      const refused = await site.open({}, dir).catch((error: Error) => error)
      expect(String(refused)).toMatch(/full/)
      expect(String(refused)).not.toMatch(/another process/)
      free()
      const second = await site.open({}, dir)
      expect((await second.venue.order('alice', order.order_id)).status).toBe('accepted')
      await second.close()
    })
  },
  120_000,
)

test.skipIf(!isMountable())(
  'a read-only volume is named at the start, which changes nothing',
  async () => {
    await withSmallVolume('24m', async (dir) => {
      disk.freeBytes = async () => 300 * MIB
      const first = await site.open({}, dir)
      const alice = await Trader.provisioned(first, 'alice')
      const order = alice.place(alice.deposit('quote', 200_000_000n))
      await first.chain.finalizeLeaves()
      await first.venue.place('alice', order)
      await first.close()
      setReadOnly(dir, true)
      const refused = await site.open({}, dir).catch((error: Error) => error)
      expect(String(refused)).toMatch(/read-?only/i)
      setReadOnly(dir, false)
      const second = await site.open({}, dir)
      expect((await second.venue.order('alice', order.order_id)).status).toBe('accepted')
      await second.close()
    })
  },
  120_000,
)

test('a slow disk delays answers and nothing else, and nothing is acknowledged before it is on it', async () => {
  const exists = join(site.dir, 'slow')
  // Derives the digest of the passphrase once, before the chain would seem to stall meanwhile.
  testCredential('alice', new Uint8Array(32))
  const open = await site.open({}, site.dir, { while: { exists, trouble: 'sync_lasts' } })
  const { venue, chain, engine, fatal } = open
  const alice = await Trader.provisioned(open, 'alice')
  const orders = [1, 2].map(() => alice.place(alice.deposit('quote', 200_000_000n)))
  const { request } = testCredential('alice', fromHex(venue.identity().venue, 32)!)
  await venue.setCredential(undefined, request)
  await chain.finalizeLeaves()
  await engine.sequencer.durable()
  const { book } = open.accounts
  const { account_id, credential } = book.credential(request.credential_id)!
  const { seq_durable } = engine.sequencer
  writeFileSync(exists, '')
  let acknowledged = 0
  const placing = orders.map(async (order) => {
    await venue.place('alice', order)
    acknowledged++
  })
  const logging_in = book
    .recordLogin(account_id, credential, { token_id: 'ab'.repeat(32), until_ms: 1 })
    .then(() => {
      acknowledged++
    })
  await until(() => engine.state.orders.size === 2)
  const pending = () => venue.metrics().find(({ name }) => name === 'tacit_journal_pending')!.value
  await Bun.sleep(100)
  expect([acknowledged, engine.sequencer.seq_durable]).toEqual([0, seq_durable])
  expect(pending()).toBeGreaterThanOrEqual(2)
  expect(venue.status()).toMatchObject({ ready: true, reasons: [] })
  expect((await refusalOf(venue.order('alice', orders[0]!.order_id))).code).toBe('order_unknown')
  rmSync(exists)
  await Promise.all([...placing, logging_in])
  expect(acknowledged).toBe(3)
  expect((await venue.order('alice', orders[0]!.order_id)).status).toBe('accepted')
  expect(fatal).toEqual([])
})

test('a damaged old file is in status and metrics before a start needs it, and trading goes on', async () => {
  const first = await site.open()
  await Trader.provisioned(first, 'alice')
  await first.close()
  const { scrub_every_ms } = LIMITS
  Object.assign(LIMITS, { scrub_every_ms: 1 })
  const open = await site.open()
  Object.assign(LIMITS, { scrub_every_ms })
  const { venue } = open
  await Trader.provisioned(open, 'bob')
  const path = join(site.dir, 'journal', '0000000001.segment')
  const bytes = readFileSync(path)
  bytes[600]! ^= 1
  writeFileSync(path, bytes)
  await until(() => venue.status().reasons.length > 0)
  expect(venue.status().reasons).toEqual([
    'file_damaged: 0000000001.segment: trading goes on, and a start that needs the file fails: keep this process running and put the file back from a backup',
  ])
  expect(venue.status().ready).toBe(true)
  expect(venue.metrics().find(({ name }) => name === 'tacit_files_damaged')!.value).toBe(1)
  bytes[600]! ^= 1
  writeFileSync(path, bytes)
  await until(() => venue.status().reasons.length === 0)
  // No listing shows a deleted name: the newest snapshot is one that a start would take.
  await open.engine.snapshotting.now()
  const [snapshot] = readdirSync(join(site.dir, 'snapshots')).sort().reverse()
  renameSync(join(site.dir, 'snapshots', snapshot!), join(site.dir, snapshot!))
  await until(() => venue.status().reasons.some((reason) => reason.includes(snapshot!)))
  renameSync(join(site.dir, snapshot!), join(site.dir, 'snapshots', snapshot!))
  await until(() => venue.status().reasons.length === 0)
})
