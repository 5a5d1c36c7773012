/** The checker of the boundaries (`tools/check/`) finds every violation planted in a tree that holds, and says how to mend it. */
import { describe, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { checkTree } from '../tools/check/main'
import { readTree } from '../tools/check/module_graph'
import { COMPUTED_IMPORTS, IMPURE_BY_CHOICE, LONG_FUNCTIONS } from '../tools/check/rules'
import { PLANTED_IMPORTS } from './kit/structure/planted_imports'
import {
  HOUSE,
  inDecide,
  PLANTED_PURITY,
  PLANTED_SHAPES,
  type Plant,
  used,
} from './kit/structure/planted_shapes'

const ROOT = join(import.meta.dir, '..')

/** 71 lines from its head to its brace. */
const LONG = ['const long = () => {', ...Array(69).fill('  long.name'), '}', 'long()'].join('\n')

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
  [
    'a comment without its subject',
    used('protocol/a.ts', `// ${'Who'}ever calls it.`),
    /a\.ts:2 prose-habit/,
    /name the subject/,
  ],
  ['a file of 501 lines', used('protocol/a.ts', '\n'.repeat(499)), /file-length 501 lines/, /split it/],
  [
    'a line of 131 columns',
    used('protocol/a.ts', `// ${'a'.repeat(128)}`),
    /line-length 131 columns/,
    /wrap it/,
  ],
]

describe('a planted violation fails the check with its place and the next step', () => {
  test.each([...PLANTS, ...PLANTED_IMPORTS, ...PLANTED_PURITY, ...PLANTED_SHAPES])(
    '%s',
    (_, files, finding, fix) => {
      const found = checkTree(new Map(Object.entries({ ...HOUSE, ...files })))
      const hit = found.find((one) => finding.test(`${one.file}:${one.line} ${one.rule} ${one.fault}`))
      expect(hit, JSON.stringify(found, null, 1)).toBeDefined()
      expect(hit!.fix).toMatch(fix)
      // The plant breaks one rule, not several.
      expect(new Set(found.map(({ rule }) => rule)).size).toBe(1)
    },
  )

  test('and the house without one passes', () => {
    expect(checkTree(new Map(Object.entries(HOUSE)))).toEqual([])
  })
})

const KEPT: readonly [string, Record<string, string>][] = [
  ['a name in the scope that binds it', inDecide('', '  ;((self: number) => self)(at)')],
  [
    'powers of constants and of BigInt',
    inDecide('', '  ;[2 ** 31, 10n ** BigInt(at), at > 1 ? 58n ** 2n : 0n]'),
  ],
  ['a key that is a number', inDecide('', '  ;[1][at + 1]')],
  [
    'a native function that is listed',
    {
      ...inDecide("import { native } from '../../../protocol/sha256'", '  native()'),
      ...used('protocol/sha256.ts', 'export const native = (globalThis as any).Bun?.SHA256'),
    },
  ],
  [
    'a worker, a later import and a link to a heading',
    {
      ...used('client/work.ts', ''),
      ...used(
        'client/start.ts',
        "new Worker(new URL('work.ts', import.meta.url).href)\nvoid (() => import('./work'))()",
      ),
      'docs/guide.md':
        '# Guide\n\n[order](design/protocol.md#order-of-checks), protocol.md "Order of checks".\n',
    },
  ],
]

test.each([...KEPT])('%s breaks no rule', (_, files) => {
  expect(checkTree(new Map(Object.entries({ ...HOUSE, ...files })))).toEqual([])
})

test('knip, which `bun run check` runs last, refuses exports without an importer', () => {
  const root = mkdtempSync(join(tmpdir(), 'tacit-knip-'))
  const { $schema: _, entry: __, ...settings } = JSON.parse(readFileSync(join(ROOT, 'knip.json'), 'utf8'))
  const files = {
    'knip.json': JSON.stringify({ ...settings, entry: ['client/main.ts'] }),
    'package.json': '{ "name": "house" }',
    'client/main.ts': "import { used } from './a'\nimport './own'\n\nused.toFixed()\n",
    'client/a.ts': 'export const used = 1\nexport const a = 1\nexport type A = 1\n',
    'client/own.ts': 'export const a = 1\na.toFixed()\n',
  }
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(join(root, dirname(file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  const { check } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).scripts as { check: string }
  const command = check.split(' && ').at(-1)!
  const run = Bun.spawnSync([join(ROOT, 'node_modules/.bin', command)], { cwd: root })
  expect(run.exitCode).toBe(1)
  expect(run.stdout.toString().match(/client\/[a-z]+\.ts:\d+/g)).toEqual([
    'client/a.ts:2',
    'client/own.ts:1',
    'client/a.ts:3',
  ])
})

test('every exception names a file that exists', () => {
  const tree = readTree(ROOT)
  const exceptions = [COMPUTED_IMPORTS, IMPURE_BY_CHOICE, LONG_FUNCTIONS].flatMap((list) => Object.keys(list))
  expect(exceptions.filter((entry) => !tree.has(entry.split(' ')[0]!))).toEqual([])
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
  symlinkSync('../server', join(root, 'protocol/planted_link'))
  const run = Bun.spawnSync([process.execPath, ...command.split(' ').slice(1), '--root', root], { cwd: ROOT })
  expect(run.stderr.toString()).toMatch(/^protocol\/planted\.ts:2 {2}package-owner\n.*node:fs.*\n {4}Next: /m)
  expect(run.stderr.toString()).toMatch(/^protocol\/planted_link:1 {2}plain-file\n.*a link.*\n {4}Next: /m)
  expect(run.exitCode).toBe(1)
})
