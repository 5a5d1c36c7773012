/**
 * The documents that the venue serves: their tables are made from the one list of refusals, the wire contracts and answers of a
 * venue, every link leads somewhere, and each page is served with its text.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { REFUSALS, Refusal } from '../../protocol/refusals'
import { EventKind } from '../../protocol/wire/trading'
import { declaredRefusals } from '../../server/edge/declared'
import type { Documents } from '../../server/edge/services'
import { MANIFEST } from '../../server/manifest'
import { EVENT_KINDS, EVENT_SHAPES } from '../../server/reference/asyncapi'
import EXAMPLES from '../../server/reference/examples.json'
import { CLOSES, openDocuments, SERVER_FRAMES } from '../../server/reference/page'
import { PAGES } from '../../server/reference/pages'
import { REMEDIES } from '../../server/reference/remedies'
import { type Harness, openHarness } from '../kit/server/harness'
import { expectBlocks, readDocument } from './blocks'

const KINDS = EventKind.anyOf.map((kind) => kind.const as EventKind)
const table = (heads: string[], rows: string[][]): string =>
  [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
const code = (text: string): string => `\`${text}\``
const sockets = MANIFEST.flatMap(({ path, route }) =>
  route.kind === 'stream' ? [{ path, contract: route.contract }] : [],
)

/** One section per code: where it comes from, what it means, why it comes, what to do. */
function codesBlock(): string {
  return REFUSALS.map(({ code: name, status, message }) => {
    const [cause, remedy] = REMEDIES[name]
    const given = MANIFEST.filter(({ route }) => declaredRefusals(route).includes(name))
    const calls = given.map(({ method, path }) => code(`${method.toUpperCase()} ${path}`))
    const by =
      given.length === MANIFEST.length
        ? ['every call']
        : calls.length > 0
          ? calls
          : [name === 'method_not_allowed' ? 'every path' : 'calls of the operator']
    return `## ${code(name)}

${status}, applied ${code(new Refusal(name).applied)}. ${message}

- Cause: ${cause}
- What to do: ${remedy}
- Given by: ${by.join(', ')}`
  }).join('\n\n')
}

type Shape = {
  properties?: Record<string, unknown>
  required?: string[]
  anyOf?: Shape[]
  items?: Shape
  maxItems?: number
}
/** Names of the fields of a shape, without those of shapes inside. */
function fieldsOf(shape: Shape): string {
  if (shape.anyOf !== undefined) return shape.anyOf.map(fieldsOf).join('; or ')
  if (shape.items !== undefined) return `up to ${shape.maxItems} of ${fieldsOf(shape.items)}`
  const names = Object.keys(shape.properties ?? {})
  return names.map((name) => code(shape.required?.includes(name) ? name : `${name}?`)).join(', ')
}

function streamBlocks(): Record<string, string> {
  const [event] = (EXAMPLES.get_events.answer as unknown as { items: unknown[] }).items
  return {
    sockets: table(
      ['path', 'events', 'snapshot', 'commands'],
      sockets.map(({ path, contract: { kinds, ops, snapshot } }) => {
        const own = [...new Set(KINDS.filter((kind) => kinds(kind)).map((kind) => kind.split('.')[0]!))]
        const events = own.length === new Set(KINDS.map((kind) => kind.split('.')[0])).size ? ['all'] : own
        return [code(path), events.join(', '), snapshot ? 'yes' : 'no', Object.keys(ops).map(code).join(', ')]
      }),
    ),
    frames: table(
      ['type', 'what it says'],
      SERVER_FRAMES.map(([name, text]) => [code(name), text]),
    ),
    kinds: table(
      ['kind', 'data', 'what it says'],
      KINDS.map((kind) => [code(kind), ...EVENT_KINDS[kind]]),
    ),
    event: json(event),
    shapes: table(
      ['data', 'fields'],
      Object.entries(EVENT_SHAPES).map(([name, shape]) => [name, fieldsOf(shape as Shape)]),
    ),
    commands: table(
      ['op', 'cost', 'params'],
      Object.entries(Object.assign({}, ...sockets.map(({ contract }) => contract.ops))).map(([op, one]) => {
        const { schema, cost } = one as { schema?: Shape; cost: unknown }
        return [code(op), String(cost), schema === undefined ? 'none' : fieldsOf(schema)]
      }),
    ),
    closes: table(
      ['code', 'reason'],
      CLOSES.map(([name, text]) => [name, text]),
    ),
  }
}

