/** Plans of the admin: announced keys, restores, pauses. */

import type { ConfigAccount } from '../../../../protocol/vault/accounts'
import {
  type AdminAction,
  authorizeRestoreInstruction,
  declareOutageInstruction,
  pauseInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../../protocol/vault/admin'
import type { World } from '../world'
import type { Planner } from './plan'

const LIFE_S = 2_592_000

/** An announcement can be used for 30 days. */
export const isUsable = (effective_at_s: number, now_s: number): boolean =>
  effective_at_s <= now_s && now_s <= effective_at_s + LIFE_S

const adminOf = (world: World) => ({ program: world.program, admin: world.config().admin })

/** Mostly what the state asks for; now and then any of the three. */
function actionFor(
  world: World,
  pending: ConfigAccount['pending_admin'],
): { action: AdminAction; due: boolean } {
  const effective = pending !== undefined && isUsable(pending.effective_at_s, world.clock.unix_s)
  const wanted = effective ? 'apply' : pending === undefined ? 'announce' : 'cancel'
  const action = world.chance.oneIn(3) ? world.chance.pick(['announce', 'apply', 'cancel'] as const) : wanted
  return { action, due: action === 'announce' || (action === 'apply' ? effective : pending !== undefined) }
}

export const planSetAdmin: Planner = (world) => {
  const { pending_admin } = world.config()
  const { action, due } = actionFor(world, pending_admin)
  const change = action === 'announce' ? { action, key: world.chance.pick(world.officers) } : { action }
  const own = adminOf(world)
  const admin = action === 'apply' && pending_admin !== undefined ? pending_admin.key : own.admin
  return { instruction: setAdminInstruction({ ...own, admin, ...change }), due }
}

export const planAuthorizeRestore: Planner = (world) => {
  const pending = world.config().pending_restore_at_s !== 0
  const action = pending || world.chance.oneIn(4) ? 'cancel' : 'announce'
  return {
    instruction: authorizeRestoreInstruction({ ...adminOf(world), action }),
    due: pending || action === 'announce',
  }
}

export const planPause: Planner = (world) => ({
  instruction: pauseInstruction(adminOf(world)),
  due: !world.config().paused,
})
export const planUnpause: Planner = (world) => ({
  instruction: unpauseInstruction(adminOf(world)),
  due: world.config().paused,
})

const OUTAGE_SPACING_MIN_S = 7_776_000

export const planDeclareOutage: Planner = (world) => {
  const { exit_delay_s, outage_at_s, outage_extra_s, frozen } = world.config()
  const spacing_s = Math.max(OUTAGE_SPACING_MIN_S, exit_delay_s + outage_extra_s)
  const extra_s = 1 + world.chance.below(3 * exit_delay_s)
  const instruction = declareOutageInstruction({ ...adminOf(world), extra_s })
  return { instruction, due: !frozen && world.clock.unix_s >= outage_at_s + spacing_s }
}
