/** Snapshots of a running venue: equal to its state, concurrent with intake, the end of unneeded journal, hostile stores. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { journaledSnapshot } from '../../../engine/boot/check_chain'
import { type Loaded, loadState } from '../../../engine/boot/load_state'
import { verifyBackup } from '../../../engine/boot/verify_backup'
import { disk } from '../../../engine/journal/disk'
import { snapshotName } from '../../../engine/journal/snapshot_store'
import { LIMITS } from '../../../engine/limits'
import { encodeState } from '../../../engine/machine/codec/state_codec'
import type { VaultConfig } from '../../../engine/ports'
import { makeSnapshot } from '../../../engine/snapshots/make_snapshot'
import { BLOCK_BYTES, StoreDamaged } from '../../../engine/stores/part_file'
import { Stores } from '../../../engine/stores/stores'
import { toHex } from '../../../protocol/bytes'
import type { ChainPoint } from '../../../protocol/units'
import { admission } from '../../kit/venue/machine_world'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

// A snapshot on a busy machine takes as long as a stalled chain.
const { stall_min_ms } = LIMITS
beforeAll(() => Object.assign(LIMITS, { stall_min_ms: 600_000 }))
afterAll(() => Object.assign(LIMITS, { stall_min_ms }))

const site = new TestSite()
afterEach(() => site.remove())

/** The newest snapshot that the journal names has the state's bytes in hex. Returns its seq. */
async function expectNewest({ engine: { loaded } }: TestVenue, state: string): Promise<number> {
  const { journal, snapshots } = loaded
  const hashOf = async (point: ChainPoint) => (await journaledSnapshot(journal, point))?.state_hash
  const { snapshot } = await snapshots.newestValid(hashOf)
  expect(Array.from(snapshot!.blocks(), toHex).join('') === state).toBe(true)
  return snapshot!.seq
}

async function traded(open: TestVenue, orders: number): Promise<Trader> {
  const trader = await Trader.provisioned(open, 'alice', { orders_live_max: 100_000 })
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  for (let at = 0; at < orders; at++) {
    const { order_id } = await open.venue.place('alice', trader.place(deposit))
    await open.venue.cancel('alice', order_id, trader.cancel(order_id))
  }
  await open.venue.place('alice', trader.place(deposit))
  await open.engine.sequencer.durable()
  return trader
}

const sourceOf = ({ config: { data_dir } }: TestVenue) => ({
  journal_dir: join(data_dir, 'journal'),
  snapshots_dir: join(data_dir, 'snapshots'),
  stores_dir: join(data_dir, 'stores'),
  journal_key: site.keys.journal_key,
  retention_ms: 86_400_000,
})

/** The folder of a stopped venue, read once more, and the verdict of `judge`. */
async function reloaded({ config, chain }: TestVenue, judge: (loaded: Loaded) => void, vault?: VaultConfig) {
  const ports = { keys: site.keys, chain }
  const loaded = await loadState(config, ports, vault ?? (await chain.readConfig()), {
    segment_bytes: 2 * 1024 * 1024,
  })
  judge(loaded)
  await loaded.journal.close()
  await loaded.history.close()
  loaded.facts.close()
  loaded.stores.close()
}

/** The verdict on the folder by the check of a backup. */
async function judged({ config: { data_dir }, chain }: TestVenue) {
  const { genesis_hash, program_id, config_account } = chain
  const vault = { genesis_hash, program_id, config_account, config: await chain.readConfig() }
  return verifyBackup({ dir: data_dir, keys: site.keys, chain: vault })
}

/**
 * Each round begins a segment, as a start does; the oldest may go once two snapshots and an anchor lie behind it. Records of an
 * account with a long name are the cheapest way to more than one segment of two MiB.
 */
async function rounds(first: TestVenue, by?: Trader) {
  const trader = by ?? (await traded(first, 2))
  const deposit = trader.deposit('quote', 200_000_000n)
  await first.chain.finalizeLeaves()
  const fill = async ({ engine, venue } = first) => {
    const name = 'n'.repeat(500_000)
    for (let at = 0; at < 5; at++) {
      const version = (engine.state.accounts.get(name)?.version ?? 0) + 1
      await engine.sequencer.submit(admission(name, { version }))
    }
    const { order_id } = await venue.place('alice', trader.place(deposit))
    await venue.cancel('alice', order_id, trader.cancel(order_id))
    await engine.sequencer.durable()
  }
  const round = async (open = first) => {
    await fill(open)
    await open.engine.anchoring.now()
    await open.engine.snapshotting.now()
  }
  return { fill, round }
}

