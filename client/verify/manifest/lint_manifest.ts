/** What an operator could hide in a manifest, found before anyone trusts its hash. */
import { lintCompose } from './lint_compose'

const ALLOWED_RUNNER = 'docker-compose'
/** Scripts that run beside the containers, outside the reviewed images. */
const SCRIPTS = ['pre_launch_script', 'init_script', 'bash_script'] as const

/**
 * @param app_compose exact text of app-compose.json.
 * @param environment_names names a manifest may take from the encrypted environment, which the host can swap.
 * @returns one sentence per fault; none when the manifest is clean.
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
  // dstack's own default differs between tools, so silence is not enough.
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
