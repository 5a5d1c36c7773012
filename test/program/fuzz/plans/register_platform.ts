/** A platform whose signatures nobody verified: the fuzzer's transactions hold no precompile, so none may land. */
import { registerPlatformInstructions } from '../../../../protocol/vault/platforms'
import { developmentChain } from '../../../kit/vault/development_chain'
import type { Planner } from './plan'

const CHAIN = developmentChain()

export const planRegisterPlatform: Planner = (world) => {
  const fields = { ...CHAIN, program: world.program, payer: world.sponsor }
  return { instruction: registerPlatformInstructions(fields)[1], due: false }
}
