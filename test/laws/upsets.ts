/** Makes faults around a venue: forks, missed slots, processes that die and others that start. */

import { decodeBase58 } from '../../protocol/base58'
import { LOT } from '../kit/venue/machine_world'
import type { Came } from './operations'
import { DEATHS, FAIR } from './relay'
import { JTO } from './sim_settings'
import { type Simulation, TRADERS } from './simulation'

const deepestFork = ({ chain }: Simulation): number => Math.min(6, chain.tip - chain.finalized)

export function fork(simulation: Simulation): Came {
  const deepest = deepestFork(simulation)
  if (deepest < 1) return 'nothing'
  simulation.fork(simulation.random.between(1, deepest))
  return undefined
}

/** A deposit lands and is gone with its block. */
export async function forkDeposit(simulation: Simulation): Promise<Came> {
  const { random } = simulation
  const amount = LOT * BigInt(random.between(1, 50))
  await simulation.deposit(random.between(0, TRADERS - 1), decodeBase58(JTO, 32)!, amount)
  return fork(simulation)
}

/** The newest settlement that is not final is gone, with every block since. */
export function forkSettlement(simulation: Simulation): Came {
  const { chain } = simulation
  const deepest = deepestFork(simulation)
  for (let depth = 1; depth <= deepest; depth++) {
    const events = chain.eventsIn(chain.tip - depth + 1)
    if (!events.some(({ kind }) => kind === 'settled')) continue
    simulation.fork(depth)
    return undefined
  }
  return 'nothing'
}

/** Slots that reach the venue all at once. */
export async function jump(simulation: Simulation): Promise<Came> {
  const { chain, holdings, random } = simulation
  for (let slots = random.between(1, 4); slots > 0; slots--) {
    for (const event of chain.advance()) holdings.landed(event)
  }
  await simulation.tick()
  return undefined
}

/** Slots in which a process may come to where it is to die. */
const DEATH_SLOTS = 4

/** The process dies in the middle of a slot. */
export async function die(simulation: Simulation): Promise<Came> {
  const { random, counts } = simulation
  const death = random.pick(DEATHS)!
  const before = counts.get(`died: ${death}`)
  for (let slot = 0; slot < DEATH_SLOTS; slot++) {
    // A batch that is undecided at a death is decided after the boot.
    const decides = random.chance(0.4) ? undefined : FAIR.decides
    await simulation.tick({ ...FAIR, dropped: random.chance(0.2), decides, death })
    if (counts.get(`died: ${death}`) !== before) return undefined
  }
  return 'survived'
}

export async function restart(simulation: Simulation): Promise<Came> {
  simulation.venue.bootFromSnapshot()
  await simulation.boot()
  return undefined
}
