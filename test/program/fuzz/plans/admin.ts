/** Plans of the admin: announced keys, restores, pauses. */
import {
  authorizeRestoreInstruction,
  pauseInstruction,
  rotateSignerInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../../protocol/vault/admin_actions'
import type { World } from '../world'
import type { Planner } from './plan'

const adminOf = (world: World) => ({ program: world.program, admin: world.config().admin })

export const planRotateSigner: Planner = (world) => {
  const { pending_signer } = world.config()
  if (pending_signer === undefined)
    return rotateSignerInstruction({
      ...adminOf(world),
      action: 'announce',
      key: world.chance.pick(world.officers),
    })
  const due = pending_signer.effective_at_s <= world.clock.unix_s
  return rotateSignerInstruction({ ...adminOf(world), action: due ? 'apply' : 'cancel' })
}

export const planSetAdmin: Planner = (world) => {
  const { pending_admin } = world.config()
  if (pending_admin === undefined)
    return setAdminInstruction({
      ...adminOf(world),
      action: 'announce',
      key: world.chance.pick(world.officers),
    })
  if (pending_admin.effective_at_s > world.clock.unix_s)
    return setAdminInstruction({ ...adminOf(world), action: 'cancel' })
  return setAdminInstruction({ program: world.program, admin: pending_admin.key, action: 'apply' })
}

export const planAuthorizeRestore: Planner = (world) => {
  const pending = world.config().pending_restore_at_s !== undefined
  return authorizeRestoreInstruction({ ...adminOf(world), action: pending ? 'cancel' : 'announce' })
}

export const planPause: Planner = (world) =>
  world.config().paused ? undefined : pauseInstruction(adminOf(world))
export const planUnpause: Planner = (world) =>
  world.config().paused ? unpauseInstruction(adminOf(world)) : undefined
