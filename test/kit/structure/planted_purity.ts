/** Lists ways of pure code to the clock, to chance, to a wait and to names that no check sees. */
import { inDecide, type Plant, used } from './house'

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
