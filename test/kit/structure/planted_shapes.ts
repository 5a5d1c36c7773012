/** Holds a small tree without a violation, and lists forms of code and ways out of purity that the checker must find in it. */

/** A small house without a violation. */
export const HOUSE: Record<string, string> = {
  'package.json':
    '{ "dependencies": { "@noble/hashes": "2.4.0" }, "devDependencies": { "fast-check": "4.10.2", "litesvm": "1.5.0" } }\n',
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
const DECIDE = HOUSE['engine/machine/rules/decide.ts']!

/** A violation: the files that hold it, and the place, rule and next step of its finding. */
export type Plant = [name: string, files: Record<string, string>, finding: RegExp, fix: RegExp]
/** Adds imports and statements to the pure file. */
export const inDecide = (head: string, body = ''): Record<string, string> => ({
  'engine/machine/rules/decide.ts': DECIDE.replace('\nexport', `${head}\n\nexport`).replace(
    '  return',
    `${body}\n  return`,
  ),
})
/** A file with an opening sentence. */
export const used = (path: string, text: string): Record<string, string> => ({
  [path]: `/** Does one thing. */\n${text}\n`,
})

export const PLANTED_SHAPES: readonly Plant[] = [
  [
    'a namespace',
    used('protocol/a.ts', 'namespace A {\n  const a = 1\n}'),
    /a\.ts:2 plain-syntax The namespace A/,
    /write a file/,
  ],
  [
    'a declaration in another file',
    used('protocol/a.ts', "declare module './codes' {\n  const more: number\n}"),
    /a\.ts:2 plain-syntax The namespace \.\/codes/,
    /write a file/,
  ],
  [
    'a global declaration',
    used('protocol/a.ts', 'declare global {\n  const more: number\n}'),
    /a\.ts:2 plain-syntax `declare global`/,
    /write a file/,
  ],
  ['`export =`', used('protocol/a.ts', 'export = { a: 1 }'), /a\.ts:2 plain-syntax `export =`/, /by name/],
  [
    'a file without types',
    { 'protocol/a.ts': '/** Does one thing. */\n// @ts-nocheck\n' },
    /a\.ts:2 suppression "@ts-nocheck"/,
    /correct the types/,
  ],
  [
    'a function packed into a line',
    used('protocol/a.ts', '// biome-ignore format: short'),
    /a\.ts:2 suppression/,
    /format the file/,
  ],
  [
    'a rule off for a file',
    used('protocol/a.ts', '// biome-ignore-all lint/style/noRestrictedGlobals: all'),
    /a\.ts:2 suppression/,
    /one line/,
  ],
  [
    'a namespace of exports without a user',
    {
      ...used('client/dead.ts', ''),
      ...used('client/face.ts', "export * as dead from './dead'"),
    },
    /face\.ts:2 plain-syntax `export \* as`/,
    /by name/,
  ],
  [
    'an unused member of a namespace',
    {
      ...used('client/dead.ts', 'export const one = 1\nexport const two = 2'),
      ...used('client/face.ts', "export * as dead from './dead'"),
      ...used('client/main.ts', "import { dead } from './face'\n\ndead.one.toFixed()"),
    },
    /face\.ts:2 plain-syntax `export \* as`/,
    /by name/,
  ],
  [
    'an export that only its own file imports',
    used(
      'client/a.ts',
      "import type { a as again } from './a'\n\nexport const a = 1\nconst b: typeof again = 1\nb.toFixed()",
    ),
    /a\.ts:2 import-direction client\/a\.ts imports itself/,
    /directly/,
  ],
  [
    'a static block of 71 lines',
    used('client/a.ts', `class A {\n  static {\n${'    A.name\n'.repeat(69)}  }\n}\nnew A()`),
    /a\.ts:3 function-length a static block has 71 lines/,
    /take out a step/,
  ],
  [
    '71 lines outside functions',
    used('client/a.ts', `let n = 0\n${'n += 1\n'.repeat(71)}`),
    /a\.ts:3 function-length top level has 71 lines/,
    /take out a step/,
  ],
  [
    '`describe` outside tests',
    used(
      'client/a.ts',
      `const describe = (f: () => void) => f()\nlet n = 0\ndescribe(() => {\n${'  n += 1\n'.repeat(69)}})`,
    ),
    /a\.ts:4 function-length describe has 71 lines/,
    /take out a step/,
  ],
  ['a name that looks generated', used('protocol/a.gen.ts', ''), /a\.gen\.ts:1 file-name/, /GENERATED/],
  [
    'a missing document in the text of a route',
    { 'routes/fills.get.ts': HOUSE['routes/orders.post.ts']!.replace('=> 1', "=> 'see docs/absent.md'") },
    /fills\.get\.ts:4 cited-file docs\/absent\.md/,
    /correct the name/,
  ],
  [
    'a missing heading in a string',
    used('server/a.ts', 'console.log(\'protocol.md "Fees"\')'),
    /a\.ts:2 cited-heading .*"Fees"/,
    /whole heading/,
  ],
  [
    'a part of a heading',
    used('protocol/a.ts', '// See protocol.md "Order".'),
    /a\.ts:2 cited-heading .*"Order"/,
    /whole heading/,
  ],
  [
    'a missing heading in single quotes',
    used('protocol/a.ts', "// See `protocol.md` 'Fees'."),
    /a\.ts:2 cited-heading .*"Fees"/,
    /whole heading/,
  ],
  [
    'a section by number',
    used('protocol/a.ts', '// See protocol.md § 3.'),
    /a\.ts:2 cited-heading .*"§"/,
    /whole heading/,
  ],
  [
    'a missing heading of a guide',
    {
      'docs/operator.md': '# Operator\n',
      ...used('protocol/a.ts', '// See docs/operator.md "Fees".'),
    },
    /a\.ts:2 cited-heading docs\/operator\.md has no heading "Fees"/,
    /whole heading/,
  ],
  [
    'a missing anchor',
    { 'docs/guide.md': '# Guide\n\nSee [order](design/protocol.md#fees).\n' },
    /guide\.md:3 cited-heading docs\/design\/protocol\.md has no heading for #fees/,
    /correct the anchor/,
  ],
  [
    'a link to nothing',
    { 'docs/guide.md': '# Guide\n\nSee [engine](../motor).\n' },
    /guide\.md:3 cited-file \.\.\/motor/,
    /correct the name/,
  ],
  [
    'missing data',
    used('protocol/a.ts', '// See test/vectors/absent.json.'),
    /a\.ts:2 cited-file test\/vectors\/absent\.json/,
    /correct the name/,
  ],
  [
    'a missing folder',
    used('protocol/a.ts', '// See engine/motor/ for more.'),
    /a\.ts:2 cited-file engine\/motor\//,
    /correct the name/,
  ],
]

export const PLANTED_PURITY: readonly Plant[] = [
  [
    'chance of a package',
    {
      ...inDecide("import { salt } from '../../../protocol/salt'", '  salt()'),
      ...used(
        'protocol/salt.ts',
        "import { randomBytes } from '@noble/hashes/utils.js'\n\nexport const salt = () => randomBytes(1)",
      ),
    },
    /salt\.ts:2 pure-machine .*randomBytes of @noble\/hashes\/utils\.js/,
    /argument/,
  ],
  [
    'a package as a whole',
    {
      ...inDecide("import { salt } from '../../../protocol/salt'", '  salt()'),
      ...used(
        'protocol/salt.ts',
        "import * as all from '@noble/hashes/sha2.js'\n\nexport const salt = () => all",
      ),
    },
    /salt\.ts:2 pure-machine .*\* of @noble/,
    /argument/,
  ],
  [
    'the effects of a package',
    {
      ...inDecide("import { salt } from '../../../protocol/salt'", '  salt()'),
      ...used('protocol/salt.ts', "import '@noble/hashes/sha2.js'\n\nexport const salt = () => 1"),
    },
    /salt\.ts:2 pure-machine .*the effects of/,
    /argument/,
  ],
  [
    'data of the build',
    {
      ...inDecide("import rows from '../state/rows.json'", '  rows.toString()'),
      'engine/machine/state/rows.json': '[]',
    },
    /decide\.ts:6 pure-machine .*rows\.json, which is no code/,
    /argument/,
  ],
  [
    'code made of text, in brackets',
    inDecide('', "  bookSize['constructor']('return 1')()"),
    /decide\.ts:\d+ pure-machine .*constructor/,
    /argument/,
  ],
  [
    'code made of text, taken apart',
    inDecide('', "  const { constructor: make } = bookSize\n  make('return 1')"),
    /decide\.ts:\d+ pure-machine .*constructor/,
    /argument/,
  ],
  [
    'the call stack, taken apart',
    inDecide('', "  const { stack } = new Error('x')\n  stack?.at(0)"),
    /decide\.ts:\d+ pure-machine .*stack/,
    /argument/,
  ],
  [
    'the call stack of an object',
    inDecide('', '  Error.captureStackTrace({})'),
    /decide\.ts:\d+ pure-machine .*captureStackTrace/,
    /argument/,
  ],
  [
    'a key in a variable',
    inDecide('', "  const key = 'constructor'\n  bookSize[key]"),
    /decide\.ts:\d+ pure-machine .*the text 'constructor'/,
    /argument/,
  ],
  [
    'a key put together',
    inDecide('', "  bookSize[('con' + at) as never]"),
    /decide\.ts:\d+ pure-machine .*put together/,
    /argument/,
  ],
  [
    'a key that a function makes',
    inDecide('', "  bookSize[['con', 'structor'].join('') as never]"),
    /decide\.ts:\d+ pure-machine .*put together/,
    /argument/,
  ],
  [
    'a description of a property',
    inDecide('', "  Object.getOwnPropertyDescriptor(bookSize, 'name')"),
    /decide\.ts:\d+ pure-machine .*getOwnPropertyDescriptor/,
    /argument/,
  ],
  [
    'a member of Object that is not listed',
    inDecide('', '  Object.getOwnPropertySymbols({})'),
    /decide\.ts:\d+ pure-machine .*Object\.getOwnPropertySymbols/,
    /argument/,
  ],
  [
    'Object as a value',
    inDecide('', '  const all = Object\n  all.keys({})'),
    /decide\.ts:\d+ pure-machine .*Object as a value/,
    /argument/,
  ],
  [
    'the locale in brackets',
    inDecide('', "  at['toLocaleString']()"),
    /decide\.ts:\d+ pure-machine .*locale/,
    /argument/,
  ],
  [
    'waiting without a keyword',
    inDecide('', '  Array.fromAsync([1])'),
    /decide\.ts:\d+ pure-machine .*waits/,
    /argument/,
  ],
  [
    'a callback that waits',
    inDecide('', '  ;(CODES as never as { then(f: () => void): void }).then(() => {})'),
    /decide\.ts:\d+ pure-machine .*then, which waits/,
    /argument/,
  ],
  ['a power of numbers', inDecide('', '  at ** 0.5'), /decide\.ts:\d+ pure-machine .*power/, /argument/],
  [
    'a power in place',
    inDecide('', '  let n = at\n  n **= 0.5'),
    /decide\.ts:\d+ pure-machine .*power/,
    /argument/,
  ],
  [
    'a power without an exact result',
    inDecide('', '  3 ** 99'),
    /decide\.ts:\d+ pure-machine .*power/,
    /argument/,
  ],
  [
    'a name that another function binds',
    inDecide('', '  ;((self: number) => self)(1)\n  self.name'),
    /decide\.ts:\d+ pure-machine .*self/,
    /argument/,
  ],
  [
    'a name that a type binds',
    inDecide('\ntype Ask = (navigator: number) => void\n(0 as never as Ask)', '  navigator.language'),
    /decide\.ts:\d+ pure-machine .*navigator/,
    /argument/,
  ],
  [
    'a name that is only declared',
    inDecide('\ndeclare const clock: { now(): number }', '  clock.now()'),
    /decide\.ts:\d+ pure-machine .*clock/,
    /argument/,
  ],
  [
    'a function that is only declared',
    inDecide('\ndeclare function reach(id: string): unknown', "  reach('node:fs')"),
    /decide\.ts:\d+ pure-machine .*reach/,
    /argument/,
  ],
  [
    'another name in a file with an exception',
    {
      ...inDecide("import { native } from '../../../protocol/sha256'", '  native()'),
      ...used('protocol/sha256.ts', 'export const native = (globalThis as any).Bun.nanoseconds'),
    },
    /sha256\.ts:2 pure-machine .*globalThis/,
    /argument/,
  ],
]
