/** Plans that begin something: a vault, a mint, an epoch, an anchor. */

import { decodeTree } from '../../../../protocol/vault/accounts'
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../../protocol/vault/addresses'
import { initializeInstruction, registerMintInstruction } from '../../../../protocol/vault/admin'
import { anchorInstruction, openEpochInstruction } from '../../../../protocol/vault/epochs'
import type { World } from '../world'
import { isUsable } from './admin'
import { due, type Planner } from './plan'

const EXIT_DELAY_S = 1_000
const MINTS_MAX = 6

export function initialization(world: World, program: Uint8Array) {
  const [admin, , settlement_signer] = world.officers
  return initializeInstruction({
    program,
    deployer: world.sponsor,
    program_data: world.programData(program),
    admin: admin!,
    settlement_signer: settlement_signer!,
    exit_delay_s: EXIT_DELAY_S,
    genesis_hash: world.officers[3]!,
  })
}

/** Of the third program, which no kept transaction ever initializes. */
export const planInitialize: Planner = (world) => due(initialization(world, world.unborn_program))

export function registration(
  world: World,
  program: Uint8Array,
  mint: { mint: Uint8Array; token_program: Uint8Array },
) {
  return registerMintInstruction({
    program,
    admin: world.config().admin,
    payer: world.sponsor,
    ...mint,
    min_deposit: 1_000n,
    min_exit: 500n,
  })
}

export const planRegisterMint: Planner = (world) => {
  if (world.mints.length >= MINTS_MAX) return undefined
  const extensible = world.chance.oneIn(2)
  const pointer = { type: 18, value: new Uint8Array(64) }
  const frozen_by = world.chance.oneIn(2) ? { freeze_authority: world.attacker } : {}
  const mint = extensible
    ? world.newMint(TOKEN_2022_PROGRAM, { ...frozen_by, extensions: [pointer] })
    : world.newMint(TOKEN_PROGRAM, frozen_by)
  return { instruction: registration(world, world.program, mint), due: !world.config().frozen }
}

export const planOpenEpoch: Planner = (world) => {
  const config = world.config()
  const from_s = config.pending_restore_at_s
  const authorized = from_s !== 0 && isUsable(from_s, world.clock.unix_s)
  const restore = authorized || world.chance.oneIn(6)
  const tree = decodeTree(world.ledger.get(world.vault.tree).data)!
  const instruction = openEpochInstruction({
    program: world.program,
    settlement_signer: config.settlement_signer,
    epoch: config.epoch + 1,
    boot_nonce: world.chance.element().slice(0, 16),
    compose_hash: world.chance.bytes(32),
    journal_seq: restore ? 0 : config.journal_seq,
    journal_head: config.journal_head,
    expected_head: config.journal_head,
    restore,
    generation: config.generation + (restore ? 1 : 0),
    last_batch: config.last_batch,
    spent_root: tree.spent_root,
    cited_leaf_count: tree.leaf_count,
    cited_root: tree.root,
  })
  return { instruction, due: authorized === restore }
}

export const planAnchor: Planner = (world) => {
  const config = world.config()
  const { slot, unix_s } = world.clock
  const limits = world.chance.oneIn(2) ? { not_after_slot: slot + 2, not_after_s: unix_s + 30 } : undefined
  const instruction = anchorInstruction({
    program: world.program,
    settlement_signer: config.settlement_signer,
    epoch: config.epoch,
    journal_seq: config.journal_seq + 1,
    journal_head: world.chance.bytes(32),
    not_after_slot: 0,
    not_after_s: 0,
    ...limits,
  })
  return { instruction, due: config.epoch > 0 && config.commit_seq <= config.journal_seq }
}
