/**
 * Draws the cost of the book as it grows: `bun bench/book_curve.ts [--resting N]` writes `docs/figures/cost_by_book.svg`. The
 * stream of `bench/book.ts` over 1,000 to N (1,000,000) resting orders.
 */
import { bookStream, prefilled, replay } from './kit/book_stream'
import { type Figure, median, numbers, report } from './kit/figures'
import { draw } from './kit/plot'
import { threadTimes } from './venue/gauges'

const { resting } = numbers({ resting: 1_000_000 })
const CENTER = 100_000
const OPERATIONS = 200_000
const ROUNDS = 5

/** Of this thread, on a core where the system reports it: others on the machine do not count. */
const nowNs = () => (threadTimes()?.main_ms ?? performance.now()) * 1e6

/** Nanoseconds per operation in the best round, auctions included, and microseconds of an auction with its fills. */
function costAt(size: number): { size: number; operation_ns: number; auction_us: number } {
  const stream = bookStream(size, OPERATIONS, CENTER)
  const times: number[] = []
  const auctions: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const book = prefilled(stream, CENTER)
    const started = nowNs()
    const taken = replay(book, stream, CENTER)
    // The first round compiles.
    if (round === 0) continue
    times.push((nowNs() - started) / OPERATIONS)
    auctions.push(...taken.map((ns) => ns / 1_000))
  }
  return { size, operation_ns: Math.min(...times), auction_us: median(auctions) }
}

const sizes: number[] = []
for (let size = 1_000; size < resting; size *= 10) sizes.push(size, 3 * size)
const costs = [...sizes.filter((size) => size < resting), resting].map(costAt)
draw('cost_by_book', {
  title: 'Cost of the book as it grows',
  x: 'resting orders',
  y: 'ns per operation; us per auction',
  curves: [
    { name: 'operation, best round', points: costs.map((one) => [one.size, one.operation_ns]) },
    { name: 'auction, median', points: costs.map((one) => [one.size, one.auction_us]) },
  ],
})
report(
  'book_curve',
  costs.flatMap(({ size, operation_ns, auction_us }): Figure[] => [
    { figure: `operation, ${size} resting`, value: operation_ns, unit: 'ns' },
    { figure: `auction, ${size} resting`, value: auction_us, unit: 'us' },
  ]),
)
