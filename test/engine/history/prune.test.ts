/** Retention: rows older than promised go, younger and live ones stay. */
import { expect, test } from 'bun:test'
import { Retention } from '../../../engine/sequencer/retention'
import type * as wire from '../../../protocol/wire/trading'
import { DAY_MS, fill, id, order, Recorder, START_MS, withFolder, withHistory } from './account_events'

const day = (n: number) => START_MS + n * DAY_MS

test('events older than the retention time go, and seqFirst names the first left', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (let n = 0; n < 1_500; n++)
        recorder.record('alice', 'order.accepted', order(n, 'accepted'), day(n < 1_200 ? 0 : 20))
      recorder.record('bob', 'order.accepted', order(5000, 'accepted'), day(0))
      await history.flush()
      await history.prune(day(31))
      expect([history.seqFirst('alice'), history.seqLast('alice')]).toEqual([1_201, 1_500])
      expect(history.events('alice', 0, 1).items[0]?.seq).toBe(1_201)
      // An account that lost all its events still knows its numbers.
      expect([history.seqFirst('bob'), history.seqLast('bob')]).toEqual([2, 1])
      recorder.record('bob', 'order.cancelled', order(5000, 'cancelled'), day(31))
      expect([history.seqFirst('bob'), history.seqLast('bob')]).toEqual([2, 2])
      expect(history.events('bob', 1, 9).items.length).toBe(1)
    })
    await withHistory(dir, async (history) => {
      expect([history.seqFirst('alice'), history.seqLast('alice')]).toEqual([1_201, 1_500])
      expect([history.seqFirst('bob'), history.seqLast('bob')]).toEqual([2, 2])
    })
  })
})

test('final orders go with their fills; open ones and those with a recent fill stay', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (const n of [1, 2, 3]) recorder.record('alice', 'order.accepted', order(n, 'accepted'), day(0))
      for (const n of [2, 3]) {
        recorder.record('alice', 'order.filled', order(n, 'filled', { filled_amount: '1000' }), day(0))
        recorder.record('alice', 'fill.matched', fill(n, 0, 'matched'), day(0))
      }
      recorder.record('alice', 'fill.finalized', fill(3, 0, 'finalized'), day(5))
      await history.flush()
      await history.prune(day(31))
      expect(history.order(id(1))?.status).toBe('accepted')
      expect(history.order(id(2))).toBeUndefined()
      expect(history.order(id(3))?.fills[0]?.stage).toBe('finalized')
      expect(history.fills('alice', 0, 9).items.map(({ order_id }) => order_id)).toEqual([id(3)])
      expect(history.orders('alice', { after: 0, limit: 9 }).items.length).toBe(2)
      await history.prune(day(36))
      expect(history.order(id(3))).toBeUndefined()
      expect(history.fills('alice', 0, 9).items).toEqual([])
      expect(history.order(id(1))?.status).toBe('accepted')
    })
  })
})

test('of two orders with one id, each goes with its own fills', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      const traded = (slot: number, status: 'filled' | 'partially_filled', at: number, account = 'alice') => {
        recorder.slot = slot
        const more = { arrival_slot: slot, filled_amount: '10' }
        recorder.record(account, 'order.accepted', order(1, 'accepted', { arrival_slot: slot }), day(at))
        recorder.record(account, 'fill.matched', { ...fill(1, 0, 'matched'), slot }, day(at))
        recorder.record(account, `order.${status}`, order(1, status, more), day(at))
      }
      const kept = () => history.fills('alice', 0, 9).items.map(({ slot }) => slot)
      traded(10, 'filled', 0)
      traded(10, 'filled', 0, 'carol')
      for (const n of [2, 1]) recorder.record('bob', 'order.accepted', order(n, 'accepted'), day(1))
      traded(20, 'filled', 10)
      traded(30, 'partially_filled', 40)
      // Of the first order, when the id is that of the third one.
      recorder.record('alice', 'fill.finalized', { ...fill(1, 0, 'finalized'), slot: 10 }, day(15))
      await history.prune(day(31))
      expect(kept()).toEqual([10, 20, 30])
      await history.prune(day(46))
      expect(kept()).toEqual([30])
      expect(history.fills('carol', 0, 9).items).toEqual([])
      expect(history.orders('alice', { after: 0, limit: 9 }).items).toHaveLength(1)
      expect(history.order(id(1))).toMatchObject({ status: 'partially_filled', fills: [{ slot: 30 }] })
    })
  })
})

test('payments go once they are final and old', async () => {
  const withdrawal = (n: number, status: wire.Withdrawal['status']): wire.Withdrawal => ({
    withdrawal_id: id(n),
    commitment: 'cd'.repeat(32),
    destination: 'x',
    amount: '5',
    fee: '1',
    status,
    seq: 1,
  })
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'withdrawal.submitted', withdrawal(1, 'submitted'), day(0))
      recorder.record('alice', 'withdrawal.refunded', withdrawal(2, 'refunded'), day(0))
      recorder.record('alice', 'withdrawal.finalized', withdrawal(3, 'finalized'), day(0))
      recorder.record('alice', 'withdrawal.paid', withdrawal(4, 'paid'), day(0))
      await history.flush()
      await history.prune(day(31))
      expect(history.withdrawal(id(1))?.withdrawal.status).toBe('submitted')
      expect(history.withdrawal(id(2))).toBeUndefined()
      // Its settlement is final, its payout is not.
      expect(history.withdrawal(id(3))?.withdrawal.status).toBe('finalized')
      expect(history.withdrawal(id(4))).toBeUndefined()
    })
  })
})

test('recorded and unwritten events are pruned like the rest', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'), day(0))
      recorder.record('alice', 'order.cancelled', order(1, 'cancelled'), day(0))
      // Exactly as old as is promised.
      await history.prune(day(30))
      expect(history.seqFirst('alice')).toBe(1)
      await history.prune(day(31))
      expect([history.seqFirst('alice'), history.seqLast('alice')]).toEqual([3, 2])
      expect(history.order(id(1))).toBeUndefined()
    })
  })
})

test('a deletion that fails is left to the next one, and ends nothing', async () => {
  const times: number[] = []
  const history = {
    prune: async (unix_ms: number) => {
      times.push(unix_ms)
      throw new Error('the read models are broken')
    },
  }
  const retention = new Retention(history as never, { unixMs: () => day(3), monotonicMs: () => 0 })
  retention.begin()
  await Bun.sleep(1)
  retention.stop()
  expect(times).toEqual([day(3)])
})
