/** Applies place and modify commands that were not refused. */

import type { CommandOf } from '../commands'
import type { ModifyPlan } from './decide_modify'
import type { PlacePlan } from './decide_place'
import type { Effects } from './effects'
import { endOrder } from './end_order'
import { openOrder } from './open_order'
import { placeAnswer } from './order_view'
import type { Answer } from './outcome'
import type { State } from './state'

export function applyPlace(state: State, fx: Effects, command: CommandOf<'place'>, plan: PlacePlan): Answer {
  const order = openOrder(state, fx, command, plan, { origin: command.origin })
  return { kind: 'place', result: placeAnswer(order) }
}

export function applyModify(
  state: State,
  fx: Effects,
  command: CommandOf<'modify'>,
  plan: ModifyPlan,
): Answer {
  const { old, place, keeps_age } = plan
  const { replacement, origin } = command
  const { order_id: replaces } = command.cancel
  const arrival_batch = keeps_age ? old.arrival_batch : undefined
  old.key.cancel_nonce = command.cancel.cancel_nonce
  endOrder(state, fx, old, {
    status: 'cancelled',
    reason: 'replaced',
    replaced_by: replacement.order_id.toHex(),
  })
  const order = openOrder(state, fx, replacement, place, { origin, replaces, arrival_batch })
  return { kind: 'modify', result: { old_order_id: replaces.toHex(), ...placeAnswer(order) } }
}
