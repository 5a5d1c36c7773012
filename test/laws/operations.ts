/** Operations on a venue: each draws its own chance and returns its outcome. */
import { decodeBase58 } from '../../protocol/base58'
import { JTO } from '../../sandbox/environment'
import { LOT } from '../kit/venue/machine_world'
import {
  cancel,
  cancelAll,
  crowd,
  deadMan,
  deposit,
  disconnect,
  exitAnyNote,
  exitLiveOrder,
  exitSpentNote,
  exitUnlanded,
  modify,
  pauseInstrument,
  place,
  publish,
  reshape,
  withdraw,
} from './commands'
import { DEATHS, FAIR } from './relay'
import { reachedBy, type Simulation, TRADERS } from './simulation'

const deepestFork = ({ chain }: Simulation): number => Math.min(6, chain.tip - chain.finalized)

function fork(simulation: Simulation): Came {
  const deepest = deepestFork(simulation)
  if (deepest < 1) return 'nothing'
  simulation.fork(simulation.random.between(1, deepest))
  return undefined
}

/** A deposit lands and is gone with its block. */
async function forkDeposit(simulation: Simulation): Promise<Came> {
  const { random } = simulation
  const amount = LOT * BigInt(random.between(1, 50))
  await simulation.deposit(random.between(0, TRADERS - 1), decodeBase58(JTO, 32)!, amount)
  return fork(simulation)
}

/** The newest settlement that is not final is gone, with every block since. */
function forkSettlement(simulation: Simulation): Came {
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
async function jump(simulation: Simulation): Promise<Came> {
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
async function die(simulation: Simulation): Promise<Came> {
  const { random, counts } = simulation
  const death = random.pick(DEATHS)
  const before = counts.get(`died: ${death}`)
  for (let slot = 0; slot < DEATH_SLOTS; slot++) {
    // A batch that is undecided at a death is decided after the boot.
    const decides = random.chance(0.4) ? undefined : FAIR.decides
    await simulation.tick({ ...FAIR, dropped: random.chance(0.2), decides, death })
    if (counts.get(`died: ${death}`) !== before) return undefined
  }
  return 'survived'
}

async function restart(simulation: Simulation): Promise<Came> {
  simulation.venue.bootFromSnapshot()
  await simulation.boot()
  return undefined
}

/** Undefined: done; `nothing`: there was nothing to do it to; else the code of the refusal. */
export type Came = string | undefined
type Operation = (simulation: Simulation) => Promise<Came> | Came

/** By weight. */
export const OPERATIONS: readonly (readonly [weight: number, name: string, run: Operation])[] = [
  [420, 'place', place],
  [8, 'crowd', crowd],
  [50, 'modify', modify],
  [30, 'cancel', cancel],
  [6, 'cancel_all', cancelAll],
  [6, 'dead_man', deadMan],
  [6, 'disconnect', disconnect],
  [2, 'pause', pauseInstrument],
  [40, 'reference', publish],
  [70, 'deposit', deposit],
  [50, 'withdraw', withdraw],
  [60, 'reshape', reshape],
  [190, 'tick', async (simulation) => void (await simulation.tick())],
  [10, 'jump', jump],
  [15, 'fork', fork],
  [8, 'fork_deposit', forkDeposit],
  [15, 'fork_settlement', forkSettlement],
  [12, 'die', die],
  [3, 'restart', restart],
  [5, 'exit', exitAnyNote],
  [3, 'exit_live_order', exitLiveOrder],
  [3, 'exit_unlanded', exitUnlanded],
  [3, 'exit_spent', exitSpentNote],
  [2, 'day', (simulation) => simulation.venue.sleep(86_400_000) as undefined],
]
/** Weights summed up to each operation. */
const ENDS = OPERATIONS.map(([until], at) =>
  OPERATIONS.slice(0, at).reduce((sum, [weight]) => sum + weight, until),
)
const TOTAL = ENDS.at(-1)!

/** How many of `operations` are expected to be this one. */
export function expected(name: string, operations: number): number {
  const [weight] = OPERATIONS.find((one) => one[1] === name)!
  return (operations * weight) / TOTAL
}

/** Runs one operation, counts its outcome, and asks the law. */
export async function operate(simulation: Simulation): Promise<void> {
  const drawn = simulation.random.next() * TOTAL
  const [, name, run] = OPERATIONS[ENDS.findIndex((end) => drawn < end)]!
  const points = reachedBy(`operation ${name}`, simulation.venue.state)
  const came = await run(simulation)
  if (came === undefined) simulation.reach(points)
  simulation.count(came === undefined ? name : `${name}: ${came}`)
  simulation.lawOfNew()
}
