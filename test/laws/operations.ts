/** What happens to a venue: each operation draws its own chance and says what came of it. */
import {
  cancel,
  cancelAll,
  crowd,
  deadMan,
  disconnect,
  modify,
  pauseInstrument,
  place,
  publish,
} from './commands'
import { exitAnyNote, exitLiveOrder, exitSpentNote, exitUnlanded } from './exits'
import { deposit, reshape, withdraw } from './payments'
import { reachedBy } from './reached'
import type { Simulation } from './simulation'
import { die, fork, forkDeposit, forkSettlement, jump, restart } from './upsets'

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

/** Runs one operation, counts what came of it, and asks the law. */
export async function operate(simulation: Simulation): Promise<void> {
  const drawn = simulation.random.next() * TOTAL
  const [, name, run] = OPERATIONS[ENDS.findIndex((end) => drawn < end)]!
  const points = reachedBy(`operation ${name}`, simulation.venue.state)
  const came = await run(simulation)
  if (came === undefined) simulation.reach(points)
  simulation.count(came === undefined ? name : `${name}: ${came}`)
  simulation.lawOfNew()
}
