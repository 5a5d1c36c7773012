/** The newest snapshot is whole and its stores are not, or a start could not read it: the venue and its next round go on. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { snapshotName } from '../../../engine/journal/snapshot_store'
import { LIMITS } from '../../../engine/limits'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

// A snapshot on a busy machine takes as long as a stalled chain.
const { stall_min_ms } = LIMITS
beforeAll(() => Object.assign(LIMITS, { stall_min_ms: 600_000 }))
afterAll(() => Object.assign(LIMITS, { stall_min_ms }))

const site = new TestSite()
afterEach(() => site.remove())

const filesOf = ({ config }: TestVenue, ending: string) =>
  readdirSync(join(config.data_dir, 'stores'))
    .filter((name) => name.endsWith(ending))
    .sort()
    .map((name) => join(config.data_dir, 'stores', name))

function flip(path: string): void {
  const bytes = readFileSync(path)
  bytes[bytes.length >> 1]! ^= 1
  writeFileSync(path, bytes)
}

/** A stopped or running venue with two snapshots, the newer with a catalogue and a part that the older lacks. */
async function twoSnapshots(runs = false, more: Parameters<TestSite['open']>[0] = {}) {
  const open = await site.open(more)
  const trader = await Trader.provisioned(open, 'alice', { orders_live_max: 10_000 })
  const tradeOnce = async () => {
    const deposit = trader.deposit('quote', 200_000_000n)
    await open.chain.finalizeLeaves()
    const { order_id } = await open.venue.place('alice', trader.place(deposit))
    await open.venue.cancel('alice', order_id, trader.cancel(order_id))
    await open.engine.sequencer.durable()
    await open.engine.snapshotting.now()
    return open.engine.snapshotting.newest!.seq
  }
  const older = await tradeOnce()
  const parts = filesOf(open, '.part')
  const newer = await tradeOnce()
  const part = filesOf(open, '.part').find((path) => !parts.includes(path))!
  await open.engine.anchoring.now()
  const snapshot = join(open.config.data_dir, 'snapshots', snapshotName(newer))
  if (!runs) await open.close()
  return { open, older, newer, part, catalogue: filesOf(open, '.catalogue').at(-1)!, snapshot }
}

/** Makes a snapshot in each of three lives. @returns the snapshots from which these started */
async function threeLives(): Promise<(number | undefined)[]> {
  const from: (number | undefined)[] = []
  for (let life = 1; life <= 3; life++) {
    const { engine, venue, fatal } = await site.open()
    from.push(engine.loaded.snapshot?.seq)
    await engine.snapshotting.now()
    expect([engine.snapshotting.failures, fatal]).toEqual([0, []])
    await venue.drain()
    expect(fatal).toEqual([])
    await venue.close()
  }
  return from
}

type Damage = Pick<Awaited<ReturnType<typeof twoSnapshots>>, 'catalogue' | 'part'>
const DAMAGES: [string, (files: Damage) => void][] = [
  ['catalogue differs', ({ catalogue }) => flip(catalogue)],
  ['catalogue is gone', ({ catalogue }) => rmSync(catalogue)],
  ['part is gone', ({ part }) => rmSync(part)],
  ['part is cut', ({ part }) => writeFileSync(part, readFileSync(part).subarray(0, 100))],
]

test.each(DAMAGES)(
  'the newest %s: a start and its rounds go on from the one before',
  async (_, damage) => {
    const { older, newer, ...files } = await twoSnapshots()
    damage(files)
    const [first, second, third] = await threeLives()
    expect(first).toBe(older)
    expect(second!).toBeGreaterThan(newer)
    expect(third!).toBeGreaterThan(second!)
  },
  120_000,
)

test('the newest catalogue changes under a running venue: its next round is made of the one before', async () => {
  const { open, catalogue, newer } = await twoSnapshots(true)
  flip(catalogue)
  await open.engine.sequencer.durable()
  await open.engine.snapshotting.now()
  expect([open.engine.snapshotting.failures, open.fatal]).toEqual([0, []])
  expect(open.engine.snapshotting.newest!.seq).toBeGreaterThan(newer)
  await open.close()
  await threeLives()
}, 120_000)

test('the file of a snapshot that was never finished goes at the next start', async () => {
  const { snapshot } = await twoSnapshots()
  const unfinished = join(snapshot, '../snapshot.unfinished')
  writeFileSync(unfinished, new Uint8Array(1_000))
  await site.open()
  expect(existsSync(unfinished)).toBe(false)
}, 60_000)

test.each([
  // Its stores go at the start.
  [
    'is not there',
    'older',
    (path: string) => renameSync(path, `${path}.away`),
    (path: string) => renameSync(`${path}.away`, path),
  ],
  ['reads wrongly', 'newer', flip, flip],
] as const)(
  'the newest snapshot %s at a start, and is right at its round, which is made of the %s one: two are kept',
  async (_, base, damage, mend) => {
    const { snapshot, older, newer } = await twoSnapshots(false, { retention_days: 1e-9 })
    damage(snapshot)
    const open = await site.open({ retention_days: 1e-9 })
    expect(open.engine.loaded.snapshot?.seq).toBe(older)
    mend(snapshot)
    await open.engine.snapshotting.now()
    const { snapshotting, loaded } = open.engine
    expect([snapshotting.failures, open.fatal]).toEqual([0, []])
    expect(snapshotting.kept[1]).toBe({ older, newer }[base])
    expect(loaded.snapshots.seqs()).toEqual(snapshotting.kept)
  },
  120_000,
)
