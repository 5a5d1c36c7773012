/**
 * Events to many sockets beside bare publishing of as many bytes: `bun bench/fanout.ts [--sockets N] [--waves N]
 * [--rounds N]`. A wave is 16 events for each of 8 accounts in one group commit; what the same waves cost without sockets
 * is taken off.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startChild } from './child_process'
import { type Figure, median, report } from './figures'
import { numbers } from './flags'
import type { Received } from './load/event_sockets'
import type { RawFacts } from './raw_server'
import { ACCOUNTS } from './venue/bench_config'
import type { VenueFacts, VenueUsage } from './venue/venue_process'

const { sockets, waves, rounds } = numbers({ sockets: 200, waves: 60, rounds: 5 })
const PER_WAVE = 16
const figures: Figure[] = []
const dir = mkdtempSync(join(tmpdir(), 'tacit-bench-fanout-'))
const venue = startChild('venue/venue_process.ts')
const generator = startChild('load/load_process.ts')
const raw = startChild('raw_server.ts')

async function venueWaves(received: Promise<unknown>): Promise<number> {
  const before = await venue.ask<VenueUsage>('usage')
  await venue.ask('waves', { waves, per_wave: PER_WAVE })
  await received
  return (await venue.ask<VenueUsage>('usage')).cpu_ms - before.cpu_ms
}

async function medianOf(round: () => Promise<number>): Promise<number> {
  const values: number[] = []
  for (let at = 0; at < rounds; at++) values.push(await round())
  return median(values)
}

try {
  const facts = await venue.ask<VenueFacts>('start', { dir, notes: 4_096 })
  const bare = await raw.ask<RawFacts>('startSockets')
  const deliveries = sockets * waves * PER_WAVE
  await venueWaves(Promise.resolve())
  const alone_ms = await medianOf(() => venueWaves(Promise.resolve()))
  const { tokens } = facts
  let arrived: Received | undefined
  await generator.ask('openSockets', { target: facts, path: '/ws/orders', tokens, count: sockets })
  const with_ms = await medianOf(async () => {
    const arriving = generator.ask<Received>('receive', waves * PER_WAVE)
    const cpu_ms = await venueWaves(arriving)
    arrived = await arriving
    return cpu_ms
  })
  const bytes = Math.round(arrived!.bytes / arrived!.messages)

  let floor: Received | undefined
  await generator.ask('openSockets', { target: bare, path: '/', tokens, count: sockets })
  const raw_ms = await medianOf(async () => {
    const arriving = generator.ask<Received>('receive', waves * PER_WAVE)
    const before_ms = await raw.ask<number>('cpuMs')
    await raw.ask('publish', { topics: tokens, waves, per_wave: PER_WAVE, bytes })
    floor = await arriving
    return (await raw.ask<number>('cpuMs')) - before_ms
  })
  const own_us = ((with_ms - alone_ms) * 1_000) / deliveries
  const raw_us = (raw_ms * 1_000) / deliveries
  const beside = `${sockets} sockets, ${ACCOUNTS} accounts, ${bytes} bytes each`
  figures.push(
    { figure: 'deliveries', value: (1_000 * deliveries) / arrived!.elapsed_ms, unit: '1/s', beside },
    { figure: 'raw publish', value: (1_000 * deliveries) / floor!.elapsed_ms, unit: '1/s', beside },
    {
      figure: 'processor time per delivery',
      value: own_us,
      unit: 'us',
      beside: `raw ${raw_us.toFixed(2)} us`,
    },
    { figure: 'processor time, times raw', value: own_us / raw_us, unit: 'x', target: '<= 1.5' },
  )
} finally {
  await Promise.all([venue.end(), generator.end(), raw.end()])
  rmSync(dir, { recursive: true, force: true })
}
report('fanout', figures)
