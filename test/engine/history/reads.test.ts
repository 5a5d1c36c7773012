/** Pages of events, orders, fills and payments by account and seq. */

import { Database } from 'bun:sqlite'
import { expect, spyOn, test } from 'bun:test'
import { join } from 'node:path'
import { openReadable, openWritable } from '../../../engine/history/database'
import { pruneTables } from '../../../engine/history/prune_tables'
import { Names } from '../../../engine/history/seal'
import { Store } from '../../../engine/history/store'
import { eventWriter } from '../../../engine/history/write_tables'
import { LIMITS } from '../../../engine/limits'
import { coverable } from '../../../engine/machine/state/past'
import type * as wire from '../../../protocol/wire/trading'
import { key, LOT, seeded, World } from '../../kit/venue/machine_world'
import {
  DAY_MS,
  fill,
  id,
  KEY,
  logged,
  order,
  type ParsedHistory,
  pointAt,
  Recorder,
  START_MS,
  withFolder,
  withHistory,
} from './account_events'

/** Runs the same expectations on unwritten events, on written ones, and after a restart. */
async function inEveryState(
  fillIn: (history: ParsedHistory) => void,
  check: (history: ParsedHistory) => void,
): Promise<void> {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      fillIn(history)
      expect(history.backlog()).toBeGreaterThan(0)
      check(history)
      await history.flush()
      expect(history.backlog()).toBe(0)
      check(history)
    })
    await withHistory(dir, async (history) => check(history))
  })
}

test("an account's events read as a gapless log that can be followed from any seq", async () => {
  const written: wire.AccountEvent[] = []
  await inEveryState(
    (history) => {
      const recorder = new Recorder(history)
      for (let n = 1; n <= 25; n++) {
        written.push(recorder.record('alice', 'order.accepted', order(n, 'accepted')))
        recorder.record('bob', 'order.accepted', order(1000 + n, 'accepted'))
      }
    },
    (history) => {
      expect(history.events('alice', 0, 100)).toEqual({ items: written, next_after: null })
      expect(history.events('alice', 7, 5)).toEqual({ items: written.slice(7, 12), next_after: 12 })
      expect(history.events('alice', 20, 5)).toEqual({ items: written.slice(20), next_after: null })
      expect(history.events('alice', 25, 5)).toEqual({ items: [], next_after: null })
      expect([history.seqFirst('alice'), history.seqLast('alice')]).toEqual([1, 25])
      expect([history.seqFirst('nobody'), history.seqLast('nobody')]).toEqual([1, 0])
      expect(history.events('nobody', 0, 5).items).toEqual([])
    },
  )
})

test('an order shows its newest state to its account', async () => {
  await inEveryState(
    (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'order.cancelled', order(1, 'cancelled', { reason: 'by_owner' }))
    },
    (history) => {
      expect(history.order(id(1))).toEqual(order(1, 'cancelled', { reason: 'by_owner', seq: 2 }))
      expect(history.order(id(1), 'bob')).toBeUndefined()
      expect(history.order(id(2))).toBeUndefined()
      expect([1, 2].map((n) => history.history.isOrder(id(n)))).toEqual([true, false])
    },
  )
})

test('a fill that advances after its order is final shows in the order and in the fills', async () => {
  await inEveryState(
    (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'order.filled', order(1, 'filled', { filled_amount: '1000' }))
      recorder.record('alice', 'fill.matched', fill(1, 0, 'matched'))
      recorder.record('alice', 'fill.matched', fill(1, 1, 'matched'))
      recorder.record('alice', 'fill.finalized', fill(1, 0, 'finalized'))
    },
    (history) => {
      const stages = history.order(id(1))?.fills.map(({ fill_index, stage, seq }) => [fill_index, stage, seq])
      expect(stages).toEqual([
        [0, 'finalized', 5],
        [1, 'matched', 4],
      ])
      expect(history.orders('alice', { after: 0, limit: 9 }).items[0]?.fills.length).toBe(2)
      // A fill keeps its place in the list while its stage changes.
      expect(history.fills('alice', 0, 1)).toEqual({
        items: [{ ...fill(1, 0, 'finalized'), seq: 5 }],
        next_after: 3,
      })
      expect(history.fills('alice', 3, 1).items.map(({ fill_index }) => fill_index)).toEqual([1])
    },
  )
})

