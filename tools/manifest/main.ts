/** `bun run manifest`: writes the exact app-compose.json of the venue and prints its hash, or rejects with every reason. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readInputText, runCommand } from '../../client/cli/command'
import {
  environmentOf,
  lintManifest,
  parsePlainYaml,
  secretsTaken,
  UnjudgedYaml,
  type YamlMap,
} from '../../client/verify/lint_manifest'
import { checkConfig } from '../../engine/config'
import { version } from '../../package.json'
import { toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import {
  type AppComposeDecisions,
  appComposeText,
  isSecretName,
  referenceTo,
  SECRET_NAMES,
} from '../../protocol/tdx/venue_manifest'
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

const USAGE = `usage: bun run manifest [--compose compose.yaml] [--set NAME=VALUE]... [--out app-compose.json]
                       [--name tacit] [--secure-time] [--key-provider-id HEX]
       bun run manifest --check app-compose.json

Writes app-compose.json and prints its SHA-256, the compose hash. Same inputs, same bytes, on any machine.
  --compose          compose.cluster.yaml for a node of several
  --set              writes a value (image, or a setting) into the compose file, unless the manifest is refused
  --key-provider-id  DER public key of the KMS root; pins the KMS
  --secure-time      NTS before the containers start. Off unless asked for: guest images whose chrony lacks NTS never
                     finish booting with it, and no decision about money rests on the wall clock
  --check            judges a manifest another tool wrote or changed, and prints its hash`

const OPTIONS = {
  compose: { type: 'string', default: join(import.meta.dir, '../../compose.yaml') },
  set: { type: 'string', multiple: true, default: [] as string[] },
  out: { type: 'string', default: 'app-compose.json' },
  name: { type: 'string', default: 'tacit' },
  'secure-time': { type: 'boolean', default: false },
  'key-provider-id': { type: 'string' },
  check: { type: 'string' },
} as const

type Values = ReturnType<typeof parse>
const parse = () => parseArgs({ options: OPTIONS, strict: true, allowPositionals: false }).values

function refuse(reasons: readonly string[]): never {
  console.error(`manifest refused:\n${reasons.map((reason) => `  ${reason}`).join('\n')}`)
  process.exit(1)
}

function decisionsOf(values: Values): ManifestDecisions {
  const { name, 'key-provider-id': key_provider_id } = values
  const pinned = key_provider_id === undefined ? {} : { key_provider_id }
  return { name, secure_time: values['secure-time'], ...pinned }
}

function check(path: string): void {
  const text = readInputText(path)
  const faults = judgeManifest(text)
  if (faults.length > 0) refuse(faults)
  console.log(`compose hash  ${composeHash(text)}`)
}

function write(values: Values): void {
  const decisions = decisionsOf(values)
  const compose = fillIn(readInputText(values.compose), values.set)
  const { manifest, faults } = makeManifest(compose, decisions)
  if (faults !== undefined) refuse(faults)
  if (values.set.length > 0) writeFileSync(values.compose, compose)
  writeFileSync(values.out, manifest.text)
  console.log(`manifest      ${values.out}`)
  console.log(`compose hash  ${manifest.compose_hash}`)
  console.log(`secrets       ${manifest.allowed_envs.join(', ') || 'none'}`)
  if (decisions.key_provider_id === undefined)
    console.log(
      'note          no KMS is pinned: clients recognize another KMS only by the settlement signer on chain',
    )
}

if (import.meta.main)
  await runCommand(
    USAGE,
    () => {
      const values = parse()
      if (values.check !== undefined) check(values.check)
      else write(values)
    },
    ({ message }) => ({ code: 64, message: `${message}\n\n${USAGE}` }),
  )