test('the snapshot of a running venue is its state, byte for byte', async () => {
  const open = await site.open()
  await traded(open, 5)
  const expected = toHex(encodeState(open.engine.state))
  const { seq } = open.engine.loaded.journal.head()
  await open.engine.snapshotting.now()
  expect(await expectNewest(open, expected)).toBe(seq)
  expect(open.engine.snapshotting).toMatchObject({ newest: { seq }, failures: 0 })
})

test('a second snapshot is made of the first and the records since', async () => {
  const open = await site.open()
  const trader = await traded(open, 3)
  await open.engine.snapshotting.now()
  await open.chain.tick(4)
  await open.venue.cancelAll('alice', [trader.cancelAll()])
  await open.engine.sequencer.durable()
  const expected = toHex(encodeState(open.engine.state))
  await open.engine.snapshotting.now()
  const { snapshots } = open.engine.loaded
  expect(snapshots.seqs()).toHaveLength(2)
  await expectNewest(open, expected)
})

test('a venue that started from a snapshot makes the next, and so leaves one at its stop', async () => {
  const first = await site.open()
  await traded(first, 3)
  await first.venue.drain()
  await first.close()
  const second = await site.open()
  expect(second.engine.loaded.snapshot).toBeDefined()
  await second.venue.drain()
  expect(second.engine.snapshotting.failures).toBe(0)
  const { seq } = second.engine.loaded.journal.head()
  await second.close()
  const third = await site.open()
  // The records of the snapshot and of the released lease.
  expect(third.engine.loaded.snapshot?.seq).toBe(seq - 2)
  const { kept } = third.engine.snapshotting
  expect(kept).toEqual(third.engine.loaded.snapshots.seqs())
  expect(kept).toHaveLength(2)
})

test('commands are answered while a snapshot is made', async () => {
  const open = await site.open()
  const trader = await traded(open, 2)
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  const before = open.engine.sequencer.seq_durable
  const made = open.engine.snapshotting.now()
  await open.venue.place('alice', trader.place(deposit))
  expect(open.engine.snapshotting.newest).toBeUndefined()
  expect(open.engine.sequencer.seq_durable).toBeGreaterThan(before)
  await made
  expect(open.engine.snapshotting.newest?.seq).toBe(before)
})

test('journal behind both snapshots and the retention goes, and the venue starts from the rest', async () => {
  const first = await site.open({ retention_days: 1e-9 })
  const { journal } = first.engine.loaded
  const { round } = await rounds(first)
  for (let at = 0; at < 3; at++) await round()
  expect(first.engine.snapshotting.failures).toBe(0)
  expect(journal.firstSeq()).toBeGreaterThan(1)
  expect(journal.firstSeq()).toBeLessThanOrEqual(first.engine.loaded.snapshots.seqs()[1]! + 1)
  await first.engine.anchoring.now()
  const expected = toHex(encodeState(first.engine.state))
  await first.close()
  await reloaded(first, ({ state }) => expect(toHex(encodeState(state)) === expected).toBe(true))
  // The check of a backup without its snapshots names the missing file.
  rmSync(sourceOf(first).snapshots_dir, { recursive: true })
  expect(`${await expectFailed(judged(first))}`).toMatch(/a snapshot and its stores are needed$/)
}, 120_000)

for (const start of ['same', 'next'] as const)
  test(`a newest snapshot removed under the ${start} process: the round after it is made of the one before`, async () => {
    let open = await site.open({ retention_days: 1e-9 })
    const { round } = await rounds(open)
    for (let at = 0; at < 3; at++) await round()
    if (start === 'next') {
      await open.close()
      open = await site.open({ retention_days: 1e-9 })
    }
    const { journal, snapshots, stores } = open.engine.loaded
    const { snapshotting, anchoring, state } = open.engine
    expect(journal.firstSeq()).toBeGreaterThan(1)
    const [newest, previous] = snapshots.seqs()
    expect(snapshotting.newest!.seq).toBe(newest!)
    const { snapshots_dir, stores_dir } = sourceOf(open)
    rmSync(join(snapshots_dir, snapshotName(newest!)))
    await round(open)
    expect(snapshotting.failures).toBe(0)
    const made = snapshotting.newest!
    expect(made.seq).toBeGreaterThan(newest!)
    expect(snapshotting.kept).toEqual([made.seq, previous!])
    expect(snapshots.seqs()).toEqual([made.seq, previous!])
    // A start that falls back to the one before finds all that follows it.
    expect(journal.firstSeq()).toBeLessThanOrEqual(previous! + 1)
    expect(Stores.areWhole({ dir: stores_dir, key: site.keys.journal_key }, made, 'blocks')).toBe(true)
    await anchoring.now()
    const expected = toHex(encodeState(state))
    const { covered } = stores
    await open.close()
    await reloaded(open, (loaded) => {
      expect(loaded.snapshot?.seq).toBe(made.seq)
      expect(toHex(encodeState(loaded.state)) === expected).toBe(true)
      expect(loaded.stores.covered).toEqual(covered)
    })
  }, 120_000)

