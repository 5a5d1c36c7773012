/**
 * Random life of a whole venue on the real program: deposits, trades, withdrawals, reshapes, exits, forks and restarts.
 * After every slot, fork and operation the vault holds what it owes, and what is owed to everybody adds up to that.
 * TACIT_SIM_OPS sets the number of operations, TACIT_SIM_SEED replays one simulation.
 */
import { expect, test } from 'bun:test'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { toHex } from '../../protocol/bytes'
import { installPoseidon } from '../../protocol/poseidon'
import { operate } from './operations'
import { Random } from './random'
import { Simulation } from './simulation'

const OPERATIONS = Number(process.env['TACIT_SIM_OPS'] ?? 600)
const SEED = Number(process.env['TACIT_SIM_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const REPORT_EVERY = 10_000

const native = loadNativePoseidon()
if (native) installPoseidon(native)

test(
  `${OPERATIONS} random operations conserve every mint at every step`,
  async () => {
    console.log(`TACIT_SIM_SEED=${SEED} TACIT_SIM_OPS=${OPERATIONS}`)
    const simulation = new Simulation(new Random(SEED))
    await simulation.open()
    try {
      const { counts } = simulation
      for (let done = 1; done <= OPERATIONS; done++) {
        const name = await operate(simulation)
        counts.set(name, (counts.get(name) ?? 0) + 1)
        if (done % REPORT_EVERY === 0) console.log(report(simulation))
      }
      expect(await simulation.quiesce()).toBe(true)
      console.log(report(simulation))
      const { venue, chain, relay } = simulation
      expect(relay.landed).toBeGreaterThan(0)
      expect(relay.landed).toBe(chain.vault().config.last_batch)
      const rebuilt = venue.rebuildTrees()
      expect(toHex(rebuilt.spent.root())).toBe(toHex(chain.vault().config.spent_root))
      expect(toHex(rebuilt.notes.root())).toBe(toHex(chain.vault().tree.root))
      expect(venue.replays()).not.toBe(false)
    } finally {
      await simulation.close()
    }
  },
  24 * 3_600_000,
)

function report({ venue, relay, chain, counts, holdings }: Simulation): string {
  const { accepted, refused, state } = venue
  const { landed, refunded, exits_served } = relay
  const { leaf_count } = chain.vault().tree
  const facts = {
    slot: chain.tip,
    accepted,
    refused,
    landed,
    refunded,
    exits_served,
    leaf_count,
    cited_again: chain.cited_again,
  }
  const live = { notes: state.notes.size, unopened: holdings.unopened.size, orders: state.orders.size }
  return JSON.stringify({ ...facts, ...live, ...Object.fromEntries(counts) })
}

test('the law notices a single unit that nobody is owed, or that the vault does not hold', async () => {
  const simulation = new Simulation(new Random(SEED))
  await simulation.open()
  try {
    const { holdings, venue, chain, mints } = simulation
    await simulation.deposit(0, mints.base, 5_000n)
    const law = () => holdings.check(venue.state, chain)
    law()
    venue.state.settlement.fees[0]! += 1n
    expect(law).toThrow('is owed')
    venue.state.settlement.fees[0]! -= 1n
    const [deposit] = holdings.unopened.values()
    deposit!.amount -= 1n
    expect(law).toThrow('is owed')
  } finally {
    await simulation.close()
  }
})
