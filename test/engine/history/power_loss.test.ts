/**
 * History and public facts when the process or the power ends after any step of a write or of pruning. A killed process leaves
 * the files as they are after the step. A power loss also drops any sectors of the write-ahead log that were written since
 * SQLite last synced it. The reopened database must hold exactly the rows of the journal point that it names, and that point
 * must not precede one that was durable.
 */
import { expect, test } from 'bun:test'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openWritable } from '../../../engine/history/database'
import { pruneTables } from '../../../engine/history/prune_tables'
import { Names } from '../../../engine/history/seal'
import { Store } from '../../../engine/history/store'
import { eventWriter } from '../../../engine/history/write_tables'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { Random } from '../../kit/random'
import { DAY_MS, fill, KEY, order, pointAt, START_MS, withFolder } from './account_events'

const SEED = Number(process.env['TACIT_POWER_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const SECTOR = 512
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
  if (lost !== undefined) {
    const from = lost.random.below(log.length + 1)
    for (let at = 0; at < log.length; at += SECTOR) {
      if (at < from || lost.random.below(3) > 0) continue
      const sector = log.subarray(at, at + SECTOR)
      sector.fill(0)
      sector.set(lost.synced.subarray(at, at + SECTOR))
    }
  }
  writeFileSync(join(left, `${file}-wal`), log)
  return left
}

const ACCOUNTS = ['alice', 'bob']
const PER_BATCH = 40
/** Batch `n`: an order of each account changes its status with each event. */
function batch(n: number) {
  return ACCOUNTS.map((account_id, account) => {
    const lines = Array.from({ length: PER_BATCH }, (_, at) => {
      const seq = (n - 1) * PER_BATCH + at + 1
      const first = at === 0
      const data = order(2 * n + account, first ? 'accepted' : 'partially_filled', { seq })
      const kind = first ? 'order.accepted' : 'order.partially_filled'
      return JSON.stringify({ seq, kind, slot: 6, unix_ms: START_MS, data })
    })
    return { account_id, lines: lines.join('\n') }
  })
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
  'a history whose process or power ends after any step of a write is that of its point',
  () =>
    withFolder(async (dir) => {
      console.log(`TACIT_POWER_SEED=${SEED}`)
      const file = 'history.sqlite'
      const random = new Random(SEED)
      const { db, sealer } = openWritable(dir, KEY)
      // FULL: SQLite syncs the log at each commit, as is assumed below.
      expect(db.query('PRAGMA synchronous').get()).toEqual({ synchronous: 2 })
      // The copies must not depend on when SQLite moves the log into the file.
      db.run('PRAGMA wal_autocheckpoint = 0')
      const writer = eventWriter(db, KEY, new Names(KEY), sealer)
      let steps = 0
      for (let n = 1; n <= 5; n++) {
        let synced = walOf(dir, file)
        const step = writer.write(batch(n), pointAt(n))
        for (let more = true; more; steps++) {
          more = step()
          const durable = more ? n - 1 : n
          if (!more) synced = walOf(dir, file)
          expect(reopened(leave(dir, file))).toBe(durable)
          expect(reopened(leave(dir, file, { synced, random }))).toBe(durable)
        }
        if (n === 3) db.run('PRAGMA wal_checkpoint(RESTART)')
      }
      expect(steps).toBeGreaterThan(20)
      db.close()
    }),
  120_000,
)

const PRUNED_ORDERS = 1_600
/** Closed orders with a fill on day 0, an open one among them in ten; then young ones. */
function longPast() {
  return ACCOUNTS.map((account_id, account) => {
    const lines: string[] = []
    const push = (kind: string, days: number, data: object) => {
      const seq = lines.length + 1
      const unix_ms = START_MS + days * DAY_MS
      lines.push(JSON.stringify({ seq, kind, slot: 6, unix_ms, data: { ...data, seq } }))
    }
    for (let at = 0; at < PRUNED_ORDERS; at++) {
      const n = 10_000 * (account + 1) + at
      const days = at < PRUNED_ORDERS - 100 ? 0 : 20
      push('order.accepted', days, order(n, 'accepted'))
      if (at % 10 === 0) continue
      push('fill.matched', days, fill(n, 0, 'matched'))
      push('order.filled', days, order(n, 'filled', { filled_amount: '1000' }))
    }
    return { account_id, lines: lines.join('\n') }
  })
}

/** What an account may read: every row opens its event, so nothing that a row needs was deleted. */
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
  'pruning whose process or power ends after any step leaves what is young or open, and the next round ends it',
  () =>
    withFolder(async (dir) => {
      const file = 'history.sqlite'
      const random = new Random(SEED)
      const names = new Names(KEY)
      const cutoff = START_MS + 10 * DAY_MS
      const { db, sealer } = openWritable(dir, KEY)
      db.run('PRAGMA wal_autocheckpoint = 0')
      const write = eventWriter(db, KEY, names, sealer).write(longPast(), pointAt(1))
      while (write());
      const prune = pruneTables(db, names, cutoff)
      const left: ReturnType<typeof readable>['accounts'][] = []
      let synced = walOf(dir, file)
      let steps = 0
      for (let more = true; more; steps++) {
        more = prune()
        for (const lost of [undefined, { synced, random }]) {
          const copy = leave(dir, file, lost)
          const found = readable(copy)
          expect(found.point).toEqual(pointAt(1))
          const again = pruneTables(found.db, names, cutoff)
          while (again());
          found.db.close()
          const ended = readable(copy)
          left.push(ended.accounts)
          ended.db.close()
        }
        synced = walOf(dir, file)
      }
      expect(steps).toBeGreaterThan(6)
      const [{ orders, fills, events }] = left[0] as [(typeof left)[0][0]]
      const open = (PRUNED_ORDERS - 100) / 10
      expect([orders.length, fills.length]).toEqual([open + 100, 90])
      expect(events).toHaveLength(100 / 10 + 90 * 3)
      for (const one of left) expect(one).toEqual(left[0]!)
      db.close()
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
