/** Reads through the overlay equal reads of the written database after every write. */
import { expect, spyOn, test } from 'bun:test'
import fc from 'fast-check'
import { openReadable } from '../../../engine/history/database'
import { withTexts } from '../../../engine/history/event_text'
import { MergedReads } from '../../../engine/history/merged_reads'
import { Overlay } from '../../../engine/history/overlay'
import { Store } from '../../../engine/history/store'
import type * as wire from '../../../protocol/wire/trading'
import {
  fill,
  id,
  KEY,
  order,
  type ParsedHistory,
  Recorder,
  START_MS,
  textsOf,
  withFolder,
  withHistory,
} from './account_events'

const ACCOUNTS = ['alice', 'bob'] as const
const STATUSES = ['partially_filled', 'filled', 'cancelled', 'expired'] as const
/** Kinds and stages behind the first event of a fill: one that was voided before it was hashed is matched after that. */
const LATER = [
  ['submitted', 'submitted'],
  ['confirmed', 'confirmed'],
  ['finalized', 'finalized'],
  ['voided', 'voided'],
  ['matched', 'voided'],
] as const
const FIRST = [
  ['matched', 'matched'],
  ['voided', 'voided'],
] as const
type Step = { account: number; n: number; action: 'order' | 'fill' | 'flush'; pick: number }

const steps = fc.array(
  fc.record({
    account: fc.nat(1),
    n: fc.nat(7),
    action: fc.constantFrom<Step['action']>('order', 'order', 'fill', 'fill', 'flush'),
    pick: fc.nat(4),
  }),
  { minLength: 1, maxLength: 60 },
)

async function play(
  history: ParsedHistory,
  recorder: Recorder,
  script: Step[],
  flush: boolean,
): Promise<void> {
  const accepted = new Set<number>()
  const matched = new Set<string>()
  for (const { account, n, action, pick } of script) {
    const name = ACCOUNTS[account] as string
    const number = account * 100 + n
    if (action === 'flush') {
      if (flush) await history.flush()
    } else if (!accepted.has(number)) {
      accepted.add(number)
      const symbol = n % 2 === 0 ? 'SOL-USDC' : 'ETH-USDC'
      recorder.record(name, 'order.accepted', order(number, 'accepted', { symbol }))
    } else if (action === 'order') {
      const status = STATUSES[pick % STATUSES.length] as wire.OrderStatus
      const symbol = n % 2 === 0 ? 'SOL-USDC' : 'ETH-USDC'
      recorder.record(
        name,
        `order.${status as 'filled'}`,
        order(number, status, { symbol, filled_amount: '10' }),
      )
    } else {
      const index = pick % 2
      const first = !matched.has(`${number}/${index}`)
      matched.add(`${number}/${index}`)
      const [kind, stage] = first ? FIRST[n % 2]! : LATER[pick]!
      recorder.record(name, `fill.${kind}`, fill(number, index, stage))
    }
  }
}

/** Everything a client could read, page by page. */
function everything(history: ParsedHistory): unknown {
  const pages = (read: (after: number) => wire.Page<unknown>) => {
    const found: unknown[] = []
    for (let after: number | null = 0; after !== null; ) {
      const page: wire.Page<unknown> = read(after)
      found.push(...page.items)
      after = page.next_after
    }
    return found
  }
  return ACCOUNTS.map((account) => ({
    events: pages((after) => history.events(account, after, 3)),
    fills: pages((after) => history.fills(account, after, 2)),
    orders: pages((after) => history.orders(account, { after, limit: 2 })),
    open: pages((after) => history.orders(account, { status: 'open', after, limit: 2 })),
    filled: pages((after) => history.orders(account, { status: 'filled', after, limit: 2 })),
    eth: pages((after) => history.orders(account, { symbol: 'ETH-USDC', after, limit: 1 })),
    last: history.seqLast(account),
  }))
}

test('written and unwritten events read the same, for any line between them', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      await withFolder(async (dir) => {
        let unwritten: unknown
        await withHistory(`${dir}/a`, async (history) => {
          await play(history, new Recorder(history), script, false)
          unwritten = everything(history)
        })
        await withHistory(`${dir}/b`, async (history) => {
          await play(history, new Recorder(history), script, true)
          expect(everything(history)).toEqual(unwritten)
          await history.flush()
          expect(everything(history)).toEqual(unwritten)
        })
      })
    }),
    { numRuns: 8, verbose: true },
  )
}, 120_000)

test('a page that the written fills just fill says that one more waits behind it', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (const n of [1, 2, 3]) recorder.record('alice', 'order.accepted', order(n, 'accepted'))
      for (const n of [1, 2]) recorder.record('alice', 'fill.matched', fill(n, 0, 'matched'))
      await history.flush()
      recorder.record('alice', 'fill.matched', fill(3, 0, 'matched'))
      const page = history.fills('alice', 0, 2)
      expect([page.items.length, page.next_after]).toEqual([2, 5])
      expect(history.fills('alice', 5, 2)).toMatchObject({ items: [{ order_id: id(3) }], next_after: null })
    })
  })
})

