/** Snapshots of a running venue: equal to its state, beside its intake, the end of unneeded journal, hostile stores. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { journaledSnapshot } from '../../../engine/boot/check_chain'
import { loadState } from '../../../engine/boot/load_state'
import { verifyBackup } from '../../../engine/boot/verify_backup'
import { disk } from '../../../engine/journal/disk'
import { LIMITS } from '../../../engine/limits'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { makeSnapshot } from '../../../engine/snapshots/make_snapshot'
import { BLOCK_BYTES, StoreDamaged } from '../../../engine/stores/part_file'
import { concatBytes, toHex } from '../../../protocol/bytes'
import { admission } from '../../kit/venue/machine_world'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

// A snapshot on a busy machine takes as long as a stalled chain.
const { stall_min_ms } = LIMITS
beforeAll(() => Object.assign(LIMITS, { stall_min_ms: 600_000 }))
afterAll(() => Object.assign(LIMITS, { stall_min_ms }))

const site = new TestSite()
afterEach(() => site.remove())

/** The newest snapshot that the journal names. */
async function newest({ engine: { loaded } }: TestVenue) {
  return (
    await loaded.snapshots.newestValid(
      async (point) => (await journaledSnapshot(loaded.journal, point))?.state_hash,
    )
  ).snapshot
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

test('the snapshot of a running venue is its state, byte for byte', async () => {
  const open = await site.open()
  await traded(open, 5)
  const expected = toHex(encodeState(open.engine.state))
  const { seq } = open.engine.loaded.journal.head()
  await open.engine.snapshotting.now()
  const snapshot = await newest(open)
  expect(snapshot?.seq).toBe(seq)
  expect(
    toHex(concatBytes(...Array.from(snapshot!.blocks(), (block) => new Uint8Array(block)))) === expected,
  ).toBe(true)
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
  const snapshot = await newest(open)
  expect(
    toHex(concatBytes(...Array.from(snapshot!.blocks(), (block) => new Uint8Array(block)))) === expected,
  ).toBe(true)
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

test('journal behind both snapshots and the retention goes, and the venue starts from what is left', async () => {
  const first = await site.open({ retention_days: 1e-9 })
  const trader = await traded(first, 2)
  const { journal } = first.engine.loaded
  const deposit = trader.deposit('quote', 200_000_000n)
  await first.chain.finalizeLeaves()
  // Each round begins a segment, as a start does; the oldest may go once two snapshots and an anchor lie behind it.
  for (let round = 0; round < 3; round++) {
    await fillSegment(first, trader, deposit)
    await first.engine.anchoring.now()
    await first.engine.snapshotting.now()
  }
  expect(first.engine.snapshotting.failures).toBe(0)
  expect(journal.firstSeq()).toBeGreaterThan(1)
  expect(journal.firstSeq()).toBeLessThanOrEqual(first.engine.loaded.snapshots.seqs()[1]! + 1)
  await first.engine.anchoring.now()
  const expected = toHex(encodeState(first.engine.state))
  await first.close()

  const loaded = await loadState(
    first.config,
    { keys: site.keys, chain: first.chain },
    await first.chain.readConfig(),
    {
      segment_bytes: 2 * 1024 * 1024,
    },
  )
  expect(toHex(encodeState(loaded.state)) === expected).toBe(true)
  await loaded.journal.close()
  await loaded.history.close()
  loaded.facts.close()
  // The check of a backup without its snapshots says what is missing.
  const { genesis_hash, program_id, config_account } = first.chain
  const chain = { genesis_hash, program_id, config_account, config: await first.chain.readConfig() }
  rmSync(join(first.config.data_dir, 'snapshots'), { recursive: true })
  const refused = await verifyBackup({ dir: first.config.data_dir, keys: site.keys, chain }).catch(String)
  expect(refused).toMatch(/a snapshot and its stores are needed$/)
}, 120_000)

test('the journal behind the position on chain stays, however old: the next start judges the tail by it', async () => {
  const first = await site.open({ retention_days: 1e-9 })
  const trader = await traded(first, 2)
  await first.engine.anchoring.now()
  const { journal_seq } = await first.chain.readConfig()
  const deposit = trader.deposit('quote', 200_000_000n)
  await first.chain.finalizeLeaves()
  // As in a venue that is paused for longer than the retention: nothing of this is anchored.
  for (let round = 0; round < 3; round++) {
    await fillSegment(first, trader, deposit)
    await first.engine.snapshotting.now()
  }
  expect(first.engine.loaded.journal.firstSeq()).toBeLessThanOrEqual(journal_seq + 1)
  await first.close()
  const second = await site.open()
  expect(second.venue.status()).toMatchObject({ ready: true })
}, 120_000)

/** What a host does to a part while the venue is stopped. */
const HOSTILE = {
  deleted: (part: string) => rmSync(part),
  cut: (part: string) => truncateSync(part, statSync(part).size - 1),
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
  const { newest: older, parts } = await kept(first)
  await first.venue.cancelAll('alice', [trader.cancelAll()])
  await first.engine.sequencer.durable()
  await first.engine.snapshotting.now()
  await first.engine.anchoring.now()
  const rows = first.engine.loaded.stores.covered
  expect(rows.finals).toBeGreaterThan(3)
  await first.close()
  const dir = join(first.config.data_dir, 'stores')
  rmSync(dir, { recursive: true })
  cpSync(parts, dir, { recursive: true })
  const { engine } = await site.open()
  expect(engine.loaded.snapshot?.seq).toBe(older)
  expect(engine.loaded.stores.covered).toEqual(rows)
  for (let number = 0; number < rows.finals; number++)
    expect(engine.loaded.stores.indexOf('finals', engine.state.finals.rows.at(number))).toBe(number)
}, 120_000)

/** The newest snapshot, and a copy of its stores. */
async function kept({ engine, config }: TestVenue) {
  const parts = join(config.data_dir, 'stores-copy')
  cpSync(join(config.data_dir, 'stores'), parts, { recursive: true })
  return { newest: engine.snapshotting.newest?.seq, parts }
}

/** What a host does to a part under a running venue. */
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
  const { genesis_hash, program_id, config_account } = first.chain
  const judged = async () => {
    const config = await first.chain.readConfig()
    const chain = { genesis_hash, program_id, config_account, config }
    return verifyBackup({ dir: first.config.data_dir, keys: site.keys, chain })
  }
  const { seq } = first.engine.snapshotting.newest!
  expect((await judged()).snapshot).toEqual({ seq, agrees: true })
  const part = partsOf(first)[0]!
  const bytes = readFileSync(part)
  writeFileSync(part, bytes.fill(0, bytes.length - BLOCK_BYTES))
  expect((await judged()).snapshot).toBeUndefined()
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

async function expectFailed(promise: Promise<unknown>): Promise<void> {
  const outcome = await promise.then(
    () => 'answered',
    () => 'failed',
  )
  expect(outcome).toBe('failed')
}

test('without the stores, and with a journal that begins later, the start is refused with what to do', async () => {
  const first = await site.open({ retention_days: 1e-9 })
  const trader = await traded(first, 2)
  const deposit = trader.deposit('quote', 200_000_000n)
  await first.chain.finalizeLeaves()
  for (let round = 0; round < 3; round++) {
    await fillSegment(first, trader, deposit)
    await first.engine.anchoring.now()
    await first.engine.snapshotting.now()
  }
  expect(first.engine.loaded.journal.firstSeq()).toBeGreaterThan(1)
  await first.engine.anchoring.now()
  await first.close()
  for (const part of partsOf(first)) rmSync(part)
  const config = await first.chain.readConfig()
  const opening = loadState(first.config, { keys: site.keys, chain: first.chain }, config, {
    segment_bytes: 2 * 1024 * 1024,
  })
  const error = await opening.then(
    () => undefined,
    (reason: Error) => reason,
  )
  expect(error).toBeInstanceOf(StoreDamaged)
  expect(error!.message).toContain('from a backup')
}, 120_000)

test('files that no snapshot names go at a start, but not while the chain contradicts the journal', async () => {
  const first = await site.open()
  await traded(first, 2)
  await first.engine.snapshotting.now()
  await first.engine.anchoring.now()
  const config = await first.chain.readConfig()
  await first.close()
  const newer = join(first.config.data_dir, 'stores', `${'f'.repeat(16)}.part`)
  writeFileSync(newer, new Uint8Array(1))
  for (const [journal_seq, fault] of [
    [config.journal_seq + 1_000, 'rolled_back'],
    [config.journal_seq, undefined],
  ] as const) {
    const ports = { keys: site.keys, chain: first.chain }
    const loaded = await loadState(first.config, ports, { ...config, journal_seq })
    expect(loaded.verdict.fault).toBe(fault)
    expect(existsSync(newer)).toBe(fault !== undefined)
    await loaded.journal.close()
    await loaded.history.close()
    loaded.facts.close()
    loaded.stores.close()
  }
}, 120_000)

test('journal within the retention stays', async () => {
  const open = await site.open()
  const trader = await traded(open, 2)
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  for (let round = 0; round < 2; round++) {
    await fillSegment(open, trader, deposit)
    await open.engine.snapshotting.now()
  }
  expect(open.engine.loaded.journal.firstSeq()).toBe(1)
}, 120_000)

/** Records of an account with a long name are the cheapest way to more than one segment of two MiB. */
async function fillSegment(open: TestVenue, trader: Trader, deposit: ReturnType<Trader['deposit']>) {
  const name = 'n'.repeat(500_000)
  for (let at = 0; at < 5; at++) {
    const version = (open.engine.state.accounts.get(name)?.version ?? 0) + 1
    await open.engine.sequencer.submit(admission(name, { version }))
  }
  const { order_id } = await open.venue.place('alice', trader.place(deposit))
  await open.venue.cancel('alice', order_id, trader.cancel(order_id))
  await open.engine.sequencer.durable()
}

test('a snapshot that finds no space leaves nothing on the disk, however often it is tried', async () => {
  const open = await site.open()
  const trader = await traded(open, 3)
  await open.engine.snapshotting.now()
  await open.venue.cancelAll('alice', [trader.cancelAll()])
  // A row for the stores: the part that it needs is written before the snapshot fails.
  trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  await open.engine.sequencer.durable()
  const { data_dir } = open.config
  const source = sourceOf(open)
  const { stores_dir, snapshots_dir } = source
  const { newest: before } = open.engine.snapshotting
  const point = { ...open.engine.loaded.journal.head(), unix_ms: 0, newest: before }
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
  for (const dir of ['journal', 'stores', 'snapshots'].map((name) => join(data_dir, name))) {
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
  const trader = await traded(open, 2)
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  for (let round = 0; round < 2; round++) await fillSegment(open, trader, deposit)
  await open.engine.snapshotting.now()
  // The first frame of the second segment, whose time says whether the first one may go.
  const path = join(open.config.data_dir, 'journal', '0000000002.segment')
  const bytes = readFileSync(path)
  bytes[600]! ^= 1
  writeFileSync(path, bytes)
  await fillSegment(open, trader, deposit)
  await open.engine.snapshotting.now()
  expect(open.engine.snapshotting.failures).toBe(0)
  expect(open.engine.loaded.journal.firstSeq()).toBe(1)
}, 120_000)
