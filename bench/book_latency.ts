/**
 * Measures each single operation of the book: `bun bench/book_latency.ts [--orders N]`. The stream of `bench/book.ts` over
 * 10,000 and over N (1,000,000) resting orders, with every add and cancel timed alone and every auction with its fills.
 * The same clock calls with nothing between show the machine's share of the worst times.
 */

import { parseArgs } from 'node:util'
import { cross } from '../engine/machine/book/cross'
import {
  applyFills,
  blankOrder,
  bookStream,
  OPERATIONS_PER_BATCH,
  prefilled,
  readAdd,
  termsAround,
} from './kit/book_stream'
import { type Figure, quantile, report } from './kit/figures'

const { values: flags } = parseArgs({ options: { orders: { type: 'string' } } })
const LARGE = Number(flags.orders ?? 1_000_000)
const OPERATIONS = 1_000_000
const CENTER = 100_000

type Times = { operations: Float64Array; auctions: number[] }

/** Plays the stream once to compile it, then timed. */
function measure(resting: number): Times {
  const stream = bookStream(resting, OPERATIONS, CENTER)
  const operations = new Float64Array(OPERATIONS)
  let auctions: number[] = []
  for (let round = 0; round < 2; round++) {
    const book = prefilled(stream, CENTER)
    const order = blankOrder()
    auctions = []
    for (let at = 0; at < OPERATIONS; at++) {
      const handle = stream.handle[resting + at]!
      const started = Bun.nanoseconds()
      if (handle === 0) book.add(readAdd(stream, resting + at, order))
      else book.remove(handle)
      const ended = Bun.nanoseconds()
      operations[at] = ended - started
      if ((at + 1) % OPERATIONS_PER_BATCH > 0) continue
      applyFills(book, cross(book, termsAround(CENTER)), undefined)
      auctions.push(Bun.nanoseconds() - ended)
      order.arrival_batch++
    }
  }
  return { operations, auctions }
}

function clockCalls(): number[] {
  return Array.from({ length: OPERATIONS }, () => {
    const started = Bun.nanoseconds()
    return Bun.nanoseconds() - started
  })
}

const idle = clockCalls()
const clock_ns = quantile(idle, 0.5)
const figures: Figure[] = []
for (const resting of [10_000, LARGE]) {
  const { auctions, operations } = measure(resting)
  const times = Array.from(operations)
  const of = `${resting} resting`
  const beside = `${clock_ns} ns of it the clock`
  for (const [name, q] of [
    ['p50', 0.5],
    ['p99', 0.99],
    ['p99.99', 0.9999],
  ] as const) {
    figures.push({ figure: `${of}: add or cancel, ${name}`, value: quantile(times, q), unit: 'ns', beside })
  }
  figures.push(
    {
      figure: `${of}: add or cancel, worst`,
      value: quantile(times, 1) / 1e6,
      unit: 'ms',
      target: '< 1',
    },
    { figure: `${of}: an auction with its fills, p50`, value: quantile(auctions, 0.5) / 1_000, unit: 'us' },
    {
      figure: `${of}: an auction with its fills, worst`,
      value: Math.max(...auctions) / 1e6,
      unit: 'ms',
      target: '< 1',
    },
  )
}
figures.push({ figure: 'two clock calls, worst', value: quantile(idle, 1) / 1e6, unit: 'ms' })
report('book_latency', figures)
