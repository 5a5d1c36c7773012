/**
 * Lints a manifest against the list of all that one may contain (`protocol/tdx/venue_manifest.ts`), before its hash is
 * trusted. The verifying client and the operator's tool use the same function.
 */
import { utf8 } from '../../../protocol/bytes'
import { canonicalJson } from '../../../protocol/tdx/app_compose'
import {
  APP_COMPOSE_FORM,
  COMPOSE_FORM,
  type Form,
  isSecretName,
  MANIFEST_BYTES_MAX,
  type Mapping,
  referenceTo,
  SERVICE,
} from '../../../protocol/tdx/venue_manifest'
import { parseJson } from '../json_document'
import { printable } from '../transcript'
import { parsePlainYaml, UnjudgedYaml, type YamlMap } from './plain_yaml'

/** A hostile manifest must not fill the transcript. */
const FAULTS_MAX = 100

/** One line per fault, with its place; none when the manifest is allowed. The environment is that of the service. */
type Linted = { faults: string[]; environment: YamlMap }
const rejected = (...faults: string[]): Linted => ({ faults, environment: new Map() })

/**
 * @param app_compose exact text of app-compose.json.
 * @param environment_names secrets that the manifest may take from the encrypted environment, which the host can replace.
 */
export function lintManifest(app_compose: string, environment_names: readonly string[]): Linted {
  if (utf8(app_compose).length > MANIFEST_BYTES_MAX) return rejected('it is longer than 256 KiB')
  const { faults, environment } = lintText(app_compose, environment_names)
  if (faults.length <= FAULTS_MAX) return { faults, environment }
  return rejected(...faults.slice(0, FAULTS_MAX), `${faults.length - FAULTS_MAX} more`)
}

function lintText(text: string, environment_names: readonly string[]): Linted {
  const manifest = parseJson(text)
  if (manifest === undefined) return rejected('it is not JSON')
  const faults = mismatches(manifest, APP_COMPOSE_FORM, '')
  if (typeof manifest !== 'object' || manifest === null) return rejected(...faults)
  const member = (name: string): unknown =>
    Object.hasOwn(manifest, name) ? Reflect.get(manifest, name) : undefined
  if (faults.length === 0) faults.push(...lintForm(text, manifest))
  const compose = member('docker_compose_file')
  if (typeof compose !== 'string') return rejected(...faults)
  const linted = lintCompose(compose, member('allowed_envs'), environment_names)
  return { ...linted, faults: [...faults, ...linted.faults] }
}

/** One value has one text: without this, parsers that keep the first of two equal keys read another manifest. */
function lintForm(text: string, manifest: unknown): string[] {
  const canonical = canonicalJson(manifest)
  if (text === canonical) return []
  let at = 0
  while (text[at] === canonical[at]) at++
  const excerpt = quoted(text.slice(Math.max(at - 8, 0), at + 32))
  return [
    `character ${at + 1}: must be JSON with sorted keys, each once, and no white space, near ${excerpt}`,
  ]
}

function lintCompose(text: string, allowed_envs: unknown, environment_names: readonly string[]): Linted {
  let file: YamlMap
  try {
    file = parsePlainYaml(text)
  } catch (error) {
    if (error instanceof UnjudgedYaml) return rejected(`compose file: ${error.message}`)
    throw error
  }
  const faults = mismatches(file, COMPOSE_FORM, 'compose file: ')
  const environment = environmentOf(file)
  faults.push(...lintEnvironment(environment, allowed_envs, environment_names))
  return { faults, environment }
}

/** The settings of the service; empty where the file has none. */
export function environmentOf(file: YamlMap): YamlMap {
  const inside = (map: unknown, key: string) => (map instanceof Map ? map.get(key) : undefined)
  const environment = inside(inside(inside(file, 'services'), SERVICE), 'environment')
  return environment instanceof Map ? environment : new Map()
}

/** Secrets that the compose file takes from the encrypted environment, sorted. */
export function secretsTaken(environment: YamlMap): string[] {
  return [...environment].flatMap(([name, value]) => (value === referenceTo(name) ? [name] : [])).sort()
}

