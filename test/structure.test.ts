/** The checker of the boundaries (`tools/check/`) finds every violation planted in a tree that holds, and says how to mend it. */
import { describe, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { checkTree } from '../tools/check/check_tree'
import { readTree } from '../tools/check/read_tree'

const ROOT = join(import.meta.dir, '..')

/** A small house without a violation. */
const HOUSE: Record<string, string> = {
  'docs/design/protocol.md': '# Protocol\n\n## Order of checks\n',
  'protocol/codes.ts':
    '/** Names the codes, in the order of protocol.md "Order of checks". */\nexport const CODES = [1]\n',
  'engine/limits.ts': '/** Bounds all of the engine. */\nexport const ORDERS_MAX = 10\n',
  'engine/ports.ts': '/** Describes the needs of the engine. */\nexport type Clock = { now(): number }\n',
  'engine/machine/rules/decide.ts': `/** Decides on an order (\`state/book_size.ts\`). */
import { CODES } from '../../../protocol/codes'
import { ORDERS_MAX } from '../../limits'
import type { Clock } from '../../ports'
import { bookSize } from '../state/book_size'

export function decide(at: ReturnType<Clock['now']>): number {
  return Math.max(at, bookSize()) > ORDERS_MAX ? CODES[0]! : 0
}
`,
  'engine/machine/state/book_size.ts':
    '/** Counts the orders. */\nexport const bookSize = () => new Map().size\n',
  'engine/index.ts':
    "/** Opens the venue. */\nimport { decide } from './machine/rules/decide'\n\nexport const openVenue = () => decide(1)\n",
  'server/edge/endpoint.ts':
    '/** Declares an endpoint. */\nexport const endpoint = (answer: () => unknown) => answer\n',
  'server/main.ts':
    "/** Starts the process. */\nimport { openVenue } from '../engine/index'\n\nopenVenue()\n",
  'routes/orders.post.ts':
    "import { endpoint } from '../server/edge/endpoint'\n\n/** Places an order. */\nexport default endpoint(() => 1)\n",
  'test/kit/world.ts': '/** Sets up a world. */\nexport const WORLD = 1\n',
  'test/world.test.ts': "/** Tests the world. */\nimport { WORLD } from './kit/world'\n\nWORLD.toFixed()\n",
}
/** 71 lines from its head to its brace. */
const LONG = ['const long = () => {', ...Array(69).fill('  long.name'), '}', 'long()'].join('\n')
const DECIDE = HOUSE['engine/machine/rules/decide.ts']!

type Plant = [name: string, files: Record<string, string>, finding: RegExp, fix: RegExp]
const inDecide = (head: string, body = ''): Record<string, string> => ({
  'engine/machine/rules/decide.ts': DECIDE.replace('\nexport', `${head}\n\nexport`).replace(
    '  return',
    `${body}\n  return`,
  ),
})
const used = (path: string, text: string): Record<string, string> => ({
  [path]: `/** Does one thing. */\n${text}\n`,
})

const PLANTS: readonly Plant[] = [
  [
    'the clock',
    inDecide('', '  Date.now()'),
    /decide\.ts:9 pure-machine .*the clock \(Date\)/,
    /from the command/,
  ],
  [
    'randomness',
    inDecide('', '  Math.random()'),
    /pure-machine .*chance \(Math\.random\)/,
    /from the command/,
  ],
  [
    'random bytes',
    inDecide('', '  crypto.getRandomValues(new Uint8Array(1))'),
    /pure-machine .*crypto/,
    /from the command/,
  ],
  ['a name not on the list', inDecide('', '  new WeakRef({})'), /pure-machine .*WeakRef/, /argument/],
  ['an inexact result', inDecide('', '  Math.exp(1)'), /pure-machine .*Math\.exp/, /argument/],
  ['the process', inDecide('', '  Bun.nanoseconds()'), /pure-machine .*the process \(Bun\)/, /argument/],
  [
    'the clock behind an allowed import',
    { 'protocol/codes.ts': `${HOUSE['protocol/codes.ts']}CODES.push(Date.now())\n` },
    /protocol\/codes\.ts:3 pure-machine .*the clock \(Date\)/,
    /argument/,
  ],
  [
    'the platform behind an allowed import',
    {
      'protocol/codes.ts': HOUSE['protocol/codes.ts']!.replace(
        '\nexport',
        "\nimport { randomInt } from 'node:crypto'\n\nrandomInt(2)\nexport",
      ),
    },
    /protocol\/codes\.ts:2 pure-machine .*node:crypto/,
    /argument/,
  ],
  [
    'code made of text',
    inDecide('', "  bookSize.constructor('return 1')()"),
    /pure-machine .*constructor/,
    /argument/,
  ],
  ['waiting', inDecide('', '  void (async () => await 1)()'), /pure-machine .*awaits/, /synchronous/],
  [
    'the file system',
    inDecide("import { readFileSync } from 'node:fs'", "  readFileSync('x')"),
    /decide\.ts:6 package-owner .*node:fs/,
    /through a port/,
  ],
  [
    'an upward import',
    {
      ...inDecide("import { run } from '../../sequencer/run'", '  run()'),
      ...used('engine/sequencer/run.ts', 'export const run = () => 1'),
    },
    /decide\.ts:6 import-direction .*engine\/sequencer\/run\.ts.*owns the decisions/,
    /through a port/,
  ],
  [
    'a port as a value',
    {
      ...inDecide("import { PORT } from '../../ports'", '  PORT + 1'),
      'engine/ports.ts': `${HOUSE['engine/ports.ts']}export const PORT = 1\n`,
    },
    /import-direction .*engine\/ports\.ts/,
    /`import type`/,
  ],
  [
    'a test import',
    used('bench/place.ts', "import { WORLD } from '../test/kit/world'\n\nWORLD.toFixed()"),
    /bench\/place\.ts:2 test-import .*test\/kit\/world\.ts/,
    /move the shared part out of test/,
  ],
  [
    'a cycle',
    {
      ...used('protocol/a.ts', "import { b } from './b'\n\nexport const a = () => b()"),
      ...used('protocol/b.ts', "import { a } from './a'\n\nexport const b = (): number => a()"),
    },
    /protocol\/a\.ts:2 value-cycle protocol\/a\.ts -> protocol\/b\.ts -> protocol\/a\.ts/,
    /imports neither/,
  ],
  [
    'a type cycle across folders',
    {
      ...used('client/a.ts', "import type { B } from './wallet/b'\n\nexport type A = B | 1"),
      ...used('client/wallet/b.ts', "import type { A } from '../a'\n\nexport type B = A[]"),
    },
    /type-cycle client\/a\.ts -> client\/wallet\/b\.ts -> client\/a\.ts/,
    /lower folder/,
  ],
  [
    'an unused export',
    used('protocol/a.ts', 'export const a = 1'),
    /protocol\/a\.ts:2 unused-export .*imports a,/,
    /delete it/,
  ],
  [
    'an export used in its own file',
    used('protocol/a.ts', 'export const a = 1\na.toFixed()'),
    /unused-export a is used only in its own file/,
    /drop `export`/,
  ],
  [
    'a missing document',
    used('protocol/a.ts', '// See docs/absent.md.'),
    /a\.ts:2 cited-file docs\/absent\.md/,
    /correct the name/,
  ],
  [
    'a missing heading',
    used('protocol/a.ts', '// See protocol.md "Fees".'),
    /a\.ts:2 cited-heading .*"Fees"/,
    /words it has now/,
  ],
  [
    'a folder with 26 entries',
    Object.fromEntries(
      Array.from({ length: 25 }, (_, n) => [`protocol/file_${n}.ts`, '/** Does one thing. */\n']),
    ),
    /protocol:1 folder-size .*26 entries/,
    /sub-folder/,
  ],
  [
    'a function of 71 lines',
    used('protocol/a.ts', LONG),
    /protocol\/a\.ts:2 function-length long has 71 lines/,
    /take out a step/,
  ],
  [
    'a framework with another owner',
    used('server/chain.ts', "import { LiteSVM } from 'litesvm'\n\nnew LiteSVM()"),
    /server\/chain\.ts:2 package-owner litesvm belongs to sandbox/,
    /move this code to sandbox/,
  ],
  [
    'an unknown folder',
    used('engine/extras/a.ts', ''),
    /engine\/extras\/a\.ts:1 unknown-folder/,
    /CELLS in tools\/check\/rules\.ts/,
  ],
  ['an unknown top folder', used('lib/a.ts', ''), /lib\/a\.ts:1 unknown-folder/, /CELLS/],
  [
    'a route that imports a route',
    {
      'routes/fills.get.ts': HOUSE['routes/orders.post.ts']!.replace('\n\n', "\nimport './orders.post'\n\n"),
    },
    /fills\.get\.ts:2 import-direction/,
    /move the shared part/,
  ],
  [
    'the sandbox loaded at the start',
    {
      ...used('sandbox/open.ts', 'export const openSandbox = () => 1'),
      'server/main.ts': `${HOUSE['server/main.ts']!.replace('\n\n', "\nimport { openSandbox } from '../sandbox/open'\n\nopenSandbox()\n")}`,
    },
    /server\/main\.ts:3 import-direction .*sandbox\/open\.ts/,
    /`await import\(\)`/,
  ],
  [
    'a name that names nothing',
    used('protocol/byte_utils.ts', ''),
    /file-name byte_utils\.ts/,
    /one operation/,
  ],
  ['a name in another case', used('protocol/byteOrder.ts', ''), /file-name byteOrder\.ts/, /rename/],
  [
    'no opening sentence',
    { 'protocol/a.ts': 'const a = 1\na.toFixed()\n' },
    /a\.ts:1 opening-sentence/,
    /one sentence/,
  ],
  ['unfinished work', used('protocol/a.ts', `// TO${'DO'}: the rest.`), /a\.ts:2 unfinished/, /do it/],
  ['a file of 501 lines', used('protocol/a.ts', '\n'.repeat(499)), /file-length 501 lines/, /split it/],
  [
    'a line of 131 columns',
    used('protocol/a.ts', `// ${'a'.repeat(128)}`),
    /line-length 131 columns/,
    /wrap it/,
  ],
]

describe('a planted violation fails the check with its place and the next step', () => {
  test.each([...PLANTS])('%s', (_, files, finding, fix) => {
    const found = checkTree(new Map(Object.entries({ ...HOUSE, ...files })))
    const hit = found.find((one) => finding.test(`${one.file}:${one.line} ${one.rule} ${one.fault}`))
    expect(hit, JSON.stringify(found, null, 1)).toBeDefined()
    expect(hit!.fix).toMatch(fix)
    // The plant breaks one rule, not several.
    expect(new Set(found.map(({ rule }) => rule)).size).toBe(1)
  })

  test('and the house without one passes', () => {
    expect(checkTree(new Map(Object.entries(HOUSE)))).toEqual([])
  })
})

test('`bun run check` runs the checker, which reads the files of the checkout', () => {
  const { check } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).scripts as { check: string }
  const command = check.split(' && ').find((part) => part.startsWith('bun tools/check/'))!
  const root = mkdtempSync(join(tmpdir(), 'tacit-check-'))
  for (const file of readTree(ROOT).keys()) {
    mkdirSync(join(root, dirname(file)), { recursive: true })
    cpSync(join(ROOT, file), join(root, file))
  }
  expect(Bun.spawnSync(['git', 'init', '--quiet'], { cwd: root }).exitCode).toBe(0)
  writeFileSync(
    join(root, 'protocol/planted.ts'),
    "/** Reads a file. */\nimport { readFileSync } from 'node:fs'\n\nreadFileSync('x')\n",
  )
  const run = Bun.spawnSync([process.execPath, ...command.split(' ').slice(1), '--root', root], { cwd: ROOT })
  expect(run.stderr.toString()).toMatch(/^protocol\/planted\.ts:2 {2}package-owner\n.*node:fs.*\n {4}Next: /m)
  expect(run.exitCode).toBe(1)
})
