/** Plans of the admin and of a venue that starts: keys, restores, pauses, announcements, platforms, epochs. */
import { equalBytes } from '../../../../protocol/bytes'
import {
  type ConfigAccount,
  decodeAnnouncement,
  decodePlatform,
  decodeTree,
} from '../../../../protocol/vault/accounts'
import {
  type AdminAction,
  ANNOUNCED_LISTS,
  type AnnouncedList,
  type AnnounceFields,
  announceInstruction,
  announcementAddress,
  authorizeRestoreInstruction,
  declareOutageInstruction,
  pauseInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../../protocol/vault/admin'
import {
  epochReportData,
  openAttestedEpochInstructions,
  platformAddress,
  registerPlatformInstructions,
} from '../../../../protocol/vault/epochs'
import { CERTIFICATES, issue, MACHINE, type World } from '../world'
import type { Planner } from './opening'

const LIFE_S = 2_592_000

/** An announcement can be used for 30 days. */
const isUsable = (effective_at_s: number, now_s: number): boolean =>
  effective_at_s <= now_s && now_s <= effective_at_s + LIFE_S

const adminOf = (world: World) => ({ program: world.program, admin: world.config().admin })

/** Mostly the one that the state asks for; now and then any of the three. */
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

const LISTS = Object.keys(ANNOUNCED_LISTS) as AnnouncedList[]
const isMinimum = (list: AnnouncedList): boolean => list.endsWith('minimum')

/** The value of a record that holds now. */
function valueNow(world: World, account: Uint8Array): Uint8Array | undefined {
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
  // Half of the time the entries that the world's machine needs, so that it opens epochs again.
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

/** Announcements that the vault needs for the machine, with their values. */
export const needed = (world: World) => MACHINE.announced(world.epoch_authority)

const holds = (
  world: World,
  [topic, value = new Uint8Array()]: ReturnType<typeof needed>[number],
): boolean => {
  const held = valueNow(world, announcementAddress(world.program, topic))
  return held?.every((byte, at) => byte === (value[at] ?? 0)) ?? false
}

export const planRegisterPlatform: Planner = (world) => {
  const certificate = world.chance.pick(CERTIFICATES)
  const { data } = world.ledger.get(platformAddress(world.program, certificate.key))
  const fields = { ...certificate, program: world.program, payer: world.sponsor }
  const [before, instruction] = registerPlatformInstructions(fields)
  return { before, instruction, due: data.length === 0 && holds(world, needed(world)[0]!) }
}

export const planOpenAttestedEpoch: Planner = (world) => {
  const config = world.config()
  const from_s = config.pending_restore_at_s
  const authorized = from_s !== 0 && isUsable(from_s, world.clock.unix_s)
  const restore = authorized || world.chance.oneIn(6)
  const tree = decodeTree(world.ledger.get(world.vault.tree).data)!
  const [, , one, other] = world.officers
  const settlement_signer = world.chance.pick(
    [one!, other!].filter((key) => key.some((byte, at) => byte !== config.settlement_signer[at])),
  )
  const opening = {
    epoch: config.epoch + 1,
    boot_nonce: world.chance.element().slice(0, 16),
    compose_hash: MACHINE.compose_hash,
    journal_seq: restore ? 0 : config.journal_seq,
    journal_head: config.journal_head,
    expected_head: config.journal_head,
    restore,
    generation: config.generation + (restore ? 1 : 0),
    last_batch: config.last_batch,
    spent_root: tree.spent_root,
    cited_leaf_count: tree.leaf_count,
    cited_root: tree.root,
  }
  const parties = { program: world.program, settlement_signer, authority_signer: world.epoch_authority }
  const venue = world.venueOf(opening.generation)
  const fields = MACHINE.quoted(opening, parties, venue)
  const [before, instruction] = openAttestedEpochInstructions(fields)
  issue(instruction.data, epochReportData({ venue, settlement_signer, ...opening }))
  const registered = decodePlatform(world.ledger.get(platformAddress(world.program, fields.pck_key)).data)
  const may_open = registered !== undefined && needed(world).every((topic) => holds(world, topic))
  return { before, instruction, due: authorized === restore && may_open }
}