test('fills known only from an order event are shown until their own event comes', async () => {
  await inEveryState(
    (history) => {
      const recorder = new Recorder(history)
      const fills = [fill(1, 0, 'confirmed')]
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record(
        'alice',
        'order.partially_filled',
        order(1, 'partially_filled', { filled_amount: '10', fills }),
      )
    },
    (history) => expect(history.order(id(1))?.fills.map(({ stage }) => stage)).toEqual(['confirmed']),
  )
})

test('the fills of an order are listed by their index, for any order of arrival', async () => {
  await inEveryState(
    (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'order.filled', order(1, 'filled', { filled_amount: '1000' }))
      for (const index of [1, 0]) recorder.record('alice', 'fill.matched', fill(1, index, 'matched'))
    },
    (history) => expect(history.order(id(1))?.fills.map(({ fill_index }) => fill_index)).toEqual([0, 1]),
  )
})

test('orders page by creation and filter by status and symbol', async () => {
  const page = (
    history: ParsedHistory,
    filter: { status?: 'open' | wire.OrderStatus; symbol?: string },
    limit: number,
  ) => {
    const found: string[] = []
    for (let after: number | null = 0; after !== null; ) {
      const { items, next_after }: wire.Page<wire.Order> = history.orders('alice', {
        ...filter,
        after,
        limit,
      })
      expect(items.length).toBeLessThanOrEqual(limit)
      found.push(...items.map(({ order_id }) => order_id))
      after = next_after
    }
    return found.map((text) => Number.parseInt(text, 16))
  }
  await inEveryState(
    (history) => {
      const recorder = new Recorder(history)
      for (let n = 1; n <= 9; n++) {
        const symbol = n % 3 === 0 ? 'ETH-USDC' : 'SOL-USDC'
        recorder.record('alice', 'order.accepted', order(n, 'accepted', { symbol }))
      }
      recorder.record('bob', 'order.accepted', order(50, 'accepted'))
      recorder.record('alice', 'order.cancelled', order(2, 'cancelled'))
      recorder.record('alice', 'order.partially_filled', order(4, 'partially_filled'))
      recorder.record('alice', 'order.expired', order(9, 'expired', { symbol: 'ETH-USDC' }))
    },
    (history) => {
      for (const limit of [1, 2, 3, 9, 100]) {
        expect(page(history, {}, limit)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
        expect(page(history, { status: 'open' }, limit)).toEqual([1, 3, 4, 5, 6, 7, 8])
        expect(page(history, { status: 'accepted' }, limit)).toEqual([1, 3, 5, 6, 7, 8])
        expect(page(history, { status: 'cancelled' }, limit)).toEqual([2])
        expect(page(history, { symbol: 'ETH-USDC' }, limit)).toEqual([3, 6, 9])
        expect(page(history, { status: 'open', symbol: 'ETH-USDC' }, limit)).toEqual([3, 6])
        expect(page(history, { status: 'filled' }, limit)).toEqual([])
      }
    },
  )
})

const withdrawal = (status: wire.Withdrawal['status']): wire.Withdrawal => ({
  withdrawal_id: id(1),
  commitment: 'cd'.repeat(32),
  destination: 'x',
  amount: '5',
  fee: '1',
  status,
  seq: 1,
})

test('withdrawals and reshapes read by id with their newest stage', async () => {
  const reshape = (status: wire.Reshape['status']): wire.Reshape => ({
    reshape_id: id(1),
    inputs: ['ef'.repeat(32)],
    outputs: [],
    status,
    seq: 2,
  })
  await inEveryState(
    (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'withdrawal.accepted', withdrawal('accepted'))
      recorder.record('alice', 'reshape.accepted', reshape('accepted'))
      recorder.record('alice', 'withdrawal.finalized', withdrawal('finalized'))
    },
    (history) => {
      expect(history.withdrawal(id(1))).toEqual({ account_id: 'alice', withdrawal: withdrawal('finalized') })
      expect(history.reshape(id(1))).toEqual({ account_id: 'alice', reshape: reshape('accepted') })
      expect(history.withdrawal(id(2))).toBeUndefined()
      expect(history.reshape(id(2))).toBeUndefined()
    },
  )
})

