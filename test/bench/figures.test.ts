/** A bench names its machine and fails when a figure misses its target; its chain does not stall on a loaded machine. */

import { expect, test } from 'bun:test'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { inFolder } from '../../bench/kit/figures'
import { accountOf, elementNamed } from '../../bench/venue/bench_config'
import { restOrders } from '../../bench/venue/fund_notes'
import { openEngine } from '../../bench/venue/open_engine'
import { LIMITS } from '../../engine/limits'

const FIGURES = join(import.meta.dir, '../../bench/kit/figures.ts')

function reported(figures: object[]) {
  const script = `import { report } from '${FIGURES}'; report("some", ${Bun.inspect(figures)})`
  const { exitCode, stdout } = Bun.spawnSync([process.execPath, '-e', script])
  return { exitCode, lines: stdout.toString().trimEnd().split('\n') }
}

test.each([
  ['<= 1.2', 1.2, 0],
  ['<= 1.2', 1.200001, 1],
  ['< 5', 4.9, 0],
  ['< 5', 5, 1],
  ['>= 60', 60, 0],
  ['>= 60', 59.99, 1],
  ['< 5', Number.NaN, 1],
])('a target %s with %p exits with %p', (target, value, code) => {
  const met = { figure: 'met', value: 1, unit: 'us', target: '<= 1' }
  const { exitCode, lines } = reported([met, { figure: 'one', value, unit: 'x', target }])
  expect(exitCode).toBe(code)
  expect(lines[0]).toContain(`${cpus().length} cores of ${cpus()[0]!.model}`)
  expect(lines[0]).toMatch(/ GB, Linux \S+, \w+ at \/\S*, Bun [\d.]+, load [\d.]+$/)
  expect(lines[3]!.trimEnd().endsWith(' missed')).toBe(code === 1)
})

test('figures without a target fail nothing', () => {
  expect(reported([{ figure: 'one', value: 1e9, unit: 'us' }]).exitCode).toBe(0)
})

test('a venue that does not run for longer than a stall of the chain goes on trading', () =>
  inFolder('quiet-chain', async (dir) => {
    const slot_ms = 100
    const open = await openEngine(dir, slot_ms)
    const { state, sequencer } = open.engine
    await sequencer.submit({
      kind: 'account_record',
      account_id: accountOf(0),
      account_key: elementNamed('account'),
      version: 1,
      state: 'active',
      limits: { rate_capacity: 1, rate_refill_per_s: 1, orders_live_max: 1, keys_max: 1 },
      signature: new Uint8Array(64),
    })
    const { slot } = open.chain.view()
    Bun.sleepSync(2 * Math.max(LIMITS.stall_min_ms, LIMITS.stall_slots * slot_ms))
    while (open.chain.view().slot === slot) await Bun.sleep(slot_ms)
    await restOrders(open, 1)
    expect([state.orders.size, state.reopens_slot]).toEqual([1, 0])
    await open.venue.close()
  }))
