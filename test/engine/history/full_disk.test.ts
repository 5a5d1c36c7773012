/** A history whose disk takes no writes: reads go on, writes are repeated until they succeed, and no restart is needed. */
import { expect, jest, test } from 'bun:test'
import { join } from 'node:path'
import { HistoryBroken, HistoryStalled, type LoggedEvents } from '../../../engine/history/contract'
import { openWritable } from '../../../engine/history/database'
import { withTexts } from '../../../engine/history/event_text'
import { Names } from '../../../engine/history/seal'
import { WriteBehind } from '../../../engine/history/write_behind'
import { writeGently } from '../../../engine/history/write_gently'
import { eventWriter } from '../../../engine/history/write_tables'
import { LIMITS } from '../../../engine/limits'
import { fillUp, isMountable, withSmallVolume } from '../../kit/small_volume'
import { id, KEY, logged, open, order, pointAt, Recorder, textsOf, withFolder } from './account_events'

const until = async (holds: () => boolean) => {
  while (!holds()) await Bun.sleep(5)
}

test('SQLite without space keeps nothing of a write, which is repeated until there is some', async () => {
  await withFolder(async (dir) => {
    const { db, sealer } = openWritable(dir, KEY)
    const log: string[] = []
    const writes = writeGently(
      eventWriter(db, KEY, new Names(KEY), sealer),
      (watermark) => void log.push(`written ${watermark}`),
      () => {
        log.push('stalled')
        if (log.length === 2) db.run('PRAGMA max_page_count = 100000')
      },
      (error) => void log.push(String(error)),
    )
    const { page_count } = db.query<{ page_count: number }, []>('PRAGMA page_count').get()!
    db.run(`PRAGMA max_page_count = ${page_count}`)
    const recorder = new Recorder({ record: () => undefined, seal: () => undefined } as never)
    const events = Array.from({ length: 300 }, (_, n) => ({
      account_id: 'alice',
      event: recorder.event('alice', 'order.accepted', order(n + 1, 'accepted')),
    }))
    writes.push({ events: logged(events), point: pointAt(300) })
    await writes.idle()
    expect(log).toEqual(['stalled', 'stalled', 'written 300'])
    db.close()
    const history = await open(dir)
    expect(history.watermark()).toBe(300)
    expect(history.events('alice', 0, 500).items.map(({ seq }) => seq)).toEqual(
      events.map(({ event }) => event.seq),
    )
    expect(history.order(id(300))?.status).toBe('accepted')
    await history.close()
  })
})

test.skipIf(!isMountable())('a full volume stalls the history until there is space', async () => {
  await withSmallVolume('2m', async (dir) => {
    const { history, ...reads } = await open(join(dir, 'history'))
    const recorder = new Recorder(reads as never)
    recorder.record('alice', 'order.accepted', order(1, 'accepted'))
    await history.flush()
    const free = fillUp(dir)
    for (let n = 2; n <= 2_000; n++) recorder.record('alice', 'order.accepted', order(n, 'accepted'))
    const flushing = history.flush().catch((error) => error)
    await until(() => history.isStalled())
    expect(await flushing).toBeInstanceOf(HistoryStalled)
    expect(history.isBroken()).toBe(false)
    expect(await history.prune(0).catch((error) => error)).toBeInstanceOf(HistoryStalled)
    // Reads contain unwritten events.
    expect(reads.order(id(2_000))?.status).toBe('accepted')
    expect(reads.events('alice', 0, 500).items).toHaveLength(500)
    const { watermark } = history
    expect(watermark()).toBeLessThan(2_000)
    free()
    await until(() => !history.isStalled())
    await history.flush()
    expect(watermark()).toBe(2_000)
    await history.close()
  })
})

test.skipIf(!isMountable())(
  'a stalled history closes, and the next one feeds on from its watermark',
  async () => {
    await withSmallVolume('2m', async (dir) => {
      const first = await open(join(dir, 'history'))
      const recorder = new Recorder(first)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      await first.flush()
      const free = fillUp(dir)
      for (let n = 2; n <= 2_000; n++) recorder.record('alice', 'order.accepted', order(n, 'accepted'))
      first.flush().catch(() => undefined)
      await until(() => first.history.isStalled())
      const stored = first.watermark()
      await first.close()
      // A start on a full volume fails rather than to discard stored rows.
      expect(await open(join(dir, 'history')).catch((error) => error)).toBeInstanceOf(Error)
      free()
      const second = await open(join(dir, 'history'))
      expect(second.watermark()).toBe(stored)
      expect(second.order(id(1))?.status).toBe('accepted')
      await second.close()
    })
  },
)

test('a history beyond its bound breaks alone, and is intact at the next opening', async () => {
  await withFolder(async (dir) => {
    const first = await open(dir)
    const recorder = new Recorder(first)
    recorder.record('alice', 'order.accepted', order(1, 'accepted'))
    await first.flush()
    const event = recorder.event('alice', 'order.accepted', order(2, 'accepted'))
    const many = new Array(LIMITS.history_backlog_events_max + 1).fill({
      account_id: 'alice',
      event,
      text: '',
    })
    first.history.record(2, many)
    expect(first.history.isBroken()).toBe(true)
    expect(() => first.order(id(1))).toThrow(HistoryBroken)
    await first.close()
    const second = await open(dir)
    expect(second.watermark()).toBe(1)
    expect(second.order(id(1))?.status).toBe('accepted')
    await second.close()
  })
})

test('while the thread writes nothing, neither time nor flushes add batches, and all is sent once it writes again', async () => {
  jest.useFakeTimers()
  try {
    const sent: LoggedEvents[] = []
    const writes = new WriteBehind(0, (events) => void sent.push(events))
    const recorder = new Recorder({ record: () => undefined, seal: () => undefined } as never)
    const recordOne = (n: number) => {
      const event = recorder.event('alice', 'order.accepted', order(n, 'accepted'))
      writes.record(n, withTexts([{ account_id: 'alice', event }]))
      writes.seal(pointAt(n))
    }
    const flushes: Promise<void>[] = []
    for (let n = 1; n <= 100; n++) {
      recordOne(n)
      if (n % 2 === 0) flushes.push(writes.flush())
      jest.advanceTimersByTime(LIMITS.history_batch_delay_ms)
    }
    expect(sent.length).toBe(LIMITS.history_batches_in_flight_max)
    expect(writes.overlay['layers'].length).toBeLessThan(LIMITS.history_batches_in_flight_max + 2)
    expect(writes.overlay.events('alice', 0, 200)).toHaveLength(100)
    for (let written = 0; written < sent.length; written++) writes.written()
    await Promise.all(flushes)
    expect(writes.backlog).toBe(0)
    expect(sent.flatMap((events) => textsOf(events, 'alice'))).toHaveLength(100)
    // Without a flush, a batch whose time has come is sent as soon as the thread takes one.
    for (let n = 101; n <= 110; n++) {
      recordOne(n)
      jest.advanceTimersByTime(LIMITS.history_batch_delay_ms)
    }
    const before = sent.length
    writes.written()
    expect(sent.length).toBe(before + 1)
    while (writes.backlog > 0) writes.written()
    expect(writes.overlay.events('alice', 0, 200)).toHaveLength(0)
  } finally {
    jest.useRealTimers()
  }
})
