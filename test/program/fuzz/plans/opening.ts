/** Defines a plan, a transaction that could be sent now; and plans that begin a vault, a mint or a deposit. */
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, vaultTokenAddress } from '../../../../protocol/vault/addresses'
import { initializeInstruction, registerMintInstruction } from '../../../../protocol/vault/admin'
import { anchorInstruction } from '../../../../protocol/vault/epochs'
import { depositInstruction } from '../../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import type { World, WorldMint } from '../world'

/** `due`: it must land. A plan that is not due must be rejected, and tries the rules first. */
export type Plan = {
  /** The precompile over the instruction's signatures. */
  before?: VaultInstruction
  instruction: VaultInstruction
  due: boolean
}

export const instructionsOf = ({ before, instruction }: Omit<Plan, 'due'>): VaultInstruction[] =>
  before === undefined ? [instruction] : [before, instruction]

/** Undefined where the world has nothing to make one of. */
export type Planner = (world: World) => Plan | undefined

export const due = (instruction: VaultInstruction): Plan => ({ instruction, due: true })

const EXIT_DELAY_S = 1_000
const MINTS_MAX = 6

export function initialization(world: World, program: Uint8Array) {
  return initializeInstruction({
    program,
    deployer: world.sponsor,
    program_data: world.programData(program),
    admin: world.officers[0]!,
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

/** Frozen by its issuer: nothing moves in or out. */
const isHeld = (world: World, { mint }: WorldMint): boolean =>
  world.ledger.get(vaultTokenAddress(world.program, mint)).data[108] !== 1

export const planDeposit: Planner = (world) => {
  const { epoch, paused, frozen } = world.config()
  const mint = world.chance.pick(world.mints)
  const depositor = world.chance.pick(world.traders)
  const source = world.newToken({ mint: mint.mint, owner: depositor, amount: 1n << 40n }, mint.token_program)
  const amount = 1_000n + BigInt(world.chance.below(100_000))
  const instruction = depositInstruction({
    program: world.program,
    ...mint,
    depositor,
    source,
    amount,
    inner: world.newInner(),
  })
  return { instruction, due: epoch > 0 && !paused && !frozen && !isHeld(world, mint) }
}
