/**
 * Random life of a whole venue on the real program: deposits, orders of every kind, withdrawals, reshapes, exits, forks, deaths
 * and restarts. After every slot, fork and operation the vault holds at least its debts, which add up over all owners, each new
 * settlement batch balances by itself, and each order has the amount that auctions left. TACIT_SIM_OPS sets the number of
 * operations, TACIT_SIM_SEED replays one simulation; a long one must reach every point.
 */
import { expect, test } from 'bun:test'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { decodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { installPoseidon } from '../../protocol/notes/poseidon'
import { JTO } from '../../sandbox/environment'
import { Random } from '../kit/random'
import { fund } from './commands'
import { expected, OPERATIONS, operate } from './operations'
import { FAIR } from './relay'
import { pointsOf, Simulation } from './simulation'

const COUNT = Number(process.env['TACIT_SIM_OPS'] ?? 600)
const SEED = Number(process.env['TACIT_SIM_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const REPORT_EVERY = 10_000
/** The share of the weights' promise that must have been done, or the simulation lives in a dead venue. */
const DONE_LEAST = 0.4
/** So many operations reach every point. */
const REACHING = 100_000
/** Fewer than this many expected say nothing. */
const EXPECTED_LEAST = 25

const native = loadNativePoseidon()
if (native) installPoseidon(native)

test(
  `${COUNT} random operations conserve every mint at every step`,
  async () => {
    console.log(`TACIT_SIM_SEED=${SEED} TACIT_SIM_OPS=${COUNT}`)
    const simulation = new Simulation(new Random(SEED))
    await simulation.open()
    try {
      await fund(simulation)
      for (let done = 1; done <= COUNT; done++) {
        await operate(simulation)
        if (done % REPORT_EVERY === 0) console.log(report(simulation))
      }
      await simulation.quiesce()
      console.log(
        report(simulation),
        JSON.stringify(Object.fromEntries([...simulation.counts].sort()), null, 1),
      )
      expectLively(simulation)
      expectReached(simulation)
      const { venue, chain, landings } = simulation
      expect(landings.landed).toBe(chain.vault().config.last_batch)
      const rebuilt = venue.rebuildTrees()
      expect(toHex(rebuilt.spent.root())).toBe(toHex(chain.vault().tree.spent_root))
      expect(toHex(rebuilt.notes.root())).toBe(toHex(chain.vault().tree.root))
      venue.takeSnapshot()
    } finally {
      await simulation.close()
    }
  },
  24 * 3_600_000,
)

/** A mix that is rejected or finds nothing to do proves nothing. */
function expectLively({ counts, orders, laws, holdings, landings }: Simulation): void {
  for (const [, name] of OPERATIONS) {
    const due = expected(name, COUNT)
    const done = counts.get(name) ?? 0
    if (due >= EXPECTED_LEAST && done < due * DONE_LEAST) throw new Error(`${name}: ${done} done of ${due}`)
  }
  expect(orders.fills).toBeGreaterThan(COUNT * 0.1)
  expect(laws.fills).toBeGreaterThanOrEqual(orders.fills)
  expect(landings.landed).toBeGreaterThan(COUNT * 0.02)
  if (COUNT >= 5_000) {
    // Some orders were filled over several settlement batches at once.
    expect(laws.fills).toBeGreaterThan(orders.fills)
    expect(holdings.paid).toBeGreaterThan(COUNT * 0.01)
    expect(holdings.refunded).toBeGreaterThan(COUNT * 0.005)
  }
}

function expectReached({ reached }: Simulation): void {
  const points = pointsOf(OPERATIONS.map(([, name]) => name))
  const missing = points.filter((point) => !reached.has(point))
  const least = points.filter((point) => reached.has(point)).sort((a, b) => reached.get(a)! - reached.get(b)!)
  console.log(
    `reached ${points.length - missing.length} of ${points.length} points, the least often:`,
    least.slice(0, 5).map((point) => `${point} ${reached.get(point)}`),
  )
  if (COUNT >= REACHING) expect(missing).toEqual([])
}

function report({ venue, chain, holdings, landings, orders, laws }: Simulation): string {
  const { accepted, refused, replayed, state } = venue
  const { leaf_count } = chain.vault().tree
  const { paid, refunded } = holdings
  const facts = { slot: chain.tip, leaf_count, commands: accepted, refused, replayed, ...landings }
  const trade = { auctions: orders.auctions, fills: orders.fills, ended: orders.ended, parts: laws.fills }
  const live = { notes: state.notes.size, unopened: holdings.unopened.size, orders: state.orders.size }
  const late = Object.fromEntries(chain.refusals)
  return JSON.stringify({ ...facts, ...trade, paid, refunded, batches: laws.checked, ...live, late })
}

test('the law notices a single unit that nobody is owed, or that the vault does not hold', async () => {
  const simulation = new Simulation(new Random(SEED))
  await simulation.open()
  try {
    const { holdings, venue } = simulation
    await simulation.deposit(0, decodeBase58(JTO, 32)!, 5_000n)
    const law = () => simulation.law()
    law()
    venue.state.settlement.fees[0]! += 1n
    expect(law).toThrow('is owed')
    venue.state.settlement.fees[0]! -= 1n
    const [deposit] = holdings.unopened.values()
    deposit!.amount -= 1n
    expect(law).toThrow('is owed')
    deposit!.amount += 1n
    holdings.landed({ ...(await landedDeposit(simulation)), amount: 1n })
    expect(law).toThrow('the vault holds')
  } finally {
    await simulation.close()
  }
})

async function landedDeposit(simulation: Simulation) {
  await simulation.deposit(1, decodeBase58(JTO, 32)!, 7_000n)
  const event = simulation.chain.eventsIn(simulation.chain.tip).find(({ kind }) => kind === 'deposited')
  await simulation.tick(FAIR)
  return event as Extract<NonNullable<typeof event>, { kind: 'deposited' }>
}
