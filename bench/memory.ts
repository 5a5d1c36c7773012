/**
 * Resident memory of an engine with many resting orders, each on a note of its own: `bun bench/memory.ts [--orders N]`. As
 * they were placed, and after a boot from a snapshot.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ORDER_BYTES } from '../engine/book/order_pool'
import { startChild } from './child_process'
import type { Held, Opened } from './engine_process'
import { report } from './figures'
import { numbers } from './flags'

const { orders } = numbers({ orders: 100_000 })
const MB = 1024 * 1024
const dir = mkdtempSync(join(tmpdir(), 'tacit-bench-memory-'))

try {
  const child = startChild('engine_process.ts')
  const empty = await child.ask<Opened>('open', { dir })
  const full = await child.ask<Held>('rest', { orders })
  if (full.orders !== orders) throw new Error(`${full.orders} orders rest`)
  await child.ask('drain')
  await child.end()
  const after = startChild('engine_process.ts')
  const booted = await after.ask<Opened>('open', { dir })
  await after.end()
  const heap_bytes = (full.heap_bytes - empty.heap_bytes) / orders
  const booted_bytes = (booted.heap_bytes - empty.heap_bytes) / orders
  const million = (bytes: number) => (empty.rss_bytes + bytes * 1_000_000) / MB
  report('memory', [
    { figure: 'resident, empty', value: empty.rss_bytes / MB, unit: 'MB' },
    {
      figure: 'resident, orders placed',
      value: full.rss_bytes / MB,
      unit: 'MB',
      beside: `${orders} resting`,
    },
    {
      figure: 'resident, orders loaded',
      value: booted.rss_bytes / MB,
      unit: 'MB',
      beside: `${booted.orders} resting`,
    },
    {
      figure: 'live heap per order, placed',
      value: heap_bytes,
      unit: 'bytes',
      beside: `book ${ORDER_BYTES} bytes`,
    },
    {
      figure: 'live heap per order, loaded',
      value: booted_bytes,
      unit: 'bytes',
      beside: `book ${ORDER_BYTES} bytes`,
    },
    { figure: 'so a million placed hold', value: million(heap_bytes), unit: 'MB', target: '< 512' },
    { figure: 'so a million loaded hold', value: million(booted_bytes), unit: 'MB', target: '< 512' },
  ])
} finally {
  rmSync(dir, { recursive: true, force: true })
}
