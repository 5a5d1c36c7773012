/** A data volume that is nearly full: what adds risk waits, what takes it away goes on, and nothing needs a restart. */
import { afterEach, expect, test } from 'bun:test'
import { disk } from '../../engine/journal/disk'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { refusalOf } from '../kit/venue/refusal_of'
import { Trader } from '../kit/venue/trader'

const real = { ...disk }
let site = new TestSite()
afterEach(async () => {
  Object.assign(disk, real)
  await site.remove()
  site = new TestSite()
})

const MIB = 2 ** 20
/** The volume has so much space from now on. */
async function free(open: TestVenue, bytes: number): Promise<void> {
  disk.freeBytes = async () => bytes
  await open.engine.disk_gauge.measure()
}
const gauge = (open: TestVenue) =>
  open.venue.metrics().find(({ name }) => name === 'tacit_disk_free_bytes')!.value

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

test('a volume that cannot be measured keeps its last figure', async () => {
  const open = await site.open()
  await free(open, 300 * MIB)
  disk.freeBytes = () => Promise.reject(new Error('EIO'))
  await open.engine.disk_gauge.measure()
  expect(gauge(open)).toBe(300 * MIB)
})

test('a drain whose snapshot finds no space still gives the lease back, and keeps no unfinished file', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'alice')
  const { create } = real
  disk.create = async (path) => {
    const file = await create(path)
    const write = () => Promise.reject(Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }))
    return { write, datasync: () => file.datasync(), sync: () => file.sync(), close: () => file.close() }
  }
  await open.venue.drain()
  expect(disk.list(`${site.dir}/snapshots`)).toEqual([])
  await open.close()
  Object.assign(disk, real)
  const next = await site.open()
  expect(next.engine.loaded.verdict).toEqual({ fault: undefined, released: true })
  expect(next.engine.loaded.snapshot).toBeUndefined()
})
