/**
 * A platform and an epoch whose signatures nobody verified: the fuzzer's transactions hold no precompile, so none may land.
 */
import { openAttestedEpochInstructions } from '../../../../protocol/vault/attested_epochs'
import { registerPlatformInstructions } from '../../../../protocol/vault/platforms'
import { AttestedVault } from '../../../kit/vault/attested_vault'
import { developmentChain } from '../../../kit/vault/development_chain'
import type { Planner } from './plan'

const CHAIN = developmentChain()
const OPENING = new AttestedVault().fields()

export const planRegisterPlatform: Planner = (world) => {
  const fields = { ...CHAIN, program: world.program, payer: world.sponsor }
  return { instruction: registerPlatformInstructions(fields)[1], due: false }
}

export const planOpenAttestedEpoch: Planner = (world) => {
  const keys = { settlement_signer: world.officers[3]!, authority_signer: world.officers[2]! }
  const fields = { ...OPENING, ...keys, program: world.program, epoch: world.config().epoch + 1 }
  return { instruction: openAttestedEpochInstructions(fields)[1], due: false }
}
