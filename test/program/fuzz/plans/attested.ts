/** A platform's certificate, and an epoch with a quote of the world's machine. */
import { decodePlatform, decodeTree } from '../../../../protocol/vault/accounts'
import { announcementAddress } from '../../../../protocol/vault/announcements'
import { epochReportData, openAttestedEpochInstructions } from '../../../../protocol/vault/attested_epochs'
import { platformAddress, registerPlatformInstructions } from '../../../../protocol/vault/platforms'
import { CERTIFICATES, issue, MACHINE } from '../machine'
import type { World } from '../world'
import { isUsable } from './admin'
import { valueNow } from './announce'
import type { Planner } from './plan'

/** What the vault must have announced for the machine, with its values. */
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
