/** Checks 3.1 to 3.3: the measured manifest and the RPC operators in it. */
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { lintManifest } from '../manifest/lint_manifest'
import { Refused, requireThat } from '../transcript'
import { established, type RunMachineCheck, Skipped } from './verification_case'

/** Check 3.1: the measured manifest is one that the policy pins. */
export const checkComposeHash: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const compose_hash = toHex(established(verification, 'claims').compose_hash)
  requireThat(bundle.info.compose_hash === compose_hash, 'the venue states another manifest than it measured')
  if (policy.compose_hashes === undefined)
    throw new Skipped('compose_hash_unpinned', `; measured: ${compose_hash}`)
  requireThat(policy.compose_hashes.includes(compose_hash), `measured manifest ${compose_hash} is not pinned`)
  return { compose_hash }
}

/** Check 3.2: the manifest's text is the measured one and passes the linter. */
export const checkManifest: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const { compose_hash } = established(verification, 'claims')
  if (bundle.app_compose === null) throw new Skipped('manifest_absent')
  const text = utf8(bundle.app_compose)
  requireThat(equalBytes(sha256(text), compose_hash), 'the manifest text is not the measured one')
  const { faults, environment } = lintManifest(bundle.app_compose, policy.environment_names)
  if (faults.length > 0) throw new Refused(faults.join('; '))
  verification.established.settings = environment
  return { bytes: String(text.length) }
}

/**
 * Check 3.3: the RPC operators in the measured manifest. Two hosts of one operator can withhold the chain together, so
 * operators are counted and not hosts.
 */
export const checkRpcOperators: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  established(verification, 'claims')
  const { rpc_operators } = policy
  if (rpc_operators === undefined) throw new Skipped('rpc_operators_unpinned')
  if (bundle.app_compose === null) throw new Refused('the policy names RPC operators: give the manifest text')
  // The linter has admitted a list of https URLs only.
  const urls = String(established(verification, 'settings').get('SOLANA_RPC_URL')).split(',')
  const used = new Set<string>()
  for (const url of urls) {
    const { host } = new URL(url)
    const operator = rpc_operators.operators.find(({ hosts }) => hosts.includes(host))
    if (operator === undefined)
      throw new Refused(`the manifest reads the chain from ${host}, which is no accepted host`)
    used.add(operator.name)
  }
  requireThat(
    used.size >= rpc_operators.minimum,
    `the manifest names ${used.size} RPC operators, the policy asks for ${rpc_operators.minimum}`,
  )
  return { operators: [...used].join(' ') }
}