function lintEnvironment(
  environment: YamlMap,
  allowed_envs: unknown,
  environment_names: readonly string[],
): string[] {
  const place = `compose file: services.${SERVICE}.environment`
  const taken = secretsTaken(environment).filter(isSecretName)
  const faults = taken
    .filter((name) => !environment_names.includes(name))
    .map((name) => `${place}.${name}: the encrypted environment may not deliver it`)
  if (Array.isArray(allowed_envs) && allowed_envs.join() !== taken.join())
    faults.push(`allowed_envs: must be ${JSON.stringify(taken)}, the names that the compose file takes`)
  const rpc_urls = environment.get('SOLANA_RPC_URL')
  const urls = typeof rpc_urls === 'string' ? rpc_urls.split(',') : []
  if (!urls.every((url) => URL.canParse(url))) faults.push(`${place}.SOLANA_RPC_URL: must be a list of URLs`)
  // A final dot names the same host.
  else if (new Set(urls.map((url) => new URL(url).hostname.replace(/\.$/, ''))).size === 1)
    faults.push(`${place}.SOLANA_RPC_URL: two providers at least; one alone could hide blocks`)
  return faults
}

/**
 * @param value of JSON, or of plain YAML with its maps.
 * @param place names the value in messages; empty for the whole.
 * @returns one line per difference
 */
function mismatches(value: unknown, form: Form, place: string): string[] {
  if (form === null || typeof form !== 'object')
    return value === form ? [] : [fault(place, form === null ? 'must be empty' : `must be ${shown(form)}`)]
  if (isList(form)) return listMismatches(value, form, place)
  switch (form.kind) {
    case 'one_of':
      return form.values.some((one) => one === value)
        ? []
        : [fault(place, `must be ${form.values.map(shown).join(' or ')}`)]
    case 'pattern':
      return typeof value === 'string' && form.pattern.test(value)
        ? []
        : [fault(place, `must be ${form.meaning}`)]
    case 'each':
      if (!Array.isArray(value)) return [fault(place, 'must be a list')]
      return value.flatMap((item, at) => mismatches(item, form.item, `${place}[${at}]`))
    case 'mapping':
      return mappingMismatches(value, form, place)
  }
}

const isList = (form: object): form is readonly Form[] => Array.isArray(form)

function listMismatches(value: unknown, form: readonly Form[], place: string): string[] {
  if (!Array.isArray(value) || value.length !== form.length) {
    const items = form.some((item) => typeof item === 'object') ? `${form.length} entries` : shown(form)
    return [fault(place, `must be a list of exactly ${items}`)]
  }
  return form.flatMap((item, at) => mismatches(value[at], item, `${place}[${at}]`))
}

function mappingMismatches(value: unknown, form: Mapping, place: string): string[] {
  const entries = entriesOf(value)
  if (entries === undefined) return [fault(place, 'must be a mapping')]
  const found = new Set(entries.map(([key]) => key))
  const missing = Object.keys(form.keys).filter((key) => !found.has(key) && !form.optional.includes(key))
  return [
    ...entries.flatMap(([key, inner]) => {
      const expected = Object.hasOwn(form.keys, key) ? form.keys[key] : undefined
      if (expected === undefined) return [fault(below(place, key), 'not an allowed key')]
      return mismatches(inner, expected, below(place, key))
    }),
    ...missing.map((key) => fault(below(place, key), 'missing')),
  ]
}

function entriesOf(value: unknown): [string, unknown][] | undefined {
  if (value instanceof Map) return [...value]
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return Object.entries(value)
}

const fault = (place: string, demand: string): string => (place === '' ? demand : `${place}: ${demand}`)
const below = (place: string, key: string): string => {
  const name = /^[\w.-]{1,64}$/.test(key) ? key : quoted(key)
  if (place === '') return name
  return place.endsWith(': ') ? `${place}${name}` : `${place}.${name}`
}
const shown = (value: unknown): string => JSON.stringify(value)

/** Quoted, cut, and printable: the text of a manifest ends on terminals. */
const quoted = (text: string): string => printable(JSON.stringify(text.slice(0, 64)))