const json = (value: unknown): string => `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``
const example = (name: keyof typeof EXAMPLES): string => json(EXAMPLES[name].answer)

test('every table and example of the documents is made from the code and from answers of a venue', () => {
  expectBlocks('docs/errors.md', { codes: codesBlock() })
  expectBlocks('docs/streams.md', streamBlocks())
  expectBlocks('docs/notes.md', { inclusion: example('get_tree_inclusion') })
  expectBlocks('docs/batches.md', { instrument: example('get_instruments_symbol') })
  expectBlocks('docs/stages.md', { order: example('get_orders_order_id') })
  expectBlocks('docs/receipts.md', { receipt: example('post_orders') })
  expectBlocks('docs/exits.md', { withdrawal: example('get_withdrawals_withdrawal_id') })
})

test("the quickstart's commands and program are those that other tests run as printed", () => {
  const run = readDocument('README.md') + readDocument('clients/python/README.md')
  const blocks = [...readDocument('docs/quickstart.md').matchAll(/```(?:sh|py)\n(.*?)```/gs)].map(
    ([, block]) => block!,
  )
  expect(blocks).toHaveLength(4)
  // `start` is README's first line; its two other blocks run in test/client/readme_walk.test.ts, Python's in test/clients/.
  expect(run).toContain(blocks[0]!.trim())
  for (const block of blocks.slice(1)) expect(run).toContain(`\n${block}\`\`\``)
})

let documents: Documents
let harness: Harness
beforeAll(async () => {
  documents = await openDocuments('0.0.0')
  harness = openHarness({ options: { documents } })
})
afterAll(() => harness.stop())
const get = (path: string) => harness.call('GET', path, { token: null })

test('every page is served as a page and as its text, and only those', async () => {
  for (const { name, text, html } of PAGES) {
    const page = await get(`/swagger/docs/${name}`)
    expect([page.status, page.text]).toEqual([200, html])
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.headers.get('content-security-policy')).toStartWith("default-src 'self'; img-src data:; ")
    const source = await get(`/swagger/docs/${name}.md`)
    expect([source.status, source.text]).toEqual([200, text])
    expect(source.headers.get('content-type')).toBe('text/markdown; charset=utf-8')
    expect(documents.index).toContain(`](/swagger/docs/${name}.md): `)
  }
  for (const name of ['nothing', 'quickstart.md.md', '..%2fSECURITY.md', 'toString'])
    expect((await get(`/swagger/docs/${name}`)).json).toMatchObject({ status: 404, code: 'route_unknown' })
})

test('pages have no script, no style of their own and no foreign address but those of the text, and every link leads somewhere', async () => {
  const ids = new Map(
    PAGES.map(({ name, html }) => [
      `/swagger/docs/${name}`,
      new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!)),
    ]),
  )
  for (const { name, html } of PAGES) {
    expect(html).not.toMatch(/<script|<style|javascript:|\son[a-z]+=|style=|<img|<iframe/i)
    for (const [, target = ''] of html.matchAll(/(?:href|src)="([^"]+)"/g)) {
      if (target === 'data:,' || target.startsWith('https://')) continue
      const [path = '', anchor] = target.split('#')
      const at = path === '' ? `/swagger/docs/${name}` : path
      expect({ name, target, status: (await get(at)).status }).toEqual({ name, target, status: 200 })
      if (anchor !== undefined && ids.has(at))
        expect({ name, target, known: ids.get(at)!.has(anchor) }).toEqual({ name, target, known: true })
    }
  }
  for (const { code: name } of REFUSALS) expect(ids.get('/swagger/docs/errors')!.has(name)).toBe(true)
})