test('an id that another account uses again names the order of each, and the newer payment', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (let n = 1; n <= 3; n++) recorder.record('alice', 'order.accepted', order(n, 'accepted'))
      recorder.record('alice', 'fill.matched', fill(2, 0, 'matched'))
      recorder.record('alice', 'fill.matched', fill(2, 1, 'matched'))
      recorder.record('alice', 'order.filled', order(2, 'filled', { filled_amount: '20' }))
      recorder.record('alice', 'withdrawal.accepted', withdrawal('finalized'))
      await history.flush()
      recorder.record('bob', 'withdrawal.accepted', withdrawal('accepted'))
      await history.flush()
      expect(history.withdrawal(id(1))).toEqual({ account_id: 'bob', withdrawal: withdrawal('accepted') })
      const stages: (() => void)[] = [
        () => recorder.record('bob', 'order.accepted', order(2, 'accepted', { arrival_slot: 6 })),
        () => recorder.record('bob', 'fill.matched', fill(2, 0, 'matched')),
        () => recorder.record('bob', 'order.cancelled', order(2, 'cancelled', { filled_amount: '10' })),
        () => {
          recorder.slot = 7
          recorder.record('bob', 'order.accepted', order(2, 'accepted', { arrival_slot: 7 }))
        },
      ]
      for (const [fills, stage] of stages.entries()) {
        stage()
        await history.flush()
        expect(history.order(id(2), 'bob')?.fills).toHaveLength([0, 0, 1, 0][fills]!)
        expect(history.order(id(2), 'alice')?.fills).toHaveLength(2)
        const idsOf = (account: string) =>
          history.orders(account, { after: 0, limit: 10 }).items.map(({ order_id }) => order_id)
        expect(idsOf('bob')).toEqual(fills < 3 ? [id(2)] : [id(2), id(2)])
        expect(idsOf('alice')).toEqual([id(1), id(2), id(3)])
        expect(history.fills('alice', 0, 10).items.map(({ fill_index }) => fill_index)).toEqual([0, 1])
      }
      expect(history.events('alice', 0, 10).items).toHaveLength(7)
    })
  })
})

test.each(['alice', 'bob'])(
  'of the id that %s uses again, each order has its own fills, while those before settle',
  async (again) => {
    await withFolder((dir) =>
      withHistory(`${dir}/history`, async (history) => {
        const world = new World()
        for (const name of ['alice', 'bob', 'carol']) world.account(name, { orders_live_max: 1_000 })
        let [fed, seq] = [0, 0]
        const feed = () => {
          history.record(++seq, world.events.slice(fed))
          fed = world.events.length
        }
        const order_id = seeded('used twice').slice(0, 16)
        world.place('alice', key('a'), { order_id })
        world.place('carol', key('c'), { side: 'sell' })
        world.close()
        feed()
        // Its fill has no commitment yet when the order leaves the memory.
        world.unix_ms += LIMITS.final_orders_kept_ms + 1
        world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
        const covered = coverable(world.state)
        const hashes = { state_hash: seeded('state'), catalogue_hash: seeded('catalogue') }
        world.must({ kind: 'snapshot_taken', seq: world.journal.length, ...hashes, covered })
        world.place(again, key(again), { order_id, amount: 4n * LOT })
        world.hashAll()
        feed()
        world.place('carol', key('c'), { side: 'sell' })
        world.close()
        world.hashAll()
        world.stage(1, 'confirmed')
        feed()
        for (const written of [false, true]) {
          if (written) await history.flush()
          const stages = (order?: wire.Order) => order?.fills.map(({ batch, stage }) => [batch, stage])
          const { items } = history.orders('alice', { after: 0, limit: 9 })
          expect(stages(items[0])).toEqual([[1, 'confirmed']])
          expect(stages(history.order(order_id.toHex(), again))).toEqual([[2, 'matched']])
          expect(items).toHaveLength(again === 'alice' ? 2 : 1)
        }
      }),
    )
  },
)

