/** Checks the venue's service and its settings in a compose file, in addition to the manifest's linter. */
import {
  parsePlainYaml,
  UnjudgedYaml,
  type YamlMap,
  type YamlValue,
} from '../../client/verify/manifest/plain_yaml'
import { checkConfig } from '../../engine/config'
import { version } from '../../package.json'
import { readConfig } from '../../server/settings/config'
import { isSettingName, SETTING_NAMES, SETTINGS } from '../../server/settings/settings'

/** Placeholder for a value that the operator fills in. */
const UNSET = 'SET_ME'
const AGENT_SOCKET = '/var/run/dstack.sock'
const CLIENT_PORT = 443
const PORT = /^([0-9]{1,5}):([0-9]{1,5})$/
const MIGRATION = 'net.ipv4.tcp_migrate_req,1'
const NAMED_VOLUME = /^[a-z][a-z0-9_-]*:\/data$/
const SERVICE_KEYS = [
  'image',
  'restart',
  'read_only',
  'user',
  'cap_drop',
  'security_opt',
  'tmpfs',
  'stop_grace_period',
  'sysctls',
  'ports',
  'volumes',
  'healthcheck',
  'environment',
]

/** The only names the encrypted environment may deliver, because the host can replace its values. */
export const SECRET_NAMES: readonly string[] = SETTING_NAMES.filter((name) => SETTINGS[name].secret === true)
/** Well-formed values in place of the secrets, so that the other settings can be checked. */
const SAMPLES: Readonly<Record<string, string>> = {
  TACIT_FEE_ANCHOR: `${'0'.repeat(63)}1`,
  TACIT_ACME_DNS_SECRET: 'user:password',
}

/** The one service of a compose file; undefined if there are more or fewer, or the file cannot be parsed. */
export function venueService(compose: string): YamlMap | undefined {
  let services: ReturnType<YamlMap['get']>
  try {
    services = parsePlainYaml(compose).get('services')
  } catch (error) {
    if (error instanceof UnjudgedYaml) return undefined
    throw error
  }
  if (!(services instanceof Map) || services.size !== 1) return undefined
  const [service] = services.values()
  return service instanceof Map ? service : undefined
}

/** Secrets that the compose file takes from the encrypted environment, sorted. */
export function secretsTaken(service: YamlMap): string[] {
  const environment = service.get('environment')
  if (!(environment instanceof Map)) return []
  return SECRET_NAMES.filter((name) => environment.get(name) === reference(name)).sort()
}

const reference = (name: string): string => `\${${name}}`

/** Checks the settings with the code that reads them at boot. @returns one sentence per error */
export function lintSettings(service: YamlMap): string[] {
  const environment = service.get('environment')
  if (!(environment instanceof Map)) return ['the service has no mapping of settings']
  const faults: string[] = []
  const judged: Record<string, string> = {}
  for (const [name, value] of environment) {
    if (typeof value !== 'string') faults.push(`${name}: not a plain text`)
    else if (!isSettingName(name)) faults.push(`${name}: no such setting`)
    else if (value === UNSET) faults.push(`${name}: still ${UNSET}; fill it in with --set ${name}=VALUE`)
    else judged[name] = settingText(name, value, faults)
  }
  for (const name of SETTING_NAMES)
    if (!environment.has(name)) faults.push(`${name}: not in the manifest; nothing may depend on a default`)
  // Parsing the rest would only repeat these errors.
  return faults.length > 0 ? faults : judge(judged)
}

function settingText(name: string, value: string, faults: string[]): string {
  if (!SECRET_NAMES.includes(name)) {
    if (value.includes('$'))
      faults.push(`${name}: must be literal; the host can swap what comes from outside`)
    return value
  }
  if (value !== reference(name) && value !== '')
    faults.push(`${name}: secret; write ${reference(name)}, the manifest is public`)
  return value === '' ? '' : SAMPLES[name]!
}

function judge(environment: Record<string, string>): string[] {
  const { config, faults } = readConfig(environment)
  if (faults !== undefined) return faults
  const urls = config.rpc_urls ?? []
  const origins = new Set(urls.map((url) => new URL(url).hostname))
  return [
    ...(config.engine.enclave === 'dstack' ? [] : ['TACIT_ENCLAVE: a deployment runs on dstack']),
    ...(origins.size >= 2 ? [] : ['SOLANA_RPC_URL: two providers at least; one alone could hide blocks']),
    ...(urls.every((url) => url.startsWith('https:')) ? [] : ['SOLANA_RPC_URL: https only']),
    ...checkConfig({ ...config.engine, compose_hash: '0'.repeat(64), tacit_version: version }),
  ]
}

/** Published host ports, in the file's order. */
export function publishedPorts(service: YamlMap): number[] {
  return items(service.get('ports')).flatMap((port) => {
    const match = PORT.exec(port)
    return match === null ? [] : [Number(match[1])]
  })
}

/** @returns one sentence per error */
export function lintService(service: YamlMap): string[] {
  const faults: string[] = []
  const need = (holds: boolean, fault: string) => {
    if (!holds) faults.push(fault)
  }
  for (const key of service.keys())
    need(SERVICE_KEYS.includes(key), `the service uses ${key}, which no rule here covers`)
  if (service.get('image') === UNSET)
    faults.push(
      `image: still ${UNSET}; build and push it (docs/operator.md), then --set image=NAME@sha256:DIGEST`,
    )
  need(service.get('read_only') === 'true', 'read_only: must be true')
  need(/^[1-9][0-9]*:[1-9][0-9]*$/.test(String(service.get('user'))), 'user: must be numeric and not root')
  need(items(service.get('cap_drop')).join() === 'ALL', 'cap_drop: must be ALL alone')
  need(
    items(service.get('security_opt')).join() === 'no-new-privileges:true',
    'security_opt: must be no-new-privileges:true alone',
  )
  const ports = publishedPorts(service)
  need(
    items(service.get('ports')).length === 2 && ports[0] === CLIENT_PORT && ports[1] !== undefined,
    'ports: 443 for clients, then one for the operator',
  )
  need(ports[0] !== ports[1], 'ports: the operator has one of its own')
  const volumes = items(service.get('volumes'))
  need(
    volumes.length === 2 &&
      volumes[0] === `${AGENT_SOCKET}:${AGENT_SOCKET}` &&
      NAMED_VOLUME.test(volumes[1]!),
    `volumes: ${AGENT_SOCKET}, then one named volume at /data`,
  )
  const sysctls = service.get('sysctls')
  need(
    sysctls instanceof Map && [...sysctls].join() === MIGRATION,
    `sysctls: ${MIGRATION.replace(',', ': ')} alone, so that a new certificate fails no connection`,
  )
  need(service.get('healthcheck') instanceof Map, 'healthcheck: required')
  return faults
}

function items(value: YamlValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}
