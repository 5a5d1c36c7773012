/** Check 6.3: the vault program is the expected one and nobody unexpected can replace it. */

import { LOADER_V3 } from '../collect/program_data'
import { requireThat } from '../refused'
import { chainOf } from './settlement_signer'
import type { RunCheck } from './verification_case'

export const checkProgram: RunCheck = (verification) => {
  const { chain, policy } = chainOf(verification)
  const { program, program_data } = chain
  const { upgrade_authority, sha256 } = program_data
  requireThat(program.owner === LOADER_V3, 'the program is not of the upgradeable loader')
  requireThat(program_data.owner === LOADER_V3, "the program's data is not of the upgradeable loader")
  requireThat(
    upgrade_authority === null || policy.upgrade_authorities.includes(upgrade_authority),
    `${upgrade_authority} may replace the program`,
  )
  requireThat(
    policy.program_sha256 === undefined || policy.program_sha256 === sha256,
    'the program is another build than the pinned one',
  )
  // A pinned address says which program only as long as nobody can put another one there.
  requireThat(
    policy.program_sha256 !== undefined || upgrade_authority === null,
    'a program that can be replaced needs a pinned hash',
  )
  return { program_sha256: sha256, upgrade_authority: upgrade_authority ?? 'none: it can never change' }
}