test('the journal behind the position on chain stays, however old: the next start judges the tail by it', async () => {
  const first = await site.open({ retention_days: 1e-9 })
  const trader = await traded(first, 2)
  await first.engine.anchoring.now()
  const { journal_seq } = await first.chain.readConfig()
  // As in a venue that is paused for longer than the retention: nothing of this is anchored.
  const { fill } = await rounds(first, trader)
  for (let at = 0; at < 3; at++) {
    await fill()
    await first.engine.snapshotting.now()
  }
  expect(first.engine.loaded.journal.firstSeq()).toBeLessThanOrEqual(journal_seq + 1)
  await first.close()
  const second = await site.open()
  expect(second.venue.status()).toMatchObject({ ready: true })
}, 120_000)

/** A host's act on a part while the venue is stopped. */
const HOSTILE = {
  deleted: (part: string) => rmSync(part),
  cut: (part: string) => writeFileSync(part, readFileSync(part).subarray(0, -1)),
}

const partsOf = ({ config }: TestVenue) => {
  const dir = join(config.data_dir, 'stores')
  return readdirSync(dir)
    .filter((name) => name.endsWith('.part'))
    .map((name) => join(dir, name))
}

for (const [name, spoil] of Object.entries(HOSTILE))
  test(`stores of which every part is ${name} are rebuilt from the journal, and the venue goes on`, async () => {
    const first = await site.open()
    const trader = await traded(first, 3)
    await first.engine.snapshotting.now()
    await first.engine.anchoring.now()
    const { state } = first.engine
    const leaf = first.engine.loaded.stores.at('leaves', 0).slice()
    expect(state.leaves.first).toBeGreaterThan(0)
    const orders = [...state.orders.keys()]
    await first.close()
    for (const part of partsOf(first)) spoil(part)
    const second = await site.open()
    expect(second.engine.loaded.snapshot).toBeUndefined()
    expect([...second.engine.state.orders.keys()]).toEqual(orders)
    expect(second.engine.state.leaves.first).toBe(state.leaves.first)
    expect(second.engine.loaded.stores.indexOf('leaves', leaf)).toBe(0)
    expect(second.engine.loaded.stores.at('leaves', 0)).toEqual(leaf)
    await second.venue.cancelAll('alice', [trader.cancelAll()])
    await second.engine.sequencer.durable()
    await second.engine.snapshotting.now()
    expect(second.engine.snapshotting.failures).toBe(0)
    await second.close()
    const third = await site.open()
    expect(third.engine.loaded.snapshot).toBeDefined()
    expect(third.engine.loaded.stores.indexOf('leaves', leaf)).toBe(0)
  }, 120_000)

test('stores as they were before the newest snapshot count with the older one, and the replay adds the rest', async () => {
  const first = await site.open()
  const trader = await traded(first, 3)
  await first.engine.snapshotting.now()
  const older = first.engine.snapshotting.newest?.seq
  const dir = sourceOf(first).stores_dir
  const parts = `${dir}-copy`
  cpSync(dir, parts, { recursive: true })
  await first.venue.cancelAll('alice', [trader.cancelAll()])
  await first.engine.sequencer.durable()
  await first.engine.snapshotting.now()
  await first.engine.anchoring.now()
  const rows = first.engine.loaded.stores.covered
  expect(rows.finals).toBeGreaterThan(3)
  await first.close()
  rmSync(dir, { recursive: true })
  cpSync(parts, dir, { recursive: true })
  const { engine } = await site.open()
  expect(engine.loaded.snapshot?.seq).toBe(older)
  expect(engine.loaded.stores.covered).toEqual(rows)
  for (let number = 0; number < rows.finals; number++)
    expect(engine.loaded.stores.indexOf('finals', engine.state.finals.rows.at(number))).toBe(number)
}, 120_000)

