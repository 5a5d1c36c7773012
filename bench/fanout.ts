/**
 * Compares events to many sockets with bare publishing of as many bytes: `bun bench/fanout.ts [--sockets N] [--waves N]
 * [--rounds N]`. A wave is 16 events for each of 8 accounts in one group commit; the cost of the same waves without
 * sockets is subtracted. Bare publishing is measured twice: wave after wave in an otherwise idle process, and after each
 * group commit in the venue's process, where caches are as cold and readers as idle as between the venue's waves.
 */

import { runBench, startChild } from './kit/child_process'
import { type Figure, median, numbers } from './kit/figures'
import type { RawFacts, RawWave } from './kit/raw_server'
import type { Received } from './load/https_lanes'
import { ACCOUNTS } from './venue/bench_config'
import type { VenueFacts, VenueUsage } from './venue/venue_process'

const { sockets, waves, rounds } = numbers({ sockets: 200, waves: 60, rounds: 9 })
const PER_WAVE = 16
const WARM_ROUNDS = 2
const deliveries = sockets * waves * PER_WAVE
const venue = startChild('venue/venue_process.ts')
const generator = startChild('load/load_process.ts')
const bare = startChild('kit/raw_server.ts')

async function venueWaves(received?: Promise<unknown>, raw?: RawWave): Promise<number> {
  const before = await venue.ask<VenueUsage>('usage')
  await venue.ask('waves', { waves, per_wave: PER_WAVE, raw })
  await received
  return (await venue.ask<VenueUsage>('usage')).cpu_ms - before.cpu_ms
}

async function bareWaves(received: Promise<unknown>, raw: RawWave): Promise<number> {
  const before_ms = await bare.ask<number>('cpuMs')
  await bare.ask('publish', { waves, ...raw })
  await received
  return (await bare.ask<number>('cpuMs')) - before_ms
}

/** Processor milliseconds of a round once code is compiled, and the messages received in the last. */
async function rounded(round: (received: Promise<unknown>) => Promise<number>) {
  const values: number[] = []
  let arrived: Received | undefined
  for (let at = -WARM_ROUNDS; at < rounds; at++) {
    const arriving = generator.ask<Received>('receive', waves * PER_WAVE)
    const cpu_ms = await round(arriving)
    if (at >= 0) values.push(cpu_ms)
    arrived = await arriving
  }
  return { cpu_ms: median(values), arrived: arrived! }
}

await runBench('fanout', [venue, generator, bare], async (dir) => {
  const figures: Figure[] = []
  const facts = await venue.ask<VenueFacts>('start', { dir, notes: 4_096 })
  const { tokens } = facts
  const alone: number[] = []
  for (let at = -WARM_ROUNDS; at < rounds; at++) {
    const cpu_ms = await venueWaves()
    if (at >= 0) alone.push(cpu_ms)
  }

  await generator.ask('openSockets', { target: facts, path: '/ws/orders', tokens, count: sockets })
  const own = await rounded((received) => venueWaves(received))
  const bytes = Math.round(own.arrived.bytes / own.arrived.messages)
  const raw = { topics: tokens, per_wave: PER_WAVE, bytes }

  const beside_target = await venue.ask<RawFacts>('startTopics')
  await generator.ask('openSockets', { target: beside_target, path: '/', tokens, count: sockets })
  const beside_venue = await rounded((received) => venueWaves(received, raw))

  const bare_target = await bare.ask<RawFacts>('startTopics')
  await generator.ask('openSockets', { target: bare_target, path: '/', tokens, count: sockets })
  const by_itself = await rounded((received) => bareWaves(received, raw))

  const us = (cpu_ms: number) => (cpu_ms * 1_000) / deliveries
  const own_us = us(own.cpu_ms - median(alone))
  const beside_us = us(beside_venue.cpu_ms - median(alone))
  const raw_us = us(by_itself.cpu_ms)
  const beside = `${sockets} sockets, ${ACCOUNTS} accounts, ${bytes} bytes each`
  const rate = ({ elapsed_ms }: Received) => (1_000 * deliveries) / elapsed_ms
  figures.push(
    { figure: 'deliveries', value: rate(own.arrived), unit: '1/s', beside },
    { figure: 'raw publish', value: rate(by_itself.arrived), unit: '1/s', beside },
    { figure: 'processor time per delivery', value: own_us, unit: 'us', beside },
    { figure: 'raw publish, processor time', value: raw_us, unit: 'us' },
    { figure: "raw publish in the venue's process", value: beside_us, unit: 'us' },
    { figure: 'processor time, times raw', value: own_us / raw_us, unit: 'x' },
    { figure: "times raw in the venue's process", value: own_us / beside_us, unit: 'x', target: '<= 1.2' },
  )
  return figures
})
