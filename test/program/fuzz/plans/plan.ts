/** What a plan is: a transaction that the present state of the world makes valid. */
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import type { World } from '../world'

/** Undefined where the state offers nothing of the kind. */
export type Planner = (world: World) => VaultInstruction | undefined
