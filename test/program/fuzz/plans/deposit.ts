/** Plans of deposits. */
import { vaultTokenAddress } from '../../../../protocol/vault/addresses'
import { depositInstruction } from '../../../../protocol/vault/deposit'
import type { World, WorldMint } from '../world'
import type { Planner } from './plan'

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
