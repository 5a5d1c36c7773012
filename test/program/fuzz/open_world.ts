/** Brings a world to a place where every instruction may follow. */

import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import { announceInstruction } from '../../../protocol/vault/announcements'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { registerPlatformInstructions } from '../../../protocol/vault/platforms'
import { attempt } from './attempt'
import { CERTIFICATES } from './machine'
import { needed, planOpenAttestedEpoch } from './plans/attested'
import { initialization, registration } from './plans/opening'
import { instructionsOf } from './plans/plan'
import type { Witness } from './raw_chain'
import { World } from './world'

function land(world: World, ...instructions: VaultInstruction[]): void {
  const done = attempt(world, instructions, false)
  if (done.kind === 'refused') throw new Error(`the world does not open: ${done.error}`)
  if (done.kind !== 'landed' || done.wrong !== undefined) throw new Error('the world opens wrongly')
  const wrong = done.keep()
  if (wrong !== undefined) throw new Error(wrong)
}

/** Two vaults over the same two mints, one of each token program; most worlds begin with an epoch. */
export function openWorld(seed: number, elf: Uint8Array, witness?: Witness): World {
  const world = new World(seed, elf, witness)
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
  const keys = { program: world.program, admin: world.config().admin, payer: world.sponsor }
  for (const [topic, value] of needed(world)) {
    const act = { action: 'announce', ...(value && { value }) } as const
    land(world, announceInstruction({ ...keys, ...topic, ...act }))
  }
  const certificate = { ...CERTIFICATES[0]!, program: world.program, payer: world.sponsor }
  land(world, ...registerPlatformInstructions(certificate))
  const epoch = planOpenAttestedEpoch(world)!
  if (epoch.due) land(world, ...instructionsOf(epoch))
  return world
}
