/** Defines a plan: a transaction that could be sent now, and whether the state of the world makes it valid. */
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import type { World } from '../world'

/** `due`: it must land. What is not due must be refused, and is where the rules are tried first. */
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