/** A host's act on a part under a running venue. */
const SPOILED_BLOCKS = {
  swapped: (bytes: Buffer) => Buffer.concat([bytes.subarray(BLOCK_BYTES), bytes.subarray(0, BLOCK_BYTES)]),
  zeroed: (bytes: Buffer) => Buffer.alloc(bytes.length),
  cut: (bytes: Buffer) => bytes.subarray(0, BLOCK_BYTES / 2),
}

for (const [name, spoil] of Object.entries(SPOILED_BLOCKS))
  test(`blocks that are ${name} end the venue at the first lookup, and the next start rebuilds them`, async () => {
    const first = await site.open()
    const trader = await traded(first, 3)
    const deposit = trader.deposit('quote', 200_000_000n)
    await first.chain.finalizeLeaves()
    await first.engine.snapshotting.now()
    await first.engine.anchoring.now()
    for (const part of partsOf(first)) writeFileSync(part, spoil(readFileSync(part)))
    const request = trader.place(deposit)
    await expectFailed(first.venue.place('alice', request))
    expect(first.fatal.map((error) => error.name)).toEqual(['StoreDamaged'])
    await expectFailed(first.venue.cancelAll('alice', [trader.cancelAll()]))
    await first.close()
    const second = await site.open()
    expect(second.engine.loaded.snapshot).toBeUndefined()
    expect((await second.venue.place('alice', request)).order_id).toBe(request.order_id)
    expect(second.fatal).toEqual([])
  }, 120_000)

test('a block that no lookup reads is noticed by a later snapshot and by the check of a backup', async () => {
  const first = await site.open()
  const trader = await traded(first, 3)
  await first.engine.snapshotting.now()
  await first.engine.anchoring.now()
  const { seq } = first.engine.snapshotting.newest!
  expect((await judged(first)).snapshot).toEqual({ seq, agrees: true })
  const part = partsOf(first)[0]!
  const bytes = readFileSync(part)
  writeFileSync(part, bytes.fill(0, bytes.length - BLOCK_BYTES))
  expect((await judged(first)).snapshot).toBeUndefined()
  await first.venue.cancelAll('alice', [trader.cancelAll()])
  await first.engine.sequencer.durable()
  expect(first.fatal).toEqual([])
  await first.engine.snapshotting.now()
  expect(first.fatal.map(({ name }) => name)).toEqual(['StoreDamaged'])
  await first.close()
  const { engine } = await site.open()
  expect(engine.loaded.snapshot).toBeUndefined()
  expect(engine.loaded.stores.covered.finals).toBeGreaterThan(0)
}, 120_000)

async function expectFailed(promise: Promise<unknown>): Promise<Error> {
  const error = await promise.then(
    () => undefined,
    (reason: Error) => reason,
  )
  expect(error).toBeInstanceOf(Error)
  return error!
}

test('without the stores, and with a journal that begins later, the start is refused and names the remedy', async () => {
  const first = await site.open({ retention_days: 1e-9 })
  const { round } = await rounds(first)
  for (let at = 0; at < 3; at++) await round()
  expect(first.engine.loaded.journal.firstSeq()).toBeGreaterThan(1)
  await first.engine.anchoring.now()
  await first.close()
  for (const part of partsOf(first)) rmSync(part)
  const error = await expectFailed(reloaded(first, () => undefined))
  expect(error).toBeInstanceOf(StoreDamaged)
  expect(error.message).toContain('from a backup')
}, 120_000)

test('files that no snapshot names go at a start, but not while the chain contradicts the journal', async () => {
  const first = await site.open()
  await traded(first, 2)
  await first.engine.snapshotting.now()
  await first.engine.anchoring.now()
  const config = await first.chain.readConfig()
  await first.close()
  const newer = `${'f'.repeat(16)}.part`
  const { stores_dir } = sourceOf(first)
  writeFileSync(join(stores_dir, newer), new Uint8Array(1))
  for (const [journal_seq, fault] of [
    [config.journal_seq + 1_000, 'rolled_back'],
    [config.journal_seq, undefined],
  ] as const) {
    const judge = ({ verdict }: Loaded) => expect(verdict.fault).toBe(fault)
    await reloaded(first, judge, { ...config, journal_seq })
    expect(readdirSync(stores_dir).includes(newer)).toBe(fault !== undefined)
  }
}, 120_000)

test('journal within the retention stays', async () => {
  const open = await site.open()
  const { fill } = await rounds(open)
  for (let at = 0; at < 2; at++) {
    await fill()
    await open.engine.snapshotting.now()
  }
  expect(open.engine.loaded.journal.firstSeq()).toBe(1)
}, 120_000)

