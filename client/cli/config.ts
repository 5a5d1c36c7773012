/**
 * Where a command finds its venue, chain and wallet: options, environment, a file of them, then the venue of this machine; and
 * the files and addresses that an option names, with their locks.
 */

import { existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { readSandboxVenue } from '../connect'
import { Refused } from '../verify/transcript'
import { InUse, lockFile, placeOf, writeWhole } from '../whole_file'
import type { Verb } from './call'
import { InputFault, readInputText, UsageFault } from './command'

/** Names that an option, a variable of the environment, and the file `tacit.json` of the working folder may have. */
const PLACES = [
  ...(['url', 'policy', 'collateral', 'manifest'] as const),
  ...(['login', 'account', 'wallet', 'password-file'] as const),
  ...(['rpc', 'program', 'payer', 'data'] as const),
] as const
export type Place = (typeof PLACES)[number]
export type Config = Partial<Record<Place, string>>

/** Options of the settings that a verb reads, as its help shows them. */
export const SETTINGS = {
  venue: '[--url URL] [--policy FILE] [--collateral FILE] [--manifest FILE,FILE]',
  login: '[--login FILE] [--account ID]',
  wallet: '[--wallet FILE] [--password-file FILE]',
  chain: '[--rpc URL,URL] [--program ADDRESS]',
  payer: '[--payer FILE]',
} as const
export type Setting = keyof typeof SETTINGS

const NO_FILES: ReadonlySet<string> = new Set(['url', 'account', 'rpc', 'program'])
const CONFIG_FILE = 'tacit.json'
/** `--password-file` is TACITCLI_PASSWORD_FILE; names that begin with TACIT_ are a venue's. */
const variableOf = (name: Place): string => `TACITCLI_${name.toUpperCase().replace('-', '_')}`

/** Text of a message about a missing setting. */
export const MEANINGS: Partial<Record<string, string>> = {
  url: "the venue's address, or those of its nodes separated by commas; without it a venue that 'start' runs is looked for in ./data, or in --data FOLDER",
  policy: 'what you accept as this venue',
  login: "the file that 'tacit account request' wrote",
  wallet: "the wallet file; 'tacit wallet create' makes one",
  rpc: 'the URL of a Solana node, such as https://api.mainnet-beta.solana.com, or several separated by commas',
  program: "the vault program's address, as the venue's /info and its verified evidence name it",
  'seed-file': 'the file that holds the seed',
  'password-file': 'a file whose first line is the password',
  out: 'a file that does not exist yet',
  backup: "a file that 'backup' wrote",
  payer: 'a file with the key that pays fees',
  note: "a commitment, as 'tacit notes' lists it",
  nullifier: "as 'exit request' printed it",
}

/** Paths in the file are relative to its folder. @throws InputFault */
export function readConfig(given: (name: Place | 'config') => string | undefined): Config {
  const named = given('config')
  const path = named ?? CONFIG_FILE
  const config: Config = named !== undefined || existsSync(path) ? parsed(path) : {}
  for (const name of PLACES) {
    const value = given(name) ?? (process.env[variableOf(name)] || undefined)
    if (value !== undefined) config[name] = value
  }
  const { login, rpc, program, ...venue } = config.url === undefined ? laptop(config.data ?? 'data') : {}
  const chain = config.rpc === undefined && config.program === undefined ? { rpc, program } : {}
  return { ...venue, ...(login && { login }), ...stated(chain), ...config }
}

const stated = (config: { [name in Place]?: string | undefined }): Config =>
  Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined))

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
    config[name as Place] = inFolder(dirname(path), name, value)
  }
  return config
}

/** Manifests may be several, separated by commas; another name of a file may have a comma. */
function inFolder(folder: string, name: string, value: string): string {
  if (NO_FILES.has(name)) return value
  const paths = name === 'manifest' ? value.split(',') : [value]
  return paths.map((path) => resolve(folder, path)).join(',')
}

/** Files that `start` wrote for the venue on this machine, its demo account included. */
function laptop(data: string): Config {
  const found = readSandboxVenue(data)
  if (found === undefined) return {}
  const { rpc_url, program_id, ...venue } = found
  return { ...venue, rpc: rpc_url, program: program_id }
}

/** `tacit init`. */
export const INIT: Verb = {
  form: [...Object.values(SETTINGS), '[--config FILE] [--data FOLDER]'].join(' '),
  says: `keeps settings for every later command of this folder in ${CONFIG_FILE}; options and variables such as TACITCLI_WALLET prevail`,
  example: 'tacit init --wallet wallet.json --payer payer.hex',
  run(call) {
    const path = call.optional('config') ?? CONFIG_FILE
    if (existsSync(path)) throw new InputFault(`${path} exists: change it, or name another by --config`)
    const config: Config = {}
    for (const name of PLACES) {
      const value = call.optional(name)
      if (value !== undefined) config[name] = inFolder('.', name, value)
    }
    if (Object.keys(config).length === 0) throw new UsageFault('nothing to keep: name at least --wallet')
    // Settings that no later command could read are not kept.
    if (config.url !== undefined) call.urls()
    if (config.rpc !== undefined) call.reader()
    if (config.program !== undefined) call.program()
    writeWhole(path, `${JSON.stringify(config, null, 2)}\n`, 0o600)
    call.print({ file: path, ...config }, () => [`${path} is read by every command in this folder`])
  },
}

const locked = new Set<string>()

/**
 * Locks a wallet or an archive's folder until this process ends: two commands would use the same counters.
 * @throws Refused while another command holds the lock, NotWritten
 */
export function lockPath(named: string): void {
  const path = placeOf(named)
  if (locked.has(path)) return
  try {
    lockFile(named)
    locked.add(path)
  } catch (error) {
    if (error instanceof InUse) throw new Refused(error.message)
    throw error
  }
}

/** One URL, or several separated by commas. @throws InputFault for any other text */
export function rpcOf(text: string): string {
  const good = text.split(',').every((url) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))
  if (!good) throw new InputFault(`--rpc is ${MEANINGS['rpc']}`)
  return text
}

/** @returns the path. @throws Refused for a file that others may read */
export function requireOwn(path: string): string {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0
  if ((mode & 0o077) !== 0) throw new Refused(`${path} can be read by others: chmod 600 it`)
  return path
}

/** First line of a private file. @throws Refused, InputFault */
export function passwordIn(path: string): string {
  const [password = ''] = readInputText(requireOwn(path)).split(/\r?\n/)
  if (password === '') throw new Refused(`${path} begins with an empty line: its first line is the password`)
  return password
}
