/** Many batches over one book: nothing is lost or made, and what left the book never trades again. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { Book } from '../../../engine/machine/book/book'
import { cross } from '../../../engine/machine/book/cross'
import { BUY, FOK, IOC, LIMIT, OrderPool, SELL } from '../../../engine/machine/book/order_pool'
import { LAW_RUNS, LAW_SEED, LAW_TIMEOUT_MS } from './random_books'

setDefaultTimeout(LAW_TIMEOUT_MS)

const act = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constant('place' as const),
      side: fc.constantFrom(BUY, SELL),
      kind: fc.constantFrom(LIMIT, LIMIT, LIMIT, IOC, FOK),
      tick: fc.integer({ min: 95, max: 105 }),
      lots: fc.integer({ min: 1, max: 20 }),
      min_fill: fc.constantFrom(0, 0, 0, 3),
    }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('cancel' as const), pick: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('close' as const) }) },
)

type Account = { original: number; filled: number; live: number; cancelled: number; ended: boolean }

test('original = filled + live + cancelled for every order for ever, and a cancelled order never fills', () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 80 }), (acts) => {
      const book = new Book(new OrderPool(2), 100)
      const accounts: Account[] = []
      const resting = new Map<number, Account>()
      let reference = 100
      let batch = 1
      const end = (handle: number) => {
        const account = resting.get(handle)!
        account.cancelled += account.live
        account.live = 0
        account.ended = true
        resting.delete(handle)
        book.remove(handle)
      }
      for (const step of acts) {
        if (step.act === 'place') {
          const { act: _, ...terms } = step
          const min_fill = Math.min(terms.min_fill, terms.lots)
          const handle = book.add({
            ...terms,
            min_fill,
            arrival_batch: batch,
            order_id: new Uint8Array(16).fill(accounts.length + 1),
          })
          const account = { original: step.lots, filled: 0, live: step.lots, cancelled: 0, ended: false }
          accounts.push(account)
          resting.set(handle, account)
        } else if (step.act === 'cancel') {
          const handle = [...resting.keys()][step.pick % Math.max(1, resting.size)]
          if (handle !== undefined) end(handle)
        } else {
          const seed = new Uint8Array(32).fill(batch++)
          const result = cross(book, {
            reference,
            collar_bps: 300,
            price_rule: 'std4',
            volume_tolerance_bps: 0,
            seed,
          })
          for (const { handles, lots } of [result.buys, result.sells]) {
            for (const [at, handle] of handles.entries()) {
              const account = resting.get(handle)!
              expect(account.ended).toBeFalse()
              account.filled += lots[at]!
              account.live -= lots[at]!
              if (book.reduce(handle, lots[at]!) === 0) {
                account.ended = true
                resting.delete(handle)
              }
            }
          }
          for (const handle of result.remainders) end(handle)
          reference = result.price ?? result.drift ?? reference
        }
        for (const { original, filled, live, cancelled } of accounts)
          expect(filled + live + cancelled).toBe(original)
        expect(book.pool.size).toBe(resting.size)
        for (const [handle, { live }] of resting) expect(book.get(handle)!.lots).toBe(live)
      }
    }),
    { numRuns: Math.ceil(LAW_RUNS / 10), seed: LAW_SEED },
  )
})
