/**
 * History and public facts when the process or the power ends after any step of a write, of a merge of the log into the
 * database, or of pruning. A killed process leaves the files as they are after the step. A power loss also drops any sectors of
 * both files that were written since their last sync. The reopened database must hold exactly the rows of the journal point that
 * it names, and that point must not precede one that was durable.
 */
import { afterEach, expect, mock, spyOn, test } from 'bun:test'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { openWritable } from '../../../engine/history/database'
import { GentleSync } from '../../../engine/history/gentle_sync'
import { pruneTables } from '../../../engine/history/prune_tables'
import { Names } from '../../../engine/history/seal'
import { Store } from '../../../engine/history/store'
import { eventWriter } from '../../../engine/history/write_tables'
import { disk } from '../../../engine/journal/disk'
import { PublicFacts } from '../../../engine/reads/public_facts'
import type * as wire from '../../../protocol/wire/trading'
import { Random } from '../../kit/random'
import { DAY_MS, fill, KEY, logged, order, pointAt, START_MS, withFolder } from './account_events'

const SEED = Number(process.env['TACIT_POWER_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const SECTOR = 512
const DRAWS = 3
const walOf = (dir: string, file: string): Buffer => {
  const path = join(dir, `${file}-wal`)
  return existsSync(path) ? readFileSync(path) : Buffer.alloc(0)
}

/** A folder as a kill leaves it, or with `synced` as a power loss may: the log as it was then, with some later sectors. */
function leave(dir: string, file: string, lost?: { synced: Buffer; random: Random }): string {
  const left = join(dir, 'left')
  rmSync(left, { recursive: true, force: true })
  mkdirSync(left)
  copyFileSync(join(dir, file), join(left, file))
  const log = walOf(dir, file)
  if (lost !== undefined) dropSectors(log, lost.synced, lost.random)
  writeFileSync(join(left, `${file}-wal`), log)
  return left
}

/** Puts some sectors back as they were; now and then none or all of them, which independent draws hardly give. */
function dropSectors(bytes: Buffer, synced: Buffer, random: Random): void {
  const mood = random.below(4)
  const from = random.below(bytes.length + 1)
  for (let at = 0; at < bytes.length; at += SECTOR) {
    if (mood === 0 || (mood > 1 && (at < from || random.below(3) > 0))) continue
    const sector = bytes.subarray(at, at + SECTOR)
    sector.fill(0)
    sector.set(synced.subarray(at, at + SECTOR))
  }
}

afterEach(() => mock.restore())

const FILE = 'history.sqlite'
const LOG = `${FILE}-wal`
/** Bytes of the header of a log: SQLite syncs it by itself before the frames of a log that it begins again. */
const LOG_HEADER = 32

/** The history's files, and the part of them that is on the medium. */
class History {
  readonly db
  readonly sealer
  readonly sync: GentleSync
  private readonly random = new Random(SEED)
  private readonly synced = new Map([FILE, LOG].map((name) => [name, Buffer.alloc(0)]))

  constructor(private readonly dir: string) {
    const names = new Map<number, string>()
    const { openSync, datasync } = disk
    spyOn(disk, 'openSync').mockImplementation((path, flags) => {
      const fd = openSync(path, flags)
      names.set(fd, basename(path))
      return fd
    })
    spyOn(disk, 'datasync').mockImplementation((fd) => {
      datasync(fd)
      this.keep(names.get(fd)!)
    })
    const { db, sealer } = openWritable(dir, KEY)
    this.db = db
    this.sealer = sealer
    expect(db.query('PRAGMA wal_autocheckpoint').get()).toEqual({ wal_autocheckpoint: 0 })
    this.sync = new GentleSync(db, dir)
    this.keep(FILE)
    this.keep(LOG)
  }

  private keep(name: string): void {
    this.synced.set(name, readFileSync(join(this.dir, name)))
  }

  /** The folder as a kill leaves it, then as some power losses may. */
  *left(): Generator<string> {
    // NORMAL: SQLite syncs the header of a new log, and nothing else.
    expect(this.db.query('PRAGMA synchronous').get()).toEqual({ synchronous: 1 })
    yield leave(this.dir, FILE)
    const log = readFileSync(join(this.dir, LOG))
    log.copy(this.synced.get(LOG)!, 0, 0, LOG_HEADER)
    for (let draw = 0; draw < DRAWS; draw++) {
      const left = leave(this.dir, FILE)
      for (const name of [FILE, LOG]) {
        const bytes = readFileSync(join(left, name))
        dropSectors(bytes, this.synced.get(name)!, this.random)
        writeFileSync(join(left, name), bytes)
      }
      yield left
    }
  }

  close(): void {
    this.db.close()
    this.sync.close()
  }
}

const ACCOUNTS = ['alice', 'bob']
const PER_BATCH = 40
/** Batch `n`: an order of each account changes its status with each event. */
function batch(n: number) {
  const events = ACCOUNTS.flatMap((account_id, account) =>
    Array.from({ length: PER_BATCH }, (_, at) => {
      const seq = (n - 1) * PER_BATCH + at + 1
      const first = at === 0
      const data = order(2 * n + account, first ? 'accepted' : 'partially_filled', { seq, arrival_slot: n })
      const kind: wire.EventKind = first ? 'order.accepted' : 'order.partially_filled'
      return { account_id, event: { seq, kind, slot: 6, unix_ms: START_MS, data } }
    }),
  )
  return logged(events)
}

/** The seq of the point, after a check that the rows are those of that point. */
function reopened(left: string): number {
  const { db, point } = openWritable(left, KEY)
  try {
    const store = new Store(db, KEY)
    for (const account_id of ACCOUNTS) {
      const events = store.events(account_id, 0, Number.MAX_SAFE_INTEGER, 10_000)
      expect(events.map(({ seq }) => seq)).toEqual(
        Array.from({ length: point.seq * PER_BATCH }, (_, at) => at + 1),
      )
      const { rows } = store.orders(account_id, { after: 0 })
      expect([...rows]).toHaveLength(point.seq)
    }
    expect(point).toEqual(point.seq === 0 ? { seq: 0, head: new Uint8Array(32) } : pointAt(point.seq))
    return point.seq
  } finally {
    db.close()
  }
}

test(
  'a history whose process or power ends after any step of a write or of a merge is that of its point',
  () =>
    withFolder(async (dir) => {
      console.log(`TACIT_POWER_SEED=${SEED}`)
      const history = new History(dir)
      const writer = eventWriter(history.db, KEY, new Names(KEY), history.sealer, 4)
      let steps = 0
      let lost = 0
      const check = (durable: number, written: number) => {
        const [killed, ...points] = [...history.left().map(reopened)]
        expect(killed).toBe(written)
        for (const point of points) {
          expect(point).toBeGreaterThanOrEqual(durable)
          expect(point).toBeLessThanOrEqual(written)
          if (point < written) lost++
        }
        steps++
      }
      let durable = 0
      for (let n = 1; n <= 9; n++) {
        const step = writer.write(batch(n), pointAt(n))
        for (let more = true; more; ) {
          more = step()
          check(durable, more ? n - 1 : n)
        }
        if (n % 4 === 1) {
          history.sync.sync()
          durable = n
          check(n, n)
        }
        if (n % 3 > 0) continue
        for (const _ of history.sync.merge()) {
          durable = n
          check(n, n)
        }
      }
      expect(steps).toBeGreaterThan(40)
      expect(lost).toBeGreaterThan(20)
      history.close()
    }),
  120_000,
)

test('after a sync that failed nothing is written', () =>
  withFolder(async (dir) => {
    const history = new History(dir)
    const { sync, db, sealer } = history
    const write = (n: number) => {
      sync.check()
      const step = eventWriter(db, KEY, new Names(KEY), sealer).write(batch(n), pointAt(n))
      while (step());
      sync.committed()
    }
    write(1)
    const failing = spyOn(disk, 'datasync').mockImplementationOnce(() => {
      throw Object.assign(new Error('EIO'), { code: 'EIO' })
    })
    expect(() => sync.sync()).toThrow('EIO')
    failing.mockRestore()
    expect(() => write(2)).toThrow('EIO')
    expect(() => sync.sync()).toThrow('EIO')
    history.close()
  }))

const PRUNED_ORDERS = 1_600
/** Closed orders with a fill on day 0, an open one among them in ten; then young ones. */
function longPast() {
  const all = ACCOUNTS.flatMap((account_id, account) => {
    const events: { account_id: string; event: wire.AccountEvent }[] = []
    const push = (kind: wire.EventKind, days: number, data: wire.Order | wire.Fill) => {
      const seq = events.length + 1
      const unix_ms = START_MS + days * DAY_MS
      events.push({ account_id, event: { seq, kind, slot: 6, unix_ms, data: { ...data, seq } } })
    }
    for (let at = 0; at < PRUNED_ORDERS; at++) {
      const n = 10_000 * (account + 1) + at
      const days = at < PRUNED_ORDERS - 100 ? 0 : 20
      const arrival_slot = 1 + (at >> 4)
      push('order.accepted', days, order(n, 'accepted', { arrival_slot }))
      if (at % 10 === 0) continue
      push('fill.matched', days, fill(n, 0, 'matched'))
      push('order.filled', days, order(n, 'filled', { filled_amount: '1000', arrival_slot }))
    }
    return events
  })
  return logged(all)
}

/** An account's readable events: every row opens its event, so nothing that a row needs was deleted. */
function readable(dir: string) {
  const { db, point } = openWritable(dir, KEY)
  const store = new Store(db, KEY)
  const accounts = ACCOUNTS.map((account_id) => {
    const events = store.events(account_id, 0, Number.MAX_SAFE_INTEGER, 10_000).map(({ seq }) => seq)
    const orders = [...store.orders(account_id, { after: 0 }).rows].map(
      ({ event }) => JSON.parse(event).data.order_id,
    )
    const fills = store.fills(account_id, 0, 10_000).map(({ text }) => JSON.parse(text).order_id)
    expect(events).toEqual(Array.from({ length: events.length }, (_, at) => events[0]! + at))
    for (const order_id of fills) expect(orders).toContain(order_id)
    return { events, orders, fills }
  })
  return { db, point, accounts }
}

test(
  'pruning whose process or power ends after any step leaves young and open rows, and the next round ends it',
  () =>
    withFolder(async (dir) => {
      const names = new Names(KEY)
      const cutoff = START_MS + 10 * DAY_MS
      const history = new History(dir)
      const write = eventWriter(history.db, KEY, names, history.sealer, 100).write(longPast(), pointAt(1))
      while (write());
      history.sync.sync()
      const prune = pruneTables(history.db, names, cutoff)
      const left: ReturnType<typeof readable>['accounts'][] = []
      let steps = 0
      for (let more = true; more; steps++) {
        more = prune()
        if (steps % 5 === 4) for (const _ of history.sync.merge());
        for (const copy of history.left()) {
          const found = readable(copy)
          expect(found.point).toEqual(pointAt(1))
          const again = pruneTables(found.db, names, cutoff)
          while (again());
          found.db.close()
          const ended = readable(copy)
          left.push(ended.accounts)
          ended.db.close()
        }
      }
      expect(steps).toBeGreaterThan(6)
      const [{ orders, fills, events }] = left[0] as [(typeof left)[0][0]]
      const open = (PRUNED_ORDERS - 100) / 10
      expect([orders.length, fills.length]).toEqual([open + 100, 90])
      expect(events).toHaveLength(100 / 10 + 90 * 3)
      for (const one of left) expect(one).toEqual(left[0]!)
      history.close()
    }),
  120_000,
)

test(
  'facts whose process or power ends after any group are those of their point, and none before the last snapshot',
  () =>
    withFolder(async (dir) => {
      const file = 'facts.sqlite'
      const random = new Random(SEED)
      const facts = new PublicFacts(dir, KEY)
      const landed = { stage: 'finalized', signature: new Uint8Array(64), slot: 9 } as const
      const read = (left: string) => {
        const again = new PublicFacts(left, KEY)
        const found = again.watermark()
        expect(again.landed.last()?.batch ?? 0).toBe(found)
        again.close()
        return found
      }
      let marked = 0
      let lost = 0
      for (let seq = 1; seq <= 60; seq++) {
        const stage = { ...landed, batch_id: seq }
        facts.record(seq, { kind: 'batch_stage', unix_ms: 0, stage }, [], undefined)
        facts.seal(pointAt(seq))
        expect(read(leave(dir, file))).toBe(seq)
        const after = read(leave(dir, file, { synced: Buffer.alloc(0), random }))
        expect(after).toBeGreaterThanOrEqual(marked)
        if (after < seq) lost++
        if (seq % 20 > 0) continue
        await facts.mark(pointAt(seq))
        marked = seq
      }
      expect(lost).toBeGreaterThan(10)
      facts.close()
    }),
  120_000,
)
