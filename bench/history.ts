/**
 * Measures the cost of the read models per order: `bun bench/history.ts [--orders N] [--share PERCENT]`. Orders of eight
 * accounts are recorded as fast as they are written; `share` of them fill at once in a second event. Time on the recording
 * thread and on the history's thread are separate figures.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withTexts } from '../engine/history/event_text'
import { openHistory } from '../engine/history/open_history'
import type * as wire from '../protocol/wire/trading'
import { type Figure, numbers, report } from './kit/figures'
import { ACCOUNTS, hexOf, named, pairNamed, SYMBOL } from './venue/bench_config'
import { mainThreadMs } from './venue/thread_time'

const { orders, share } = numbers({ orders: 60_000, share: 0 })
const BACKLOG = 20_000
const PER_TURN = 20
const key = pairNamed('key').text

function orderOf(at: number, status: wire.OrderStatus, seq: number): wire.AccountEvent {
  const filled = status === 'filled'
  const amount = String(1_000_000n * BigInt(1 + (at % 1_000)))
  const data: wire.Order = {
    order_id: hexOf(named(`order ${at}`, 16)),
    trading_key: key,
    symbol: SYMBOL,
    side: 'buy',
    type: 'limit',
    amount,
    filled_amount: filled ? amount : '0',
    remaining_amount: filled ? '0' : amount,
    price_limit: String(80_000_000 + 10_000 * (at % 2_000)),
    min_fill: '0',
    expiry_slot: 300_000,
    arrival_slot: 200_000,
    status,
    fills: [],
    seq,
  }
  return {
    seq,
    kind: `order.${status}` as 'order.filled',
    slot: 200_000,
    unix_ms: 1_760_000_000_000 + at,
    data,
  }
}

const dir = mkdtempSync(join(tmpdir(), 'tacit-bench-history-'))
const history = await openHistory({ dir, key: named('history'), retention_days: 30 })
const seqs = new Array<number>(ACCOUNTS).fill(0)
const events = Array.from({ length: orders }, (_, at) => {
  const account = at % ACCOUNTS
  const account_id = `bench-${account}`
  const made = [{ account_id, event: orderOf(at, 'accepted', ++seqs[account]!) }]
  if (at % 100 < share) made.push({ account_id, event: orderOf(at, 'filled', ++seqs[account]!) })
  return made
})
const before = process.cpuUsage()
const main_before = mainThreadMs() ?? Number.NaN
const began = performance.now()
for (let at = 0; at < orders; ) {
  for (const end = Math.min(orders, at + PER_TURN); at < end; at++)
    history.record(at + 1, withTexts(events[at]!))
  if (history.backlog() > BACKLOG) await history.flush()
  else await new Promise<void>((resolve) => setImmediate(resolve))
}
await history.flush()
const elapsed_ms = performance.now() - began
const { user, system } = process.cpuUsage(before)
const cpu_ms = (user + system) / 1_000
const main_ms = (mainThreadMs() ?? Number.NaN) - main_before
await history.close()

/** From the disk's sealed blocks: this opening has read nothing yet. */
const PAGE = 20
const reopened = await openHistory({ dir, key: named('history'), retention_days: 30 })
const pages = Math.floor(orders / ACCOUNTS / PAGE)
const readAll = (account_id: string) => {
  for (let page = 0; page < pages; page++) reopened.orders(account_id, { after: page * PAGE, limit: PAGE })
}
// Reads some accounts first, so that the JIT has compiled the code.
for (let account = 1; account < 5; account++) readAll(`bench-${account}`)
const read_before = process.cpuUsage()
readAll('bench-0')
const read = process.cpuUsage(read_before)
await reopened.close()
rmSync(dir, { recursive: true, force: true })
const beside = `${orders} orders, ${share} % of them filled`
const figures: Figure[] = [
  { figure: 'orders recorded and written', value: (1_000 * orders) / elapsed_ms, unit: '1/s', beside },
  { figure: 'processor time per order', value: (cpu_ms * 1_000) / orders, unit: 'us', beside },
  { figure: 'of it on the recording thread', value: (main_ms * 1_000) / orders, unit: 'us' },
  {
    figure: `a page of ${PAGE} orders never read before`,
    value: (read.user + read.system) / pages,
    unit: 'us',
  },
]
report('history', figures)
