/** Makes the exact manifest from a compose file and the operator's decisions, or lists every reason against it. */
import { lintManifest } from '../../client/verify/manifest/lint_manifest'
import { toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { type AppComposeDecisions, appComposeText } from '../../protocol/tdx/app_compose'
import {
  lintService,
  lintSettings,
  publishedPorts,
  SECRET_NAMES,
  secretsTaken,
  venueService,
} from './lint_service'

/** dstack's limit for app-compose.json. */
const MANIFEST_BYTES_MAX = 256 * 1024

/**
 * Replaces single values of a compose file; every other byte stays.
 * @param assignments `NAME=VALUE`; `image` or a setting.
 * @throws RangeError for a name that does not occur exactly once, or a value that does not fit a single-quoted scalar
 */
export function fillIn(compose: string, assignments: readonly string[]): string {
  return assignments.reduce((text, assignment) => {
    const at = assignment.indexOf('=')
    const [name, value] = [assignment.slice(0, at), assignment.slice(at + 1)]
    if (at < 1 || !/^[A-Za-z_]+$/.test(name)) throw new RangeError(`${assignment}: expected NAME=VALUE`)
    if (!/^[\x20-\x7e]*$/.test(value) || value.includes("'"))
      throw new RangeError(`${name}: printable ASCII without single quotes`)
    const line = new RegExp(`^( +${name}:) .*$`, 'gm')
    if (text.match(line)?.length !== 1) throw new RangeError(`${name}: does not occur exactly once`)
    // The reference to a secret is not quoted: the linter expects that form.
    const written = value === `\${${name}}` ? value : `'${value}'`
    return text.replace(line, (_whole, key: string) => `${key} ${written}`)
  }, compose)
}

export type ManifestDecisions = Pick<
  AppComposeDecisions,
  'name' | 'os' | 'key_provider' | 'key_provider_id' | 'secure_time'
>
type Manifest = { text: string; compose_hash: string; allowed_envs: string[] }
type ManifestOutcome = { manifest: Manifest; faults?: never } | { manifest?: never; faults: string[] }

export function makeManifest(compose: string, decisions: ManifestDecisions): ManifestOutcome {
  const service = venueService(compose)
  if (service === undefined) {
    // The linter gives the reasons; a file without any has the wrong number of services.
    const { text } = wrap(compose, decisions, [], [])
    const faults = lintManifest(text, SECRET_NAMES)
    return { faults: faults.length > 0 ? faults : ['its compose file must hold exactly one service'] }
  }
  const manifest = wrap(compose, decisions, secretsTaken(service), publishedPorts(service))
  const faults = [
    ...lintService(service),
    ...lintSettings(service),
    ...lintDecisions(decisions, manifest.allowed_envs),
    ...lintManifest(manifest.text, SECRET_NAMES),
    ...(utf8(manifest.text).length > MANIFEST_BYTES_MAX ? ['it is longer than 256 KiB'] : []),
  ]
  return faults.length > 0 ? { faults } : { manifest }
}

function wrap(
  docker_compose_file: string,
  decisions: ManifestDecisions,
  allowed_envs: string[],
  ports: number[],
): Manifest {
  const text = appComposeText({ ...decisions, docker_compose_file, allowed_envs, ports })
  return { text, compose_hash: composeHash(text), allowed_envs }
}

/** SHA-256 of the file's bytes, hex, as the guest measures it. */
export function composeHash(text: string): string {
  return toHex(sha256(utf8(text)))
}

function lintDecisions(decisions: ManifestDecisions, allowed_envs: readonly string[]): string[] {
  const { name, os, key_provider, key_provider_id } = decisions
  const faults: string[] = []
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(name)) faults.push('name: lowercase letters, digits and hyphens')
  if (key_provider !== 'kms' && allowed_envs.length > 0)
    faults.push(`key_provider: ${allowed_envs.join(', ')} can only be delivered under a KMS`)
  if (key_provider_id === undefined) return faults
  if (key_provider !== 'kms') faults.push('key_provider_id: names a KMS root, so it goes with kms')
  if (!/^([0-9a-f]{2}){16,}$/.test(key_provider_id))
    faults.push('key_provider_id: DER public key of the KMS root in lowercase hex')
  if (os === '0.5')
    faults.push('key_provider_id: a 0.5 image under a 0.6 host restarts for ever with it; use --os 0.6')
  return faults
}