test("a read parses its account's unwritten events, once, and none of another account", () => {
  const overlay = new Overlay()
  const event = (account: number, n: number) =>
    ({
      seq: n,
      kind: 'order.accepted',
      unix_ms: START_MS,
      data: order(account * 1_000 + n, 'accepted'),
    }) as wire.AccountEvent
  for (let batch = 0; batch < 3; batch++) {
    for (let account = 0; account < 10; account++) {
      const events = Array.from({ length: 5 }, (_, at) => event(account, batch * 5 + at + 1))
      for (const one of withTexts(events.map((event) => ({ account_id: `${account}`, event }))))
        overlay.filling.add(one)
    }
    overlay.begin()
  }
  const parsed = spyOn(JSON, 'parse')
  try {
    const counts = [
      () => expect(overlay.order('3', id(3_015))?.order.order_id).toBe(id(3_015)),
      () => expect(overlay.ordersOf('3')).toHaveLength(15),
      () => expect([...overlay.fillsOf('3')]).toHaveLength(0),
      () => expect(overlay.order('3', id(4_001))).toBeUndefined(),
      () => expect(overlay.isOrder(id(4_001))).toBe(true),
      () => expect(overlay.payment('withdrawal', id(1))).toBeUndefined(),
    ].map((read) => {
      read()
      return parsed.mock.calls.length
    })
    expect(counts).toEqual([5, 15, 15, 15, 15, 15])
  } finally {
    parsed.mockRestore()
  }
})

test('a fill that two batches hold keeps the place of its first event', () => {
  const overlay = new Overlay()
  for (const [seq, stage] of [
    [2, 'matched'],
    [5, 'submitted'],
  ] as const) {
    const event = {
      seq,
      kind: `fill.${stage}`,
      unix_ms: START_MS,
      data: fill(1, 0, stage),
    } as wire.AccountEvent
    for (const one of withTexts([{ account_id: 'alice', event }])) overlay.filling.add(one)
    overlay.begin()
  }
  expect([...overlay.fillsOf('alice')]).toMatchObject([{ created: 2, seen: 2, fill: { stage: 'submitted' } }])
})

test('a fill that was voided before it was hashed is read once, at the place of its first event', async () => {
  await withFolder((dir) =>
    withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'fill.voided', fill(1, 0, 'voided'))
      await history.flush()
      recorder.record('alice', 'fill.matched', fill(1, 0, 'voided'))
      expect(history.fills('alice', 0, 9).items).toMatchObject([{ seq: 3, stage: 'voided' }])
      expect(history.fills('alice', 2, 9).items).toEqual([])
    }),
  )
})

test('an event that is written and still held is read once', async () => {
  await withFolder((dir) =>
    withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      const overlay = new Overlay()
      const both = (kind: wire.EventKind, data: wire.AccountEvent['data']) => {
        const event = recorder.record('alice', kind, data)
        for (const one of withTexts([{ account_id: 'alice', event }])) overlay.filling.add(one)
      }
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'fill.matched', fill(1, 0, 'matched'))
      await history.flush()
      both('fill.submitted', fill(1, 0, 'submitted'))
      both('order.filled', order(1, 'filled', { filled_amount: '10' }))
      recorder.slot = 9
      both('order.accepted', order(1, 'accepted', { arrival_slot: 9 }))
      both('order.cancelled', order(1, 'cancelled', { arrival_slot: 9 }))
      await history.flush()
      const store = new Store(openReadable(dir), KEY)
      const reads = new MergedReads(store, overlay)
      const page = { after: 0, limit: 9 }
      expect(reads.orders('alice', page)).toEqual(history.history.orders('alice', page))
      expect(reads.orders('alice', page).items).toHaveLength(2)
      expect(reads.fills('alice', 0, 9)).toEqual(history.history.fills('alice', 0, 9))
      store.close()
    }),
  )
})

test('a batch holds more events than its memory at first, and the next ones get it', () => {
  const overlay = new Overlay()
  const memories = new Set<SharedArrayBuffer>()
  const written: string[][] = []
  for (let batch = 0; batch < 4; batch++) {
    const { filling } = overlay
    const texts = Array.from(
      { length: 3_000 },
      (_, at) => `{"batch":${batch},"at":${at},"of":"€${'x'.repeat(500)}"}`,
    )
    for (const [at, text] of texts.entries()) {
      const event = {
        seq: batch * 1_500 + (at >> 1) + 1,
        kind: 'order.refused',
        data: {},
      } as never
      filling.add({ account_id: ['alice', 'bob'][at % 2]!, event, text })
    }
    overlay.begin()
    const events = filling.events()
    memories.add(events.memory)
    written.push(textsOf(events, 'bob'))
    expect(overlay.events('bob', batch * 1_500, 9_999).map(({ text }) => text)).toEqual(written.at(-1)!)
    expect(written.at(-1)).toEqual(texts.filter((_, at) => at % 2 === 1))
    overlay.dropOldest()
  }
  expect(memories.size).toBe(2)
})
