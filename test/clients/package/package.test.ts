/** The npm package is built, installed in an empty folder and used in Node, and Deno where it is, as a stranger would. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildClient } from '../../../tools/build_client'
import { openAccount } from '../../faults/kit/open_trader'
import { VenueProcess } from '../../faults/kit/venue_process'
import { run as runIn, type Said } from '../../kit/said'

const ROOT = join(import.meta.dir, '../../..')
const folder = mkdtempSync(join(tmpdir(), 'tacit-package-'))
const installed = join(folder, 'node_modules/tacit-client')
const venue = new VenueProcess()
const node = Bun.which('node')
if (node === null) console.log('skipped: there is no Node on this machine')
const deno = process.env['TACIT_DENO'] ?? Bun.which('deno')
if (deno === null) console.log('skipped: there is no Deno on this machine (TACIT_DENO names one)')

const run = (command: string[], env: Record<string, string> = {}): Promise<Said> =>
  runIn(command, { cwd: folder, env: { ...process.env, ...env } })

beforeAll(async () => {
  const tarball = await buildClient(join(folder, 'built'))
  writeFileSync(
    join(folder, 'package.json'),
    '{"name":"stranger","version":"1.0.0","private":true,"type":"module"}',
  )
  const npm = Bun.which('npm')
  const fetched =
    npm === null
      ? undefined
      : await run([npm, 'install', '--no-audit', '--no-fund', '--fetch-retries=0', tarball])
  if (fetched?.code !== 0) await unpack(tarball)
  await venue.start()
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

/** Without a registry: the tarball's own files, and the packages that the tests themselves use. */
async function unpack(tarball: string): Promise<void> {
  console.log('no registry: the package is unpacked beside the packages of this repository')
  rmSync(join(folder, 'node_modules'), { recursive: true, force: true })
  mkdirSync(installed, { recursive: true })
  expect((await run(['tar', 'xzf', tarball, '-C', installed, '--strip-components=1'])).code).toBe(0)
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
}

async function trade(command: string[]): Promise<void> {
  const facts = join(venue.data_dir, 'laptop.json')
  const files = [facts]
  for (const name of ['buyer', 'seller']) {
    const { credentials } = await openAccount(venue, `${command[0]} ${name}`)
    files.push(join(folder, `${name}.login`))
    writeFileSync(files.at(-1)!, JSON.stringify(credentials), { mode: 0o600 })
  }
  const program = readFileSync(join(import.meta.dir, 'trade.ts'), 'utf8')
    .replace('../../../client/index', 'tacit-client')
    .replace('../../../client/chain/index', 'tacit-client/chain')
  writeFileSync(join(folder, 'trade.mjs'), new Bun.Transpiler({ loader: 'ts' }).transformSync(program))
  const { code, out, error } = await run([...command, 'trade.mjs', ...files])
  expect({ code, error }).toEqual({ code: 0, error: '' })
  expect(JSON.parse(out)).toEqual([
    ['accepted', '1000000000'],
    ['accepted', '1000000000'],
  ])
}

test.skipIf(node === null)('in Node a deposit is traded to a finalized fill', () => trade([node!]), 120_000)

test.skipIf(deno === null)('in Deno, too', () => trade([deno!, 'run', '-A']), 120_000)

test.skipIf(node === null)(
  'in Node its commands run',
  async () => {
    const { bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
    const command = (name: string, ...args: string[]) => run([node!, join(installed, bin[name]), ...args])
    expect((await command('tacit', '--help')).out).toContain('tacit verify')
    const facts = JSON.parse(readFileSync(join(venue.data_dir, 'laptop.json'), 'utf8'))
    const judged = await command(
      'tacit',
      'verify',
      facts.url,
      '--policy',
      facts.policy,
      '--collateral',
      facts.collateral,
    )
    expect({ code: judged.code, error: judged.error }).toEqual({ code: 0, error: '' })
    const made = await command('tacit', 'wallet', 'create', '--seed-file', 'seed', '--wallet', 'created.json')
    expect({ code: made.code, error: made.error }).toEqual({ code: 0, error: '' })
  },
  120_000,
)

test('its types hold in a strict program, and are those of the sources', async () => {
  const names = [
    'PlaceRequest',
    'Order',
    'Fill',
    'AccountEvent',
    'Receipt',
    'Info',
    'Attestation',
    'Statistics',
    'AccountView',
  ]
  const source = join(ROOT, 'protocol/wire/trading')
  const both = names.map(
    (name) =>
      `const a${name}: ours.${name} = null! as theirs.${name}\nconst b${name}: theirs.${name} = null! as ours.${name}`,
  )
  const used = names.map((name) => `a${name}, b${name}`).join(', ')
  const program = [
    `import type * as ours from '${source}'`,
    "import type * as theirs from './node_modules/tacit-client/protocol/wire/trading.js'",
    "import { Session, type SessionOrder } from 'tacit-client'",
    "import { judgeEvidence } from 'tacit-client/verify'",
    "import { FaultyTransport } from 'tacit-client/testing'",
    ...both,
    "const order: SessionOrder = { symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '150' }",
    '// @ts-expect-error',
    "const wrong: SessionOrder = { ...order, side: 'long' }",
    `export { ${used}, order, wrong, Session, judgeEvidence, FaultyTransport }`,
  ]
  writeFileSync(join(folder, 'uses.ts'), program.join('\n'))
  const strict = [
    '--strict',
    '--exactOptionalPropertyTypes',
    '--noEmit',
    '--skipLibCheck',
    '--target',
    'esnext',
  ]
  const node_resolution = [
    '--module',
    'preserve',
    '--types',
    'bun-types',
    '--typeRoots',
    join(ROOT, 'node_modules'),
  ]
  const { code, out } = await run([
    join(ROOT, 'node_modules/.bin/tsc'),
    ...strict,
    ...node_resolution,
    'uses.ts',
  ])
  expect({ code, out }).toEqual({ code: 0, out: '' })
})

test('it names its imports, and nothing of Bun, the engine or a test', () => {
  const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
  expect(Object.keys(dependencies)).toEqual([
    '@noble/ciphers',
    '@noble/curves',
    '@noble/hashes',
    '@scure/bip39',
    '@solana/kit',
    'age-encryption',
    'bs58',
    'poseidon-lite',
    'undici',
  ])
})
