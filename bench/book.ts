/**
 * Measures the order book and the auction: `bun bench/book.ts [--rounds N] [--compare DIR]`. The stream is 60 % resting adds,
 * 30 % cancels, 10 % marketable orders, crossed and applied every 1,000 operations; the operations are recorded in a first
 * pass, so the timed passes contain only the book. `DIR` is a folder in which npm's `nodejs-order-book` is installed; it plays
 * the same stream.
 */

import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Book } from '../engine/machine/book/book'
import { cross } from '../engine/machine/book/cross'
import { BUY, LIMIT, OrderPool, SELL } from '../engine/machine/book/order_pool'
import { type BookStream, bookStream, prefilled, replay } from './kit/book_stream'
import { type Figure, median, random, report } from './kit/figures'
import { verifyLimit } from './kit/machine_limits'

const { values: flags } = parseArgs({ options: { rounds: { type: 'string' }, compare: { type: 'string' } } })
const ROUNDS = Number(flags.rounds ?? 5)
/** Operations for a book that takes microseconds for each. */
const COMPARED_OPERATIONS = 30_000
const compared = flags.compare === undefined ? undefined : await openCompared(flags.compare)
const OPERATIONS = 500_000
const CENTER = 100_000
const FULL_TERMS = {
  reference: CENTER,
  collar_bps: 10_000,
  price_rule: 'std4' as const,
  volume_tolerance_bps: 0,
  seed: new Uint8Array(32).fill(1),
}
/** Targets, by figure and number of orders. */
const TARGETS: Record<string, Figure['target']> = {
  'stream, 10000 orders': '<= 61',
  'stream, 100000 orders': '<= 75',
  'full cross, 1000 orders': '<= 5',
  'full cross, 100000 orders': '<= 1500',
  'full cross, 1000000 orders': '<= 15000',
}
const figures: Figure[] = []

/** The fastest round is the code's time; the median includes other load of the machine. */
function figure(name: string, size: number, values: number[], unit: string): void {
  const of_size = `${name}, ${size} orders`
  const target = TARGETS[of_size]
  const beside = `best ${Math.min(...values).toPrecision(3)}`
  figures.push({ figure: of_size, value: median(values), unit, beside, ...(target && { target }) })
}

for (const resting of [1_000, 10_000, 100_000]) {
  const stream = bookStream(resting, OPERATIONS, CENTER)
  const times: number[] = []
  const crosses: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const book = prefilled(stream, CENTER)
    const started = Bun.nanoseconds()
    const taken = replay(book, stream, CENTER)
    if (round === 0) continue
    times.push((Bun.nanoseconds() - started) / OPERATIONS)
    crosses.push(...taken.map((ns) => ns / 1000))
  }
  figure('stream', resting, times, 'ns/op')
  if (compared !== undefined) {
    const theirs = Array.from({ length: 3 }, () => playCompared(compared, stream, COMPARED_OPERATIONS))
    figure('the same stream in nodejs-order-book', resting, theirs, 'ns/op')
  }
  figure('stream: one auction and its fills', resting, crosses, 'us')
}

for (const orders of [1_000, 100_000, 1_000_000]) {
  const book = fullBook(orders)
  const times: number[] = []
  const repeats = orders === 1_000 ? 2_000 : 3 * ROUNDS
  for (let round = 0; round < repeats; round++) {
    const started = Bun.nanoseconds()
    const { volume } = cross(book, FULL_TERMS)
    times.push((Bun.nanoseconds() - started) / 1000)
    if (volume === 0) throw new Error('the measured book did not cross')
  }
  figure('full cross', orders, times, 'us')
}

for (const orders of [300, 20_000]) {
  const book = allOrNoneBook(orders)
  const times: number[] = []
  for (let round = 0; round < (orders === 300 ? 600 : 3 * ROUNDS); round++) {
    const started = Bun.nanoseconds()
    const { dropped } = cross(book, FULL_TERMS)
    times.push((Bun.nanoseconds() - started) / 1000)
    if (dropped.length !== orders) throw new Error('an all-or-none order stayed in')
  }
  figure('all-or-none orders of one price that all drop', orders, times, 'us')
}

/** One lot to sell, and buys that all want more or nothing: 32 rounds drop one each, then the rest go. */
function allOrNoneBook(orders: number): Book {
  const book = new Book(new OrderPool(orders + 1), CENTER)
  const order = { side: SELL, kind: LIMIT, tick: CENTER, lots: 1, min_fill: 0, arrival_batch: 1 } as const
  const order_id = new Uint8Array(16)
  book.add({ ...order, order_id })
  const words = new Uint32Array(order_id.buffer)
  const next = random(7)
  for (let at = 0; at < orders; at++) {
    words[0] = at + 1
    const lots = 2 + (next() % 1_000)
    book.add({ ...order, side: BUY, lots, min_fill: lots, arrival_batch: 1 + (at % 5), order_id })
  }
  return book
}

/** Half buys, half sells, prices overlapping over orders / 50 ticks, sizes up to 1,000 lots, one batch. */
function fullBook(orders: number): Book {
  const book = new Book(new OrderPool(orders), CENTER)
  const next = random(7)
  const spread = Math.min(2_000, Math.max(20, orders / 50))
  const order_id = new Uint8Array(16)
  const words = new Uint32Array(order_id.buffer)
  for (let at = 0; at < orders; at++) {
    words[0] = at + 1
    book.add({
      side: at % 2 === 0 ? BUY : SELL,
      kind: LIMIT,
      tick: CENTER + (next() % spread),
      lots: 1 + (next() % 1_000),
      min_fill: 0,
      arrival_batch: 1,
      order_id,
    })
  }
  return book
}

figures.push({ figure: 'Ed25519 verification on this machine', value: verifyLimit().cpu_us, unit: 'us' })
report('book', figures)

/**
 * Plays the benchmark's stream into npm's `nodejs-order-book` for comparison. It is no dependency of this project: install
 * it elsewhere (`bun add nodejs-order-book` in an empty folder) and name that folder.
 */

/** The part of its interface that is used. */
type ContinuousBook = {
  limit(order: { side: 'buy' | 'sell'; id: string; size: number; price: number }): { err: Error | null }
  cancel(id: string): unknown
}

/** Makes empty books of the package installed in `folder`. */
async function openCompared(folder: string): Promise<() => ContinuousBook> {
  const entry = import.meta.resolve('nodejs-order-book', join(folder, 'package.json'))
  const { OrderBook } = (await import(entry)) as { OrderBook: new () => ContinuousBook }
  return () => new OrderBook()
}

/**
 * Nanoseconds per operation of the first `operations` after the prefill. It matches each order as it comes instead of
 * batches, so some cancels meet an order that is filled already; every operation is the same call with the same numbers.
 */
function playCompared(makeBook: () => ContinuousBook, stream: BookStream, operations: number): number {
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
