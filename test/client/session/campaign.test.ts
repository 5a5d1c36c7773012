/**
 * Random schedules of lost answers, refusals, gaps, renewals, kills and full disks against a session, in simulated time: no
 * request becomes two orders, no maybe is called a no, the file always loads, and the notes are the venue's.
 * TACIT_SCHEDULES and TACIT_SEED choose others, TACIT_THIN those with mostly rare kinds of calls; every fiftieth seed opens
 * a new venue, so to repeat a schedule begin at the seed that opened its venue.
 */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hashFast } from '../../../client/wallet/hash_fast'
import { LedgerFacts, Maker } from '../../kit/client/campaign_check'
import { faultyFiles } from '../../kit/client/faulty_files'
import { Schedule, type Tally } from '../../kit/client/schedule'
import { SimulatedTime } from '../../kit/client/simulated_time'
import { SimulatedVenue } from '../../kit/client/simulated_venue'

hashFast()
const COUNT = Number(process.env['TACIT_SCHEDULES'] ?? 60)
const SEED = Number(process.env['TACIT_SEED'] ?? Date.now() % 1_000_000)
const is_thin = process.env['TACIT_THIN'] !== undefined
const OF_ONE_VENUE = 50

const folder = mkdtempSync(join(tmpdir(), 'tacit-campaign-'))
const time = new SimulatedTime()
let schedule: Schedule | undefined
const restoreFiles = faultyFiles((call) => schedule?.meets(call))
afterAll(() => {
  restoreFiles()
  time.restore()
  rmSync(folder, { recursive: true, force: true })
})

/** Schedules of one venue. @returns their traces, up to the first that breaks a law */
async function play(
  seed: number,
  count: number,
  tally: Tally,
): Promise<{ traces: string[][]; broken: string[] }> {
  time.clear()
  const venue = new SimulatedVenue(time)
  const traces: string[][] = []
  await venue.start()
  try {
    const facts = new LedgerFacts(venue.open.ledger)
    const makers = [new Maker('buyer', 'buy'), new Maker('seller', 'sell')] as const
    for (const maker of makers) await maker.provision(venue.open)
    for (let at = 0; at < count; at++) {
      time.clear()
      const given = {
        seed: seed + at,
        path: join(folder, `wallet-${seed + at}.json`),
        makers,
        facts,
        tally,
        is_thin,
      }
      schedule = new Schedule(venue, time, given)
      const broken = await schedule.run().catch((error: unknown) => [`${error}`])
      traces.push(schedule.trace)
      if (broken.length > 0) return { traces, broken: [...broken, `seed ${seed}, schedule ${at}`] }
    }
    return { traces, broken: [] }
  } finally {
    schedule = undefined
    await venue.remove()
  }
}

test(`${COUNT} schedules from seed ${SEED}`, async () => {
  const tally: Tally = new Map()
  for (let at = 0; at < COUNT; at += OF_ONE_VENUE) {
    const { traces, broken } = await play(SEED + at, Math.min(OF_ONE_VENUE, COUNT - at), tally)
    if (broken.length > 0) console.log(traces.at(-1)!.join('\n'))
    expect(broken).toEqual([])
  }
  if (process.env['TACIT_SCHEDULES'] !== undefined)
    for (const [name, count] of [...tally].toSorted()) console.log(`${count}\t${name}`)
}, 7_200_000)

test('a seed gives the same schedules again', async () => {
  const [first, second] = [await play(SEED, 3, new Map()), await play(SEED, 3, new Map())]
  const plain = (traces: string[][]) =>
    traces.flat().map((line) => line.replaceAll(/[0-9a-f]{8,}|\S*wallet\S*/g, ''))
  expect(plain(second.traces)).toEqual(plain(first.traces))
}, 120_000)
