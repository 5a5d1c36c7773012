/** Plans of `announce`: few topics, so that records are met again in every state. */

import { equalBytes } from '../../../../protocol/bytes'
import { decodeAnnouncement } from '../../../../protocol/vault/accounts'
import {
  ANNOUNCED_LISTS,
  type AnnouncedList,
  type AnnounceFields,
  announceInstruction,
  announcementAddress,
} from '../../../../protocol/vault/announcements'
import { MACHINE } from '../machine'
import type { World } from '../world'
import type { Planner } from './plan'

const LISTS = Object.keys(ANNOUNCED_LISTS) as AnnouncedList[]
const isMinimum = (list: AnnouncedList): boolean => list.endsWith('minimum')

/** The value of a record that holds now. */
export function valueNow(world: World, account: Uint8Array): Uint8Array | undefined {
  const record = decodeAnnouncement(world.ledger.get(account).data)
  if (record === undefined) return undefined
  const due = record.next_at_s !== 0 && world.clock.unix_s >= record.next_at_s
  return due ? record.next : record.since_s ? record.value : undefined
}

function recordOf(world: World, list: AnnouncedList, id: Uint8Array) {
  const { data } = world.ledger.get(announcementAddress(world.program, { list, id }))
  const record = decodeAnnouncement(data)
  const due = record !== undefined && record.next_at_s !== 0 && world.clock.unix_s >= record.next_at_s
  return {
    waits: record !== undefined && record.next_at_s !== 0 && !due,
    value: due ? record.next : record?.since_s ? record.value : undefined,
  }
}

export const planAnnounce: Planner = (world) => {
  // Half of the time what the world's machine needs, so that it opens epochs again.
  const needed = world.chance.oneIn(2)
    ? world.chance.pick(MACHINE.announced(world.epoch_authority))
    : undefined
  const list = needed?.[0].list ?? world.chance.pick(LISTS)
  const widths = ANNOUNCED_LISTS[list]
  const id =
    needed === undefined ? world.officers[0]!.slice(0, widths.id) : (needed[0].id ?? new Uint8Array())
  const { waits, value: old } = recordOf(world, list, id)
  const value = needed?.[1] ?? new Uint8Array(widths.value).fill(2 + world.chance.below(2))
  const action =
    needed !== undefined && !world.chance.oneIn(8)
      ? 'announce'
      : world.chance.pick(['announce', 'announce', 'cancel', 'revoke', 'raise'] as const)
  const keys = { program: world.program, admin: world.config().admin, payer: world.sponsor }
  const fields = {
    ...keys,
    list,
    id,
    action,
    ...(action === 'announce' || action === 'raise' ? { value } : {}),
  }
  const instruction = announceInstruction(fields as AnnounceFields)
  if (action === 'announce') return { instruction, due: true }
  if (action === 'cancel') return { instruction, due: waits }
  if (action === 'revoke') return { instruction, due: waits || old !== undefined }
  const raised =
    old !== undefined &&
    (equalBytes(old.slice(0, 18), value) || (list !== 'tee_tcb_minimum' && old[0]! < value[0]!))
  return { instruction, due: isMinimum(list) && raised }
}
