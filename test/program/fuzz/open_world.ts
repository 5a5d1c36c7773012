/** Brings a world to a place where every instruction may follow. */

import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { attempt } from './attempt'
import { initialization, planOpenEpoch, registration } from './plans/opening'
import { World } from './world'

function land(world: World, instruction: VaultInstruction): void {
  const done = attempt(world, [instruction], false)
  if (done.kind === 'refused') throw new Error(`the world does not open: ${done.error}`)
  if (done.kind !== 'landed' || done.wrong !== undefined) throw new Error('the world opens wrongly')
  const wrong = done.keep()
  if (wrong !== undefined) throw new Error(wrong)
}

/** Two vaults over the same two mints, one of each token program; most worlds begin with an epoch. */
export function openWorld(seed: number, elf: Uint8Array): World {
  const world = new World(seed, elf)
  for (const program of [world.program, world.other_program]) land(world, initialization(world, program))
  const pointer = { type: 18, value: new Uint8Array(64) }
  const mints = [
    world.newMint(TOKEN_PROGRAM, { freeze_authority: world.attacker }),
    world.newMint(TOKEN_2022_PROGRAM, { extensions: [pointer] }),
  ]
  for (const mint of mints) {
    land(world, registration(world, world.program, mint))
    land(world, registration(world, world.other_program, mint))
  }
  const epoch = planOpenEpoch(world)!
  if (epoch.due) land(world, epoch.instruction)
  return world
}
