/** Makes the exact manifest from a compose file and the operator's decisions, or lists every reason against it. */
import { environmentOf, lintManifest, secretsTaken } from '../../client/verify/manifest/lint_manifest'
import { parsePlainYaml, UnjudgedYaml, type YamlMap } from '../../client/verify/manifest/plain_yaml'
import { checkConfig } from '../../engine/config'
import { version } from '../../package.json'
import { toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { type AppComposeDecisions, appComposeText } from '../../protocol/tdx/app_compose'
import { isSecretName, referenceTo, SECRET_NAMES } from '../../protocol/tdx/venue_manifest'
import { readConfig } from '../../server/settings/config'
import { isSettingName } from '../../server/settings/settings'

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

export type ManifestDecisions = Pick<AppComposeDecisions, 'name' | 'key_provider_id' | 'secure_time'>
type Manifest = { text: string; compose_hash: string; allowed_envs: string[] }
type ManifestOutcome = { manifest: Manifest; faults?: never } | { manifest?: never; faults: string[] }

/** The errors that a client finds, and the errors of the settings' values. */
export function makeManifest(compose: string, decisions: ManifestDecisions): ManifestOutcome {
  const environment = settingsOf(compose)
  const allowed_envs = secretsTaken(environment).filter(isSecretName)
  const text = appComposeText({
    ...decisions,
    key_provider: 'kms',
    docker_compose_file: compose,
    allowed_envs,
  })
  const faults = [...judgeManifest(text), ...lintSettings(compose, environment)]
  if (faults.length > 0) return { faults: [...new Set(faults)] }
  return { manifest: { text, compose_hash: composeHash(text), allowed_envs } }
}

/** The faults that a client finds whose policy names every secret. */
export const judgeManifest = (text: string): string[] => lintManifest(text, SECRET_NAMES).faults

/** Empty for a file that cannot be parsed; the linter gives the reason. */
function settingsOf(compose: string): YamlMap {
  try {
    return environmentOf(parsePlainYaml(compose))
  } catch (error) {
    if (error instanceof UnjudgedYaml) return new Map()
    throw error
  }
}

/** SHA-256 of the file's bytes, hex, as the guest measures it. */
export function composeHash(text: string): string {
  return toHex(sha256(utf8(text)))
}

/** Placeholder for a value that the operator fills in. */
const UNSET = 'SET_ME'
/** Well-formed values in place of the secrets, so that the other settings can be checked. */
const SAMPLES: Readonly<Record<string, string>> = {
  TACIT_FEE_ANCHOR: `${'0'.repeat(63)}1`,
  TACIT_ACME_DNS_SECRET: 'user:password',
  TACIT_ETCD_KEY: 'AAAA',
}

/** @returns one line per error; the manifest's linter names unknown and missing settings. */
function lintSettings(compose: string, environment: YamlMap): string[] {
  const faults: string[] = []
  if (/^ +image: +'?SET_ME/m.test(compose))
    faults.push(
      `image: still ${UNSET}; build and push it (docs/operations.md), then --set image=NAME@sha256:DIGEST`,
    )
  const judged: Record<string, string> = {}
  for (const [name, value] of environment) {
    if (value === UNSET) faults.push(`${name}: still ${UNSET}; fill it in with --set ${name}=VALUE`)
    else if (isSecretName(name) && value !== '' && value !== referenceTo(name))
      faults.push(`${name}: secret; write ${referenceTo(name)}, the manifest is public`)
    else if (isSettingName(name) && typeof value === 'string')
      judged[name] = value === referenceTo(name) ? (SAMPLES[name] ?? value) : value
  }
  // Parsing the rest would only repeat these errors.
  if (faults.length > 0) return faults
  const { config, faults: wrong } = readConfig(judged)
  if (config === undefined) return wrong ?? []
  const measured = { compose_hash: '0'.repeat(64), self_check_reasons: [] }
  return [...(wrong ?? []), ...checkConfig({ ...config.engine, ...measured, tacit_version: version })]
}
