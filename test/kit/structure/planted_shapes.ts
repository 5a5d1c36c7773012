/** Lists forms of code, sizes, exports and citations that a reader could not follow. */
import { HOUSE, type Plant, used } from './house'

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
