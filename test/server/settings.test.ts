/** Settings and starts: every error is named at once with its remedy, and nothing of security or chain has a default. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { devDependencies } from '../../package.json'
import { newAgeKey } from '../../protocol/age'
import { sandboxEnvironment } from '../../sandbox/environment'
import {
  foreignNames,
  isSandbox,
  printedSettings,
  readConfig,
  startFault,
} from '../../server/settings/config'
import { listenAddress, SETTING_NAMES, SETTINGS } from '../../server/settings/settings'
import { KEY } from '../routes/bodies'

const PRODUCTION = {
  TACIT_DATA_DIR: '/data',
  TACIT_LISTEN: '0.0.0.0:443',
  TACIT_OPERATOR_LISTEN: '0.0.0.0:8443',
  TACIT_ENCLAVE: 'dstack',
  SOLANA_RPC_URL: 'https://one.example,https://two.example',
  TACIT_PROGRAM_ID: KEY,
  TACIT_OPERATOR_KEY: KEY,
  TACIT_FEE_KEY: KEY,
  TACIT_FEE_ANCHOR: '0a'.repeat(32),
  TACIT_MINTS: JSON.stringify([{ mint: KEY, decimals: 6, min_withdraw: '1', withdraw_fee: '0' }]),
  TACIT_INSTRUMENTS: '[]',
}

describe('settings', () => {
  test('of a production venue are read as they are', () => {
    const { config } = readConfig({ ...PRODUCTION, PATH: '/bin' })
    const senders = { ...PRODUCTION, TACIT_RPC_SEND_URLS: 'https://three.example,https://four.example' }
    expect(readConfig(senders).config?.rpc_send_urls).toEqual([
      'https://three.example',
      'https://four.example',
    ])
    expect(config).toMatchObject({
      listen: { hostname: '0.0.0.0', port: 443 },
      operator_listen: { hostname: '0.0.0.0', port: 8443 },
      dstack_socket: '/var/run/dstack.sock',
      swagger: false,
      rpc_urls: ['https://one.example', 'https://two.example'],
      rpc_send_urls: [],
      program_id: new Uint8Array(32).fill(1),
      engine: { data_dir: '/data', enclave: 'dstack', token_ttl_s: 900 },
    })
  })

  test('name the auditor by an age recipient, or none', async () => {
    const read = (TACIT_AUDITOR_KEY: string) => readConfig({ ...PRODUCTION, TACIT_AUDITOR_KEY })
    expect(readConfig(PRODUCTION).config?.engine.auditor_key).toBe('')
    const { file, recipient } = await newAgeKey()
    expect(read(recipient).config?.engine.auditor_key).toBe(recipient)
    const changed = recipient.slice(0, -1) + (recipient.endsWith('q') ? 'p' : 'q')
    for (const wrong of [changed, recipient.toUpperCase(), ` ${recipient}`, 'age1', KEY, file])
      expect(read(wrong).faults).toEqual(['TACIT_AUDITOR_KEY: expected an age recipient or nothing'])
  })

  test('of a public certificate need names an authority can look up and a way to answer it', () => {
    const ACME = { ...PRODUCTION, TACIT_ACME_DIRECTORY: 'https://authority.example/directory' }
    const faultsOf = (more: Record<string, string>) => readConfig({ ...ACME, ...more }).faults
    const names = 'TACIT_TLS_NAMES: lowercase DNS names only with TACIT_ACME_DIRECTORY, one at least'
    for (const wrong of ['', '203.0.113.1', 'localhost', 'venue.example,10.0.0.1', 'Venue.example'])
      expect(faultsOf({ TACIT_TLS_NAMES: wrong })).toEqual([names])
    const TACIT_TLS_NAMES = 'venue.example,api.venue.example'
    expect(faultsOf({ TACIT_TLS_NAMES, TACIT_ACME_CHALLENGE: 'dns-01' })).toEqual([
      'TACIT_ACME_DNS_URL: required for dns-01',
    ])
    expect(faultsOf({ TACIT_TLS_NAMES, TACIT_ACME_DIRECTORY: 'http://authority.example' })).toEqual([
      'TACIT_ACME_DIRECTORY: expected an https URL or nothing',
    ])
    expect(readConfig({ ...ACME, TACIT_TLS_NAMES }).config!.acme).toMatchObject({ challenge: 'tls-alpn-01' })
    expect(readConfig(PRODUCTION).config!.acme).toBeUndefined()
  })

  test('name the sources of oracle prices, each with a key', () => {
    const rule = { symbol: 'SOL-USDC', max_age_ms: 5000, sources: [{ source: 'feed', key: KEY }] }
    const read = (value: unknown) =>
      readConfig({ ...PRODUCTION, TACIT_REFERENCE_SOURCES: JSON.stringify(value) })
    expect(readConfig(PRODUCTION).config?.engine.reference_sources).toEqual([])
    expect(read([rule]).config?.engine.reference_sources).toEqual([rule])
    expect(read([{ ...rule, sources: [{ source: 'feed', key: '0' }] }]).faults).toEqual([
      'TACIT_REFERENCE_SOURCES: [0].sources[0].key (field_invalid)',
    ])
    expect(read([{ ...rule, age: 1 }]).faults).toHaveLength(1)
  })

  test('without a default are all named when they are missing', () => {
    const { faults } = readConfig({})
    const required = SETTING_NAMES.filter((name) => SETTINGS[name].fallback === undefined).map(
      (name) => `${name}: required`,
    )
    expect(faults).toEqual(required)
    expect(required).toContain('TACIT_ENCLAVE: required')
    expect(required).toContain('SOLANA_RPC_URL: required')
  })

  test('that are unknown or malformed are all named at once, without their text', () => {
    const { faults } = readConfig({
      ...PRODUCTION,
      TACIT_LISTENN: 'x',
      TACIT_LISTEN: 'secret-text',
      TACIT_FEE_ANCHOR: 'secret-text',
      TACIT_TOKEN_TTL_S: '5',
    })
    expect(faults).toEqual([
      'TACIT_LISTENN: no such setting',
      'TACIT_LISTEN: expected ADDRESS:PORT, with PORT from 1 to 65535',
      'TACIT_FEE_ANCHOR: expected 64 lowercase hex digits',
      'TACIT_TOKEN_TTL_S: expected an integer from 60 to 86400',
    ])
  })

  test('name the entry of a list that is wrong', () => {
    const { faults } = readConfig({ ...PRODUCTION, TACIT_MINTS: '[{"mint":"x"}]', TACIT_INSTRUMENTS: '[5]' })
    expect(faults).toEqual([
      'TACIT_INSTRUMENTS: [0] (field_invalid)',
      'TACIT_MINTS: [0].decimals (field_missing)',
    ])
  })

  test('that contradict each other are refused: a real enclave never runs on an embedded chain', () => {
    const embedded = { ...PRODUCTION, SOLANA_RPC_URL: 'embedded', TACIT_PROGRAM_ID: '' }
    expect(readConfig(embedded).faults).toEqual([
      'SOLANA_RPC_URL: embedded is refused with TACIT_ENCLAVE=dstack',
    ])
    expect(readConfig({ ...PRODUCTION, SOLANA_RPC_URL: 'https://one.example' }).faults).toEqual([
      'SOLANA_RPC_URL: two providers at least with TACIT_ENCLAVE=dstack',
    ])
    const twice = 'https://one.example/a,https://one.example/b'
    expect(readConfig({ ...PRODUCTION, SOLANA_RPC_URL: twice }).faults).toEqual([
      'SOLANA_RPC_URL: expected embedded or URLs of different hosts separated by commas',
    ])
    expect(readConfig({ ...PRODUCTION, TACIT_RPC_SEND_URLS: 'ftp://one.example' }).faults).toEqual([
      'TACIT_RPC_SEND_URLS: expected URLs separated by commas or nothing',
    ])
    expect(readConfig({ ...PRODUCTION, TACIT_PROGRAM_ID: '' }).faults).toEqual([
      'TACIT_PROGRAM_ID: required with a real chain',
    ])
    expect(readConfig({ ...PRODUCTION, TACIT_OPERATOR_LISTEN: '0.0.0.0:443' }).faults).toEqual([
      'TACIT_OPERATOR_LISTEN: TACIT_LISTEN has the same port, 443: choose another for one of them',
    ])
  })

  test('of production reach providers by https only', () => {
    for (const [name, url] of [
      ['SOLANA_RPC_URL', 'https://one.example,http://two.example'],
      ['TACIT_RPC_SEND_URLS', 'http://three.example'],
    ] as const) {
      const change = { ...PRODUCTION, [name]: url }
      expect(readConfig(change).faults).toEqual([`${name}: https only with TACIT_ENCLAVE=dstack`])
      expect(readConfig({ ...change, TACIT_ENCLAVE: 'development' }).faults).toBeUndefined()
    }
  })

  test('of every kind of fault are named at once', () => {
    const { faults } = readConfig({
      ...PRODUCTION,
      TACIT_TYPO: '1',
      TACIT_TOKEN_TTL_S: 'soon',
      TACIT_MINTS: '[5]',
      SOLANA_RPC_URL: 'http://one.example',
      TACIT_OPERATOR_LISTEN: PRODUCTION.TACIT_LISTEN,
    })
    expect(faults).toEqual([
      'TACIT_TYPO: no such setting',
      'TACIT_TOKEN_TTL_S: expected an integer from 60 to 86400',
      'TACIT_MINTS: [0] (field_invalid)',
      'SOLANA_RPC_URL: two providers at least with TACIT_ENCLAVE=dstack',
      'SOLANA_RPC_URL: https only with TACIT_ENCLAVE=dstack',
      'TACIT_OPERATOR_LISTEN: TACIT_LISTEN has the same port, 443: choose another for one of them',
    ])
  })

  test('are printed with their meanings, secrets masked', () => {
    const text = printedSettings(PRODUCTION)
    expect(text).toContain('TACIT_FEE_ANCHOR=(set)')
    expect(text).toContain('# Address and port of the venue, TLS 1.3.\nTACIT_LISTEN=0.0.0.0:443')
    expect(text).not.toContain('0a0a')
  })
})

test('a listen address has an address and a port', () => {
  expect(listenAddress('[::]:443')).toEqual({ hostname: '::', port: 443 })
  for (const text of ['443', ':443', 'host', 'host:', 'host:70000', 'a b:1'])
    expect(listenAddress(text)).toBeUndefined()
})

describe('a laptop', () => {
  test('is never used by a deployment that names a real enclave', () => {
    expect(isSandbox({ TACIT_ENCLAVE: 'dstack' })).toBe(false)
    expect(isSandbox({ TACIT_ENCLAVE: 'anything' })).toBe(false)
    expect(isSandbox({ TACIT_ENCLAVE: 'development' })).toBe(true)
  })

  test('needs no setting, keeps its secrets, and yields to settings', async () => {
    const TACIT_DATA_DIR = mkdtempSync(join(tmpdir(), 'tacit-laptop-'))
    try {
      const first = await sandboxEnvironment({ TACIT_DATA_DIR })
      expect(readConfig(first).faults).toBeUndefined()
      expect(readConfig(first).config?.engine.instruments.map(({ symbol }) => symbol)).toEqual([
        'SOL-USDC',
        'JTO-USDC',
      ])
      const again = await sandboxEnvironment({ TACIT_DATA_DIR, TACIT_LISTEN: '127.0.0.1:1' })
      expect(again['TACIT_OPERATOR_KEY']).toBe(first['TACIT_OPERATOR_KEY']!)
      expect(again['TACIT_LISTEN']).toBe('127.0.0.1:1')
    } finally {
      rmSync(TACIT_DATA_DIR, { recursive: true })
    }
  })
})

describe('names in the environment of a deployment', () => {
  const FIXED = {
    SSL_CERT_FILE: '/etc/ssl/certs/ca-certificates.crt',
    HOME: '/tmp',
    NODE_ENV: 'production',
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
    DO_NOT_TRACK: '1',
    MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '1000',
  }
  test('are those of image and runtime at their values, and settings', () => {
    expect(foreignNames({ ...PRODUCTION, ...FIXED, PATH: '/x', HOSTNAME: 'y', TACIT_TYPO: '' })).toEqual([])
    for (const [name, value] of Object.entries(FIXED))
      for (const other of ['', `${value}0`, '/data'])
        expect(foreignNames({ ...FIXED, [name]: other })).toEqual([
          `${name}: must be ${value} in a deployment`,
        ])
  })
  test('are no others, with any value, unless they are absent', () => {
    for (const name of ['LD_PRELOAD', 'home', 'constructor', 'XTACIT_A'])
      expect(foreignNames({ [name]: '' })).toEqual([
        `${name}: not allowed in the environment of a deployment`,
      ])
    expect(foreignNames({ LD_PRELOAD: undefined })).toEqual([])
  })
})

const MAIN = join(import.meta.dir, '../../server/main.ts')

function errorOf(act: () => void): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  throw new Error('nothing failed')
}

test('a full device, a missing file and a file in place of a folder are named with the remedy', () => {
  const full = errorOf(() => {
    const fd = openSync('/dev/full', 'w')
    try {
      writeSync(fd, 'x')
    } finally {
      closeSync(fd)
    }
  })
  expect(startFault(full, '/data')).toContain('/data: the volume is full')
  expect(
    startFault(
      errorOf(() => readFileSync('/nowhere/key')),
      '/data',
    ),
  ).toContain('/nowhere/key: a file or socket is missing')
  expect(
    startFault(
      errorOf(() => mkdirSync('/dev/null/data')),
      '/data',
    ),
  ).toContain('a file is where a folder is needed')
  expect(startFault(new Error('its own sentence'), '/data')).toBe('its own sentence')
})

test('the process prints the cause, without a stack', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'start-fault-'))
  try {
    writeFileSync(join(folder, 'stand-in'), '')
    const ports = { TACIT_LISTEN: '127.0.0.1:0', TACIT_OPERATOR_LISTEN: '127.0.0.1:0' }
    const env = { PATH: process.env['PATH'] ?? '', TACIT_DATA_DIR: folder, ...ports }
    const child = Bun.spawn([process.execPath, MAIN], { env, stdout: 'pipe', stderr: 'pipe' })
    const printed = await new Response(child.stderr).text()
    expect(await child.exited).toBe(1)
    expect(printed).toContain(`${join(folder, 'stand-in')}: a file is where a folder is needed`)
    expect(printed).not.toMatch(/^ +at /m)
  } finally {
    rmSync(folder, { recursive: true })
  }
}, 120_000)

const ROOT = join(import.meta.dir, '../..')
const IMAGE = [
  'server',
  'routes',
  'engine',
  'enclave',
  'protocol',
  'native',
  'client/verify',
  'client/limits.ts',
  'docs',
  'SECURITY.md',
  'package.json',
  'tsconfig.json',
]
const build = mkdtempSync(join(tmpdir(), 'tacit-no-sandbox-'))

beforeAll(() => {
  for (const name of IMAGE) cpSync(join(ROOT, name), join(build, name), { recursive: true })
  mkdirSync(join(build, 'node_modules'))
  const development = new Set(Object.keys(devDependencies).map((name) => name.split('/')[0]!))
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!development.has(name))
      symlinkSync(join(ROOT, 'node_modules', name), join(build, 'node_modules', name))
})
afterAll(() => rmSync(build, { recursive: true, force: true }))

function check(settings: Record<string, string>): string {
  const env = { PATH: process.env['PATH'] ?? '', TACIT_DATA_DIR: join(build, 'data'), ...settings }
  const command = [process.execPath, 'server/main.ts', '--check']
  const { exitCode, stderr } = Bun.spawnSync(command, { cwd: build, env, stdout: 'pipe', stderr: 'pipe' })
  expect(exitCode).toBe(1)
  return stderr.toString()
}

const NEXT =
  'this build does not contain it (the folder sandbox/ is missing). On an attested machine set TACIT_ENCLAVE=dstack; ' +
  'to try the venue, run `bun run dev` in a checkout of the repository'

test('TACIT_ENCLAVE=development is rejected with the reason and the next step', () => {
  expect(check({ TACIT_ENCLAVE: 'development' })).toBe(
    `settings rejected:\nTACIT_ENCLAVE: development needs the sandbox, and ${NEXT}\n`,
  )
})

const on_attested_machine = existsSync('/var/run/dstack.sock')
test.skipIf(on_attested_machine)(
  'a missing TACIT_ENCLAVE is rejected with the reason and the next step',
  () => {
    expect(check({})).toBe(
      'settings rejected:\nTACIT_ENCLAVE: not set, and no guest agent listens on /var/run/dstack.sock, so the venue needs the ' +
        `sandbox, and ${NEXT}\n`,
    )
  },
)

test('TACIT_ENCLAVE=dstack needs no sandbox: the other settings are checked', () => {
  expect(check({ TACIT_ENCLAVE: 'dstack' })).toContain('TACIT_OPERATOR_KEY: required')
})

test('a sandbox whose package is not installed is rejected with the name of the package', () => {
  mkdirSync(join(build, 'sandbox'))
  writeFileSync(join(build, 'sandbox/open_sandbox.ts'), "import 'litesvm'\n")
  const message = check({ TACIT_ENCLAVE: 'development' })
  expect(message).toStartWith(
    'settings rejected:\nTACIT_ENCLAVE: development needs the sandbox, which does not load: ',
  )
  expect(message).toContain("'litesvm'")
  expect(message).toEndWith('Run `bun install` in a complete checkout\n')
})
