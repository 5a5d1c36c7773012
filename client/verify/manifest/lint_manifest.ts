/** Lints a manifest for everything that its hash would not cover or a reviewer would not see. */
import { parsePlainYaml, UnjudgedYaml, type YamlMap, type YamlValue } from './plain_yaml'

const IMAGE = /^[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}$/
/** Keys that add text or code outside the manifest's hash, or open the host. */
const FORBIDDEN = [
  'build',
  'extends',
  'env_file',
  'privileged',
  'configs',
  'secrets',
  'network_mode',
] as const
const SHELL_ACCESS = /\b(?:sshd?|authorized_keys|dropbear|telnetd?)\b/i
const SHELL_PORT = /(?:^|:)22(?:\/tcp)?$/

/** The compose file inside a manifest. @returns one sentence per finding */
function lintCompose(text: string, environment_names: readonly string[]): string[] {
  let file: YamlMap
  try {
    file = parsePlainYaml(text)
  } catch (error) {
    if (error instanceof UnjudgedYaml) return [`its compose file cannot be judged: ${error.message}`]
    throw error
  }
  const faults: string[] = []
  if (file.has('include')) faults.push('its compose file includes another one')
  if (SHELL_ACCESS.test(text)) faults.push('its compose file speaks of a remote shell')
  for (const name of interpolated(text))
    if (!environment_names.includes(name)) faults.push(`its compose file takes ${name} from the environment`)
  const services = file.get('services')
  if (!(services instanceof Map) || services.size === 0)
    return [...faults, 'its compose file has no services']
  for (const [name, service] of services)
    if (service instanceof Map) faults.push(...lintService(name, service, environment_names))
    else faults.push(`service ${name} is empty`)
  return faults
}

function lintService(name: string, service: YamlMap, environment_names: readonly string[]): string[] {
  const faults = FORBIDDEN.filter((key) => service.has(key)).map((key) => `service ${name} uses ${key}`)
  const image = service.get('image')
  if (typeof image !== 'string' || !IMAGE.test(image)) faults.push(`service ${name} has no image by digest`)
  for (const port of listOf(service.get('ports')))
    if (SHELL_PORT.test(port)) faults.push(`service ${name} publishes a shell port`)
  for (const passed of passedThrough(service.get('environment')))
    if (!environment_names.includes(passed))
      faults.push(`service ${name} takes ${passed} from the environment`)
  return faults
}

const listOf = (value: YamlValue | undefined): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []

/** Names without a value: compose takes them from its own environment. */
function passedThrough(environment: YamlValue | undefined): string[] {
  if (environment instanceof Map)
    return [...environment].filter(([, value]) => value === null).map(([name]) => name)
  return listOf(environment).filter((item) => !item.includes('='))
}

/** Names in `$NAME` and `${NAME…}`; `$$` is a literal dollar. */
function interpolated(text: string): string[] {
  const names = [...text.replaceAll('$$', '').matchAll(/\$(?:\{([A-Za-z_]\w*)|([A-Za-z_]\w*))/g)]
  return [...new Set(names.map(([, braced, bare]) => braced ?? bare!))]
}

const ALLOWED_RUNNER = 'docker-compose'
/** Scripts that run beside the containers, outside the reviewed images. */
const SCRIPTS = ['pre_launch_script', 'init_script', 'bash_script'] as const

/**
 * @param app_compose exact text of app-compose.json
 * @param environment_names allowed names of the encrypted environment, which the host can swap
 * @returns one sentence per finding; none for a clean manifest
 */
export function lintManifest(app_compose: string, environment_names: readonly string[]): string[] {
  let manifest: Record<string, unknown>
  try {
    const value: unknown = JSON.parse(app_compose)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return ['it is not an object']
    manifest = value as Record<string, unknown>
  } catch {
    return ['it is not JSON']
  }
  const faults: string[] = []
  if (manifest['runner'] !== ALLOWED_RUNNER) faults.push('its runner is not docker-compose')
  // dstack's default differs between tools, so the field must be present.
  if (manifest['public_logs'] !== false) faults.push('it does not keep its logs private')
  for (const script of SCRIPTS) if (isPresent(manifest[script])) faults.push(`it runs a ${script}`)
  faults.push(...lintEnvironmentNames(manifest['allowed_envs'], environment_names))
  const compose = manifest['docker_compose_file']
  if (typeof compose !== 'string') return [...faults, 'it holds no compose file']
  return [...faults, ...lintCompose(compose, environment_names)]
}

const isPresent = (value: unknown): boolean => value !== undefined && value !== null && value !== ''

function lintEnvironmentNames(names: unknown, allowed: readonly string[]): string[] {
  if (names === undefined) return []
  if (!Array.isArray(names)) return ['its environment names are no list']
  return names
    .filter((name) => typeof name !== 'string' || !allowed.includes(name))
    .map((name) => `it takes ${String(name)} from the environment`)
}
