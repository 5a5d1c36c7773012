/** Where a command finds its venue, login and wallet: options, then a file of them, then the venue of this machine. */
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { writeWhole } from '../whole_file'
import { InputFault, Options, readInputText, UsageFault } from './command'

/** Names that an option, and the file `tacit.json` of the working folder, may have. */
export const PLACES = [
  ...(['url', 'policy', 'collateral', 'manifest'] as const),
  ...(['login', 'account', 'wallet', 'password-file', 'data'] as const),
] as const
export type Place = (typeof PLACES)[number]
export type Config = Partial<Record<Place, string>>
const FILES: ReadonlySet<string> = new Set(PLACES.filter((name) => name !== 'url' && name !== 'account'))
const CONFIG_FILE = 'tacit.json'

/** Paths in the file are relative to its folder. @throws InputFault */
export function readConfig(given: Options<Place | 'config'>): Config {
  const named = given.optional('config')
  const path = named ?? CONFIG_FILE
  const config: Config = named !== undefined || existsSync(path) ? parsed(path) : {}
  for (const name of PLACES) {
    const value = given.optional(name)
    if (value !== undefined) config[name] = value
  }
  return config.url === undefined ? { ...laptop(config.data ?? 'data'), ...config } : config
}

function parsed(path: string): Config {
  let content: unknown
  try {
    content = JSON.parse(readInputText(path))
  } catch (error) {
    if (error instanceof SyntaxError) throw new InputFault(`${path} is not JSON: write it with 'tacit init'`)
    throw error
  }
  const config: Config = {}
  for (const [name, value] of Object.entries(Object(content))) {
    if (!PLACES.includes(name as Place) || typeof value !== 'string')
      throw new InputFault(`${path} has an entry ${name} that no command reads: ${PLACES.join(', ')}`)
    config[name as Place] = FILES.has(name) ? resolve(dirname(path), value) : value
  }
  return config
}

/** What `start` wrote for the venue on this machine, its demo account included. */
function laptop(data: string): Config {
  const facts_path = join(data, 'laptop.json')
  if (!existsSync(facts_path)) return {}
  const { url, policy, collateral } = JSON.parse(readInputText(facts_path)) as Config
  const login = join(data, 'demo-login.json')
  const own = { ...(url && { url }), ...(policy && { policy }), ...(collateral && { collateral }) }
  return existsSync(login) ? { ...own, login } : own
}

export const INIT_USAGE = `       tacit init [--url URL] [--policy FILE] [--collateral FILE] [--login FILE] [--wallet FILE] [--password-file FILE] ...
         writes what every later command in this folder would otherwise be told, into ${CONFIG_FILE}`

/** Runs `tacit init`. @throws UsageFault, NotWritten */
export async function runInit(args: string[]): Promise<void> {
  const options = new Options(args, { texts: [...PLACES, 'config'] })
  const path = options.optional('config') ?? CONFIG_FILE
  if (existsSync(path)) throw new InputFault(`${path} exists: change it, or name another by --config`)
  const config: Config = {}
  for (const name of PLACES) {
    const value = options.optional(name)
    if (value !== undefined) config[name] = FILES.has(name) ? resolve(value) : value
  }
  if (Object.keys(config).length === 0) throw new UsageFault('nothing to keep: name at least --wallet')
  writeWhole(path, `${JSON.stringify(config, null, 2)}\n`, 0o600)
  console.log(`${path} is read by every command in this folder`)
}
