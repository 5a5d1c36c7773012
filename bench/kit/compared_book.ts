/**
 * Plays the benchmark's stream into npm's `nodejs-order-book` for comparison. It is no dependency of this project: install
 * it elsewhere (`bun add nodejs-order-book` in an empty folder) and name that folder.
 */
import { join } from 'node:path'
import { BUY } from '../../engine/machine/book/order_pool'
import type { BookStream } from './book_stream'

/** The part of its interface that is used. */
type ContinuousBook = {
  limit(order: { side: 'buy' | 'sell'; id: string; size: number; price: number }): { err: Error | null }
  cancel(id: string): unknown
}

/** Makes empty books of the package installed in `folder`. */
export async function openCompared(folder: string): Promise<() => ContinuousBook> {
  const entry = import.meta.resolve('nodejs-order-book', join(folder, 'package.json'))
  const { OrderBook } = (await import(entry)) as { OrderBook: new () => ContinuousBook }
  return () => new OrderBook()
}

/**
 * Nanoseconds per operation of the first `operations` after the prefill. It matches each order as it comes instead of
 * batches, so some cancels meet an order that is filled already; every operation is the same call with the same numbers.
 */
export function playCompared(makeBook: () => ContinuousBook, stream: BookStream, operations: number): number {
  const book = makeBook()
  // Handles of the recorded pool are reused; the newest order under a handle is the one a cancel means.
  const id_of = new Map<number, string>()
  const play = (at: number) => {
    const cancelled = stream.handle[at]!
    if (cancelled !== 0) {
      book.cancel(id_of.get(cancelled)!)
      return
    }
    const id = String(at)
    id_of.set(stream.added[at]!, id)
    const side = stream.side[at] === BUY ? 'buy' : 'sell'
    const { err } = book.limit({ side, id, size: stream.lots[at]!, price: stream.tick[at]! })
    if (err !== null) throw err
  }
  for (let at = 0; at < stream.prefill; at++) play(at)
  const started = Bun.nanoseconds()
  for (let at = stream.prefill; at < stream.prefill + operations; at++) play(at)
  return (Bun.nanoseconds() - started) / operations
}