test('every query that names an id finds its rows by an index of ids', async () => {
  await withFolder((dir) =>
    withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'fill.matched', fill(1, 0, 'matched'))
      await history.flush()
      const db = new Database(join(dir, 'history.sqlite'))
      const query = spyOn(db, 'query')
      const store = new Store(db, KEY)
      store.order('alice', id(1))
      store.orderSeq('alice', id(1), 9)
      store.isOrder(id(1))
      store.fillsOf('alice', id(1))
      store.fillSeq('alice', fill(1, 0, 'matched'))
      store.payment('withdrawal', id(1))
      const prune = pruneTables(db, new Names(KEY), START_MS + DAY_MS)
      while (prune());
      const sqls = query.mock.calls
        .map(([sql]) => sql as string)
        .filter((sql) => /\bid = /.test(sql) && !sql.includes('salts'))
      expect(sqls).toHaveLength(8)
      for (const sql of sqls) {
        const plan = db.prepare<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`).all()
        const searches = plan
          .filter(({ detail }) => /^(SEARCH|SCAN)/.test(detail))
          .map(({ detail }) => detail)
        // By an id, from one era to the next, or by the key of one row.
        const allowed =
          /\((era=\? AND )?id=\?|^(SCAN|SEARCH) eras$|orders_by_id \(era<\?\)$|KEY \(account=\? AND seq=\?\)$/
        const others = searches.filter((detail) => !allowed.test(detail))
        // The orders that a step of the pruning looks through.
        expect({ sql, others }).toEqual({
          sql,
          others: sql.includes('NOT EXISTS') ? [expect.stringMatching(/^SEARCH orders/)] : [],
        })
      }
      db.close()
    }),
  )
})

/** A written history whose eras are of two orders at first, and its reads. */
async function inEras(body: (history: ReturnType<typeof eras>) => void): Promise<void> {
  await withFolder(async (dir) => {
    const history = eras(dir)
    body(history)
    history.db.close()
    history.store.close()
  })
}

function eras(dir: string) {
  const { db, sealer } = openWritable(dir, KEY)
  const store = new Store(openReadable(dir), KEY)
  const recorder = new Recorder({ record: () => undefined, seal: () => undefined } as never)
  const writer = () => eventWriter(db, KEY, new Names(KEY), sealer, 2)
  let current = writer()
  const begin = (events: Parameters<typeof logged>[0]) => current.write(logged(events), pointAt(1))
  return {
    db,
    store,
    begin,
    recorder,
    abandon: () => current.abandon(),
    /** As after a restart. */
    again() {
      current = writer()
    },
    /** Returns its seq. */
    write(
      kind: wire.EventKind,
      data: wire.AccountEvent['data'],
      account_id = 'alice',
      unix_ms?: number,
    ): number {
      const event = recorder.event(account_id, kind, data, unix_ms)
      const step = begin([{ account_id, event }])
      while (step());
      return event.seq
    },
    sizes: () =>
      db.query('SELECT count(*) FROM orders GROUP BY era ORDER BY era').values().flat().map(Number),
    read(n: number, account_id = 'alice') {
      const text = store.order(account_id, id(n))
      return text === undefined ? undefined : (JSON.parse(text).data as wire.Order)
    },
  }
}

const arrived = (n: number, arrival_slot: number, status: wire.OrderStatus = 'accepted') =>
  order(n, status, { arrival_slot })

test('orders are found by their ids in whichever era they arrived, also by a writer that goes on', () =>
  inEras(({ store, again, write, sizes, read }) => {
    for (let n = 1; n <= 23; n++) write('order.accepted', arrived(n, 10 * n))
    expect(sizes()).toEqual([2, 2, 2, 2, 2, 2, 2, 2, 4, 3])
    again()
    for (let n = 24; n <= 26; n++) write('order.accepted', arrived(n, 10 * n))
    expect(sizes().slice(8)).toEqual([4, 4, 2])
    // An era begins with a slot: all the rest of this one are of it.
    for (let n = 27; n <= 40; n++) write('order.accepted', arrived(n, 270))
    expect(sizes().slice(10)).toEqual([4, 12])
    for (let n = 1; n <= 40; n++) {
      expect(read(n)?.order_id).toBe(id(n))
      expect(store.isOrder(id(n))).toBe(true)
    }
    expect([store.isOrder(id(41)), read(41), read(1, 'bob')]).toEqual([false, undefined, undefined])

    // Later events change the row of their order, and add none.
    for (const n of [1, 2, 16, 24, 26, 28, 29]) {
      write('order.cancelled', arrived(n, Math.min(10 * n, 270), 'cancelled'))
      expect(read(n)?.status).toBe('cancelled')
    }
    expect(sizes().reduce((sum, n) => sum + n)).toBe(40)

    // The id of a closed order again, and of another account.
    const second = write('order.accepted', arrived(2, 500))
    write('order.accepted', arrived(2, 500), 'bob')
    expect([read(2), read(2, 'bob')]).toMatchObject([{ arrival_slot: 500 }, { arrival_slot: 500 }])
    expect([1, 2, second - 1, second].map((seq) => store.orderSeq('alice', id(2), seq))).toEqual([
      undefined,
      2,
      2,
      second,
    ])
    write('order.cancelled', arrived(2, 500, 'cancelled'))
    expect(read(2)).toMatchObject({ arrival_slot: 500, status: 'cancelled' })
    // Slots never go back; if they did, an order would still have one row.
    for (const status of ['accepted', 'cancelled'] as const)
      write(`order.${status}`, arrived(50, 3, status), 'bob')
    expect([...store.orders('bob', { after: 0 }).rows]).toHaveLength(2)
  }))

test('a batch of many slots begins an era for its orders, and not for each slot, also when it is repeated', () =>
  inEras(({ again, begin, abandon, recorder, store, sizes, read }) => {
    const names = ['alice', 'bob', 'carol']
    // Accounts in the order of their first events, whose first orders may come in any.
    const slot = (n: number) => 100 + n - 40 * (n % 3)
    const batch = Array.from({ length: 60 }, (_, n) => {
      const account_id = names[n % 3]!
      return { account_id, event: recorder.event(account_id, 'order.accepted', arrived(n + 1, slot(n))) }
    })
    const closed = batch.map(({ account_id }, n) => {
      const event = recorder.event(account_id, 'order.cancelled', arrived(n + 1, slot(n), 'cancelled'))
      return { account_id, event }
    })
    for (const [at, events] of [batch.slice(0, 30), batch.slice(30), closed].entries()) {
      const attempt = begin(events)
      for (let steps = 0; steps < 25; steps++) attempt()
      abandon()
      if (at === 1) again()
      const step = begin(events)
      while (step());
    }
    expect(sizes().reduce((sum, size) => sum + size)).toBe(60)
    // Orders of alice that fill the eras begin the next ones, and those of bob and carol join them.
    expect(sizes().length).toBeLessThanOrEqual(12)
    for (let n = 0; n < 60; n++) {
      expect(read(n + 1, names[n % 3])).toMatchObject({ order_id: id(n + 1), status: 'cancelled' })
      expect(store.isOrder(id(n + 1))).toBe(true)
    }
  }))

test('of two orders with one id in two eras, each is pruned with its own fills', () =>
  inEras(({ db, store, write, sizes, read }) => {
    const day = (n: number) => START_MS + n * DAY_MS
    const traded = (slot: number, days: number) => {
      write('order.accepted', arrived(1, slot), 'alice', day(days))
      write('fill.matched', { ...fill(1, 0, 'matched'), slot }, 'alice', day(days))
      write('order.filled', arrived(1, slot, 'filled'), 'alice', day(days))
    }
    const slots = () => store.fills('alice', 0, 9).map(({ text }) => JSON.parse(text).slot)
    traded(10, 0)
    for (let n = 2; n <= 9; n++) write('order.accepted', arrived(n, 10 + n), 'alice', day(10))
    traded(30, 10)
    expect(sizes()).toEqual([2, 2, 2, 2, 2])
    const prune = (cutoff: number) => {
      const step = pruneTables(db, new Names(KEY), cutoff)
      while (step());
    }
    prune(day(5))
    expect(slots()).toEqual([30])
    expect(sizes()).toEqual([1, 2, 2, 2, 2])
    prune(day(15))
    expect([slots(), read(1), sizes()]).toEqual([[], undefined, [1, 2, 2, 2, 1]])
  }))
