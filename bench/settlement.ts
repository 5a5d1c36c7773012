/**
 * Measures how many orders settle per second, and the limits: `bun bench/settlement.ts [--seconds N]`. Full, hashed
 * batches go through the real relayer to the embedded chain at 400 and at 200 ms per slot; for comparison the limits of
 * every other part: the cluster's limit per writable account, hashing, signing, the program in the SVM.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LIMITS } from '../engine/limits'
import { loadNativePoseidon } from '../native/load_poseidon'
import { installPoseidon } from '../protocol/notes/poseidon'
import { type Figure, median, numbers, report } from './kit/figures'
import { ORDERS, settlementWork } from './settling/batch_work'
import { SettlingVenue } from './settling/settling_venue'

const { seconds } = numbers({ seconds: 12 })
const SLOTS_MS = [400, 200]
/** Limit per block of the cost of all transactions that write one account: 24 million units per 400 ms (Agave 4.3, SIMD-0306). */
const ACCOUNT_UNITS_PER_MS = 24_000_000 / 400

const native = loadNativePoseidon()
if (native) installPoseidon(native)

const figures: Figure[] = []
const work = await settlementWork()
const perSecond = (ms: number): number => (ORDERS * 1_000) / ms
const ceiling = (figure: string, ms: number, beside: string): number =>
  figures.push({ figure, value: perSecond(ms), unit: 'orders/s', beside })

for (const slot_ms of SLOTS_MS) {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-bench-settlement-'))
  const venue = await SettlingVenue.open(dir, slot_ms)
  const run = await venue.settle(seconds)
  await venue.close()
  rmSync(dir, { recursive: true })
  const at = `${slot_ms} ms slots`
  const rate = (run.batches * ORDERS) / run.elapsed_s
  const slots = (1_000 * run.elapsed_s) / run.batches / slot_ms
  const waits = `signed to confirmed ${Math.round(median(run.landing_ms))} ms`
  figures.push({
    figure: `${at}: confirmed`,
    value: rate,
    unit: 'orders/s',
    beside: `${run.batches} batches of ${ORDERS}`,
  })
  // The maximum in flight, each for the median duration.
  const under_way = LIMITS.batches_ahead_max + 1
  ceiling(
    `${at}: ceiling of the pipeline`,
    median(run.landing_ms) / under_way,
    `${under_way} batches under way`,
  )
  figures.push({ figure: `${at}: slots per batch`, value: slots, unit: 'slots', beside: waits })
  const used = (100 * work.cost_units) / (slots * slot_ms * ACCOUNT_UNITS_PER_MS)
  figures.push({
    figure: `${at}: of the account limit`,
    value: used,
    unit: '%',
    beside: `${work.cost_units} units a batch`,
  })
}
ceiling(
  'ceiling: account limit of the cluster',
  work.cost_units / ACCOUNT_UNITS_PER_MS,
  `${work.cost_units} units a batch`,
)
ceiling('ceiling: hashing', work.hash_ms, `${work.hash_ms.toFixed(1)} ms of one core a batch`)
ceiling('ceiling: building and signing', work.sign_ms, `${work.sign_ms.toFixed(1)} ms of one core a batch`)
ceiling(
  'ceiling: program in the SVM',
  work.program_ms,
  `${work.program_ms.toFixed(1)} ms of one core a batch`,
)
report('settlement', figures)