test('a snapshot that finds no space leaves nothing on the disk, however often it is tried', async () => {
  const open = await site.open()
  const trader = await traded(open, 3)
  await open.engine.snapshotting.now()
  await open.venue.cancelAll('alice', [trader.cancelAll()])
  // A row for the stores: the part that it needs is written before the snapshot fails.
  trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  await open.engine.sequencer.durable()
  const source = sourceOf(open)
  const { stores_dir, snapshots_dir } = source
  const point = { ...open.engine.loaded.journal.head(), unix_ms: 0, newest: open.engine.snapshotting.newest }
  const files = () => [readdirSync(stores_dir), readdirSync(snapshots_dir)]
  const kept = files()
  const full = () => Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
  const { create } = disk
  const withoutSpace = async (path: string) => {
    const file = await create(path)
    const write = () => Promise.reject(full())
    return { write, datasync: () => file.datasync(), sync: () => file.sync(), close: () => file.close() }
  }
  try {
    for (const failing of [() => Promise.reject(full()), withoutSpace, withoutSpace]) {
      disk.create = failing
      await expectFailed(makeSnapshot(source, point))
      expect(files()).toEqual(kept)
    }
  } finally {
    disk.create = create
  }
  await open.engine.snapshotting.now()
  expect(open.engine.snapshotting.failures).toBe(0)
  expect(open.engine.snapshotting.newest?.seq).toBe(point.seq)
  expect(readdirSync(stores_dir).filter((name) => !kept[0]!.includes(name))).toHaveLength(2)
  // The owner alone reads and enters; the lock is SQLite's.
  for (const dir of [source.journal_dir, stores_dir, snapshots_dir]) {
    const paths = [dir, ...readdirSync(dir).map((name) => join(dir, name))]
    const open_to_others = paths.filter((path) => (statSync(path).mode & 0o077) !== 0)
    expect(open_to_others.filter((path) => !path.includes('journal.lock'))).toEqual([])
  }
})

test('a rebuild of the stores that finds no space, or is killed, leaves no part to the next one', async () => {
  const open = await site.open()
  const trader = await traded(open, 3)
  for (let round = 0; round < 3; round++) {
    await open.engine.snapshotting.now()
    trader.deposit('quote', 200_000_000n)
    await open.chain.finalizeLeaves()
    await open.engine.sequencer.durable()
  }
  await open.engine.anchoring.now()
  const { seq, head } = open.engine.loaded.journal.head()
  const source = sourceOf(open)
  const config = await open.chain.readConfig()
  const point = { seq, head, unix_ms: 0, newest: undefined }
  await open.close()
  const { createSync, write } = disk
  /** The disk is full from the third part on. */
  const withoutSpace = async (body: () => Promise<unknown>) => {
    let parts = 0
    disk.createSync = (path, flags) => {
      parts += Number(path.endsWith('.part'))
      return createSync(path, flags)
    }
    disk.write = (...given) => {
      if (parts >= 3) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
      return write(...given)
    }
    try {
      await expectFailed(body())
      expect(parts).toBe(3)
    } finally {
      Object.assign(disk, { createSync, write })
    }
  }
  const before = readdirSync(source.stores_dir)
  await withoutSpace(() => makeSnapshot(source, point))
  expect(readdirSync(source.stores_dir)).toEqual(before)
  rmSync(source.snapshots_dir, { recursive: true })
  // Of a start that was killed.
  writeFileSync(join(source.stores_dir, `${'f'.repeat(16)}.part`), new Uint8Array(1))
  await withoutSpace(() => loadState(open.config, { keys: site.keys, chain: open.chain }, config))
  expect(readdirSync(source.stores_dir)).toEqual([])
}, 120_000)

test('damage in an old segment stops no snapshot, and the segment stays', async () => {
  const open = await site.open({ retention_days: 1e-9 })
  const { fill } = await rounds(open)
  for (let at = 0; at < 2; at++) await fill()
  await open.engine.snapshotting.now()
  // The first frame of the second segment, whose time says whether the first one may go.
  const path = join(open.config.data_dir, 'journal', '0000000002.segment')
  const bytes = readFileSync(path)
  bytes[600]! ^= 1
  writeFileSync(path, bytes)
  await fill()
  await open.engine.snapshotting.now()
  expect(open.engine.snapshotting.failures).toBe(0)
  expect(open.engine.loaded.journal.firstSeq()).toBe(1)
}, 120_000)
