/** What a mutation is: one change an attacker could make to a transaction. */
import { toHex } from '../../../../protocol/bytes'
import type { InstructionAccount, VaultInstruction } from '../../../../protocol/vault/instruction'
import type { World } from '../world'

/** Answers other instructions; those given stay as they are. `at`: which of them to change. */
export type Mutation = (
  world: World,
  instructions: readonly VaultInstruction[],
  at: number,
) => VaultInstruction[]

/** A mutation of one instruction. */
export const ofOne =
  (change: (world: World, instruction: VaultInstruction) => VaultInstruction): Mutation =>
  (world, instructions, at) =>
    instructions.map((one, index) => (index === at ? change(world, one) : one))

/** An account in a place of the list; only a key of the fuzzer can sign. */
export function placed(world: World, address: Uint8Array, like: InstructionAccount): InstructionAccount {
  const can_sign = world.signing_keys.some((key) => toHex(key) === toHex(address))
  return { address, signer: like.signer && can_sign, writable: like.writable }
}

export function withAccount(
  instruction: VaultInstruction,
  place: number,
  account: InstructionAccount,
): VaultInstruction {
  return { ...instruction, accounts: instruction.accounts.map((one, at) => (at === place ? account : one)) }
}
