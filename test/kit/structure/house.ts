/** Holds a small tree without a violation, into which tests plant one. */

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
