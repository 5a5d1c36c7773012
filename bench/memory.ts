/**
 * Measures resident memory of an engine with many resting orders, each on its own note: `bun bench/memory.ts [--orders
 * N]`. After placing and after a boot from a snapshot; immediately and some seconds later. Leaves go to the hashing
 * worker only at boot, so its tree is part of the loaded figure and not of the placed one.
 */

import { ORDER_BYTES } from '../engine/machine/book/order_pool'
import { runBench, startChild } from './kit/child_process'
import { type Figure, numbers } from './kit/figures'
import type { Held, Opened } from './venue/engine_process'

const { orders } = numbers({ orders: 100_000 })
const MB = 1024 * 1024

/** The target is stated for a million resting orders. */
const target = orders === 1_000_000 ? ({ target: '< 512' } as const) : {}

await runBench('memory', [], async (dir) => {
  const child = startChild('venue/engine_process.ts')
  const empty = await child.ask<Opened>('open', { dir })
  const placed = await child.ask<Held>('rest', { orders })
  if (placed.orders !== orders) throw new Error(`${placed.orders} orders rest`)
  const snapshot = await child.ask<{ rss_bytes: number }>('snapshot')
  const placed_settled = await child.ask<Held>('settle')
  await child.ask('drain')
  await child.end()
  // The first boot builds the tree of the leaves; later boots reuse it.
  const first = startChild('venue/engine_process.ts')
  await first.ask('open', { dir })
  await first.ask('close')
  await first.end()
  const after = startChild('venue/engine_process.ts')
  const loaded = await after.ask<Opened>('open', { dir })
  const loaded_settled = await after.ask<Held>('settle')
  await after.end()
  const resident = (
    figure: string,
    { rss_bytes }: Pick<Held, 'rss_bytes'>,
    beside: Partial<Figure>,
  ): Figure => {
    return { figure: `resident, ${figure}`, value: rss_bytes / MB, unit: 'MB', ...beside }
  }
  const perOrder = (figure: string, { heap_bytes }: Held): Figure => ({
    figure: `live heap per order, ${figure}`,
    value: (heap_bytes - empty.heap_bytes) / orders,
    unit: 'bytes',
    beside: `book ${ORDER_BYTES} bytes`,
  })
  const resting = { beside: `${orders} resting` }
  return [
    resident('empty', empty, {}),
    resident('orders placed, at once', placed, resting),
    resident('most while a snapshot is made', snapshot, resting),
    resident('orders placed, settled', placed_settled, { ...resting, ...target }),
    resident('orders loaded, at once', loaded, resting),
    resident('orders loaded, settled', loaded_settled, { ...resting, ...target }),
    perOrder('placed', placed_settled),
    perOrder('loaded', loaded_settled),
    { figure: 'boot with so many resting', value: loaded.ms / 1000, unit: 's', beside: `${orders} resting` },
  ]
})
