/** The read models are derived: a lost or broken database is rebuilt, never fatal. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HistoryBroken } from '../../../engine/history/contract'
import { fill, id, open, order, Recorder, withFolder, withHistory } from './account_events'

const FILE = 'history.sqlite'

async function fillFolder(dir: string, orders = 50): Promise<void> {
  await withHistory(dir, async (history) => {
    const recorder = new Recorder(history)
    for (let n = 1; n <= orders; n++) recorder.record('alice', 'order.accepted', order(n, 'accepted'))
    recorder.record('alice', 'fill.matched', fill(1, 0, 'matched'))
  })
}

/** The history's own connection may still be closing on its thread when its close is answered. */
function patientDatabase(path: string): Database {
  const db = new Database(path)
  db.run('PRAGMA busy_timeout = 10000')
  return db
}

test('the watermark says how far the journal is contained, also after a restart', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      expect(history.watermark()).toBe(0)
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.all([])
      recorder.all([])
      expect(history.watermark()).toBe(0)
      await history.flush()
      expect(history.watermark()).toBe(3)
    })
    await withHistory(dir, async (history) => expect(history.watermark()).toBe(3))
  })
})

test('feeding known events again changes nothing', async () => {
  await withFolder(async (dir) => {
    await fillFolder(dir)
    await withHistory(dir, async (history) => {
      const again = new Recorder(history)
      for (let n = 1; n <= 50; n++) again.record('alice', 'order.cancelled', order(n, 'cancelled'))
      expect(history.backlog()).toBe(0)
      expect(history.order(id(3))?.status).toBe('accepted')
      expect(history.seqLast('alice')).toBe(51)
    })
  })
})

test('a database that is missing, garbage, cut short, of another key or an earlier version is rebuilt', async () => {
  const breakings: Record<string, (path: string) => void> = {
    missing: (path) => rmSync(path),
    garbage: (path) => writeFileSync(path, 'this is no database'.repeat(500)),
    cut: (path) => truncateSync(path, 5000),
    empty: (path) => truncateSync(path, 0),
    emptied: (path) => {
      const db = patientDatabase(path)
      db.run('DELETE FROM meta')
      db.close()
    },
    earlier: (path) => {
      const db = patientDatabase(path)
      db.run('PRAGMA user_version = 5')
      db.close()
    },
    foreign: (path) => {
      const db = patientDatabase(path)
      db.run('DELETE FROM salts')
      db.close()
    },
  }
  for (const [name, breakIt] of Object.entries(breakings)) {
    await withFolder(async (dir) => {
      await fillFolder(dir)
      breakIt(join(dir, FILE))
      await withHistory(dir, async (history) => {
        expect({ name, watermark: history.watermark() }).toEqual({ name, watermark: 0 })
        expect(history.order(id(1))).toBeUndefined()
        new Recorder(history).record('alice', 'order.accepted', order(1, 'accepted'))
        expect(history.order(id(1))?.status).toBe('accepted')
      })
    })
  }
  await withFolder(async (dir) => {
    await fillFolder(dir)
    const history = await open(dir, new Uint8Array(32).fill(6))
    expect(history.watermark()).toBe(0)
    await history.close()
  })
})

test('content changed on disk is never served: reads fail, and the next opening rebuilds', async () => {
  await withFolder(async (dir) => {
    await fillFolder(dir, 100)
    const db = patientDatabase(join(dir, FILE))
    // Two blocks of events change places.
    db.run(
      'UPDATE blocks SET sealed = (SELECT sealed FROM blocks AS other WHERE other.rowid = 3 - blocks.rowid) WHERE rowid < 3',
    )
    db.close()
    await withHistory(dir, async (history) => {
      expect(history.watermark()).toBe(101)
      expect(history.order(id(70))?.status).toBe('accepted')
      expect(() => history.order(id(1))).toThrow(HistoryBroken)
      expect(history.watermark()).toBe(0)
      expect(() => history.seqLast('alice')).toThrow(HistoryBroken)
      // Recording goes on being harmless: the venue lives without its history.
      history.record(100, [])
    })
    await withHistory(dir, async (history) => {
      expect(history.watermark()).toBe(0)
      expect(history.order(id(70))).toBeUndefined()
    })
  })
})

test('the files hold neither names nor contents', async () => {
  await withFolder(async (dir) => {
    await fillFolder(dir)
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history, history.watermark())
      recorder.record('bob', 'order.accepted', order(0x1b2c3d4e5f6071, 'accepted'))
    })
    const all = Buffer.concat(readdirSync(dir).map((name) => readFileSync(join(dir, name))))
    expect(all.length).toBeGreaterThan(4096)
    for (const text of [
      'alice',
      'bob',
      id(3),
      '1b2c3d4e5f6071',
      'SOL-USDC',
      'accepted',
      'price_limit',
      'ab'.repeat(8),
    ])
      expect({ text, found: all.includes(text) }).toEqual({ text, found: false })
    for (const hex of ['ab'.repeat(16), '1b2c3d4e5f6071']) {
      expect({ hex, found: all.includes(Buffer.from(hex, 'hex')) }).toEqual({ hex, found: false })
    }
  })
})

test('a page that is cut short holds no old view of the database', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (let n = 1; n <= 20; n++) recorder.record('alice', 'order.accepted', order(n, 'accepted'))
      await history.flush()
      expect(history.orders('alice', { after: 0, limit: 1 }).items.length).toBe(1)
      expect(history.orders('alice', { after: 0, limit: 1, symbol: 'SOL-USDC' }).items.length).toBe(1)
      recorder.record('alice', 'order.cancelled', order(1, 'cancelled'))
      await history.flush()
      expect(history.order(id(1))?.status).toBe('cancelled')
      expect(history.orders('alice', { after: 0, limit: 1 }).items[0]?.status).toBe('cancelled')
      expect(history.seqLast('alice')).toBe(21)
    })
  })
})
