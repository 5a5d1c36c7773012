/** Plays a random stream of commands in a fresh world. */

import { World } from '../../kit/venue/machine_world'
import { ACCOUNTS, play, type Step } from './random_commands'

/** Small, so that most auctions need several settlement batches. */
export const PARTS_MAX = 4

/** `each` looks at the world after every step. */
export function played(stream: Step[], each: (world: World, at: number) => void = () => {}): World {
  const world = new World({ settlement_parts_max: PARTS_MAX })
  for (const account_id of ACCOUNTS) world.account(account_id)
  stream.forEach((step, at) => {
    play(world, step, at)
    each(world, at)
  })
  return world
}
