/** Checks 3.1 to 3.3: the measured manifest and the RPC operators in it. */
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { lintManifest } from '../manifest/lint_manifest'
import { parsePlainYaml, type YamlValue } from '../manifest/plain_yaml'
import { Refused, requireThat } from '../transcript'
import { established, type RunMachineCheck, Skipped } from './verification_case'

/** Check 3.1: the measured manifest is one that the policy pins. */
export const checkComposeHash: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const compose_hash = toHex(established(verification, 'claims').compose_hash)
  requireThat(bundle.info.compose_hash === compose_hash, 'the venue states another manifest than it measured')
  if (policy.compose_hashes.length === 0)
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
  const faults = lintManifest(bundle.app_compose, policy.environment_names)
  if (faults.length > 0) throw new Refused(faults.join('; '))
  return { bytes: String(text.length) }
}

const RPC_SETTING = 'SOLANA_RPC_URL'

/**
 * Check 3.3: the RPC operators in the measured manifest. Two hosts of one operator can withhold the chain together, so
 * operators are counted and not hosts.
 */
export const checkRpcOperators: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const { compose_hash } = established(verification, 'claims')
  const { rpc_operators } = policy
  if (rpc_operators === undefined) throw new Skipped('rpc_operators_unpinned')
  if (bundle.app_compose === null) throw new Refused('the policy names RPC operators: give the manifest text')
  const measured = equalBytes(sha256(utf8(bundle.app_compose)), compose_hash)
  requireThat(measured, 'the manifest text is not the measured one')
  const used = new Set<string>()
  for (const host of rpcHosts(bundle.app_compose)) {
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

/** Hosts in every `SOLANA_RPC_URL` of the manifest's services. @throws Refused unless each is a literal list of https URLs */
function rpcHosts(app_compose: string): string[] {
  const urls = rpcSettings(app_compose).flatMap((text) => text.split(','))
  requireThat(urls.length > 0, `the manifest has no ${RPC_SETTING}`)
  return urls.map((text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    requireThat(
      url?.protocol === 'https:' && !text.includes('$'),
      `${RPC_SETTING} is not a list of https URLs`,
    )
    return url!.host
  })
}

function rpcSettings(app_compose: string): string[] {
  let services: YamlValue | undefined
  try {
    const manifest = JSON.parse(app_compose) as { docker_compose_file?: unknown } | null
    services = parsePlainYaml(String(manifest?.docker_compose_file)).get('services')
  } catch {
    throw new Refused('the manifest text cannot be read')
  }
  if (!(services instanceof Map)) throw new Refused('the manifest has no services')
  return [...services.values()].flatMap((service) => {
    const environment = service instanceof Map ? service.get('environment') : undefined
    // A list of NAME=VALUE is another spelling; only the mapping is read, so a list fails.
    if (!(environment instanceof Map)) throw new Refused('a service has no mapping of settings')
    const value = environment.get(RPC_SETTING)
    return typeof value === 'string' ? [value] : []
  })
}
