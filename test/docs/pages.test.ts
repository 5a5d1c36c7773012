/** The documents that the venue serves are true: tables, links, and the blocks that are made here from layouts and vectors. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  cancelAllBody,
  cancelBody,
  deadManBody,
  placeBody,
  reshapeBody,
  withdrawBody,
} from '../../client/wallet/prepare'
import { KINDS as COMMAND_KINDS } from '../../engine/machine/codec/command_codec'
import { encodeBase58 } from '../../protocol/base58'
import { accountIdOf, CREDENTIAL_BODY, REBIND_BODY } from '../../protocol/bodies/account'
import { BINDING_BODY, RECEIPT_BODY, STATEMENT_BODY } from '../../protocol/bodies/statements'
import {
  bodyId,
  CANCEL_ALL_BODY,
  CANCEL_BODY,
  DEAD_MAN_BODY,
  PLACE_BODY,
  RESHAPE_BODY,
  WITHDRAW_BODY,
} from '../../protocol/bodies/trading'
import { fromHex, toHex } from '../../protocol/bytes'
import type { Shape as BodyShape } from '../../protocol/codec'
import {
  deriveAnchor,
  deriveDepositBlinding,
  deriveOrderId,
  deriveTradingKey,
} from '../../protocol/notes/derive'
import { noteInner, openingCommitment } from '../../protocol/notes/notes'
import { poseidonOf } from '../../protocol/notes/poseidon'
import { REFUSALS, Refusal } from '../../protocol/refusals'
import { treeLeaf } from '../../protocol/rfc6962_tree'
import { publicKeyOf, sign } from '../../protocol/sign'
import { feeUpTo, quoteAmount } from '../../protocol/units'
import { EventKind } from '../../protocol/wire/trading'
import { declaredRefusals } from '../../server/edge/declared'
import type { Documents } from '../../server/edge/services'
import { MANIFEST } from '../../server/manifest'
import EXAMPLES from '../../server/reference/examples.json'
import { EVENT_KINDS, EVENT_SHAPES } from '../../server/reference/openapi'
import { CLOSES, openDocuments, PAGES, SERVER_FRAMES } from '../../server/reference/page'
import { REMEDIES } from '../../server/reference/remedies'
import { expectBlocks, readDocument } from '../kit/golden'
import { type Harness, openHarness } from '../kit/server/harness'
import anchors from '../vectors/anchors.json'
import bodies from '../vectors/bodies.json'
import notes from '../vectors/notes.json'
import tree from '../vectors/receipt_tree.json'
import venue_parts from '../vectors/venue.json'
import wallet from '../vectors/wallet.json'

const KINDS = EventKind.anyOf.map((kind) => kind.const as EventKind)
const table = (heads: string[], rows: string[][]): string =>
  [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
const code = (text: string): string => `\`${text}\``
const sockets = MANIFEST.flatMap(({ path, route }) =>
  route.kind === 'stream' ? [{ path, contract: route.contract }] : [],
)

/** One section per code: origin, meaning, cause, remedy. */
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

/**
 * `docs/bodies.md` is true: its blocks between `<!-- … -->` lines are made here from the layouts, the vectors and the code
 * that signs. `UPDATE_GOLDEN=1` writes them; the prose around them is written by hand.
 */

type Fields = Record<string, string | string[]>
type Vector = { name: string; fields: Fields; body: string; seed: string; signature: string }
const vectors = bodies as unknown as Vector[]
const vectorOf = (name: string): Vector => vectors.find((one) => one.name === name)!
const bytesOf = (hex: string): Uint8Array => fromHex(hex, hex.length / 2)!
const SEED = bytesOf(vectorOf('place').seed)
const KEY = vectorOf('place').fields['trading_key'] as string
const VENUE = venue_parts.venue

/** Bytes of a part; undefined for text, the one part whose description has no width. */
function widthOf(shape: BodyShape | undefined): number | undefined {
  if (shape === undefined) return undefined
  if (shape.kind === 'uint' || shape.kind === 'bytes') return shape.bytes
  if (shape.kind === 'constant') return shape.value.length
  if (shape.kind === 'array' && typeof shape.count === 'number') return shape.count * widthOf(shape.of)!
  if (shape.kind === 'words' || shape.kind === 'bool') return 1
  throw new Error(`no width of a ${shape.kind}`)
}
function formOf(shape: BodyShape | undefined): string {
  if (shape === undefined) return 'ASCII, zero padded'
  if (shape.kind === 'uint') return 'u64'
  if (shape.kind === 'words') return shape.words.map((word, at) => `${at + shape.first} ${word}`).join(', ')
  if (shape.kind === 'constant') return shape.value.some(Boolean) ? 'ASCII, zero padded' : 'zeros'
  if (shape.kind === 'array') return `4 x ${formOf(shape.of)}, unused ones zero`
  return 'bytes'
}

/** Each field of a layout with its place and its bytes in the example. */
function layout(shape: BodyShape | undefined, body: Uint8Array): string {
  if (shape?.kind !== 'struct') throw new Error('a body is a struct')
  const known = [...shape.fields.values()].map(widthOf)
  const text_width = body.length - known.reduce<number>((sum, width) => sum + (width ?? 0), 0)
  const rows = ['| at | bytes | field | form | in the example |', '|---|---|---|---|---|']
  let at = 0
  for (const [[name, part], width = text_width] of [...shape.fields].map(
    (one, i) => [one, known[i]] as const,
  )) {
    const bytes = body.subarray(at, at + width)
    const named = part?.kind !== 'constant' ? `\`${name}\`` : name.startsWith('reserved') ? '' : 'domain'
    rows.push(`| ${at} | ${width} | ${named} | ${formOf(part)} | \`${toHex(bytes)}\` |`)
    at += width
  }
  expect(at).toBe(body.length)
  return rows.join('\n')
}

const fenced = (language: string, text: string): string => `\`\`\`${language}\n${text}\n\`\`\``
const jsonText = (value: unknown): string => fenced('json', JSON.stringify(value, null, 2))
const address = (hex: string | string[] | undefined): string => encodeBase58(bytesOf(hex as string))

/** The JSON request of a vector, whose body is that of the code that signs. */
function requestOf(name: string): { request: Record<string, unknown>; body: Uint8Array } {
  const { fields, body, signature } = vectorOf(name)
  const { venue: _, anchor_pool_hash: __, order_id, ...rest } = fields
  const request: Record<string, unknown> = { ...rest, trading_key: address(rest['trading_key']), signature }
  for (const slot of ['expiry_slot', 'timeout_slots'])
    if (slot in request) request[slot] = Number(request[slot])
  if (name === 'place') Object.assign(request, { order_id, continuation_anchors: anchors.anchors })
  if (name === 'withdraw') request['destination'] = address(rest['destination'])
  if (name === 'cancel_all') delete request['symbol']
  const given = request as never
  const made = {
    place: () => placeBody(bytesOf(VENUE), given),
    cancel: () => cancelBody(bytesOf(VENUE), order_id as string, given),
    cancel_all: () => cancelAllBody(bytesOf(VENUE), given),
    dead_man: () => deadManBody(bytesOf(VENUE), given),
    withdraw: () => withdrawBody(bytesOf(VENUE), given),
    reshape: () => reshapeBody(bytesOf(VENUE), given),
  }[name]!()
  expect(toHex(made)).toBe(body)
  expect(toHex(sign(SEED, made))).toBe(signature)
  return { request, body: made }
}

const SIGNED: Record<string, BodyShape | undefined> = {
  place: PLACE_BODY.shape,
  cancel: CANCEL_BODY.shape,
  cancel_all: CANCEL_ALL_BODY.shape,
  dead_man: DEAD_MAN_BODY.shape,
  withdraw: WITHDRAW_BODY.shape,
  reshape: RESHAPE_BODY.shape,
}
const VENUES_OWN = {
  receipt: RECEIPT_BODY.shape,
  statement: STATEMENT_BODY.shape,
  binding: BINDING_BODY.shape,
}

function accountBodies(): Record<string, string> {
  const account_id = accountIdOf(bytesOf(KEY))
  const rebind = REBIND_BODY.encode({
    venue: bytesOf(VENUE),
    trading_key: bytesOf(KEY),
    account_id: bytesOf(account_id),
    cancel_nonce: 11n,
  })
  const credential = CREDENTIAL_BODY.encode({
    venue: bytesOf(VENUE),
    account_id: bytesOf(account_id),
    credential_id: bytesOf('c1'.repeat(16)),
    version: 1,
    kind: 'trade',
    secret_hash: bytesOf('5e'.repeat(32)),
    passphrase_digest: bytesOf('d1'.repeat(32)),
    salt: bytesOf('5a'.repeat(16)),
    expiry_s: 1_800_000_000,
  })
  const block = (shape: BodyShape | undefined, body: Uint8Array): string =>
    `${layout(shape, body)}\n\nSignature: \`${toHex(sign(SEED, body))}\``
  return { rebind: block(REBIND_BODY.shape, rebind), credential: block(CREDENTIAL_BODY.shape, credential) }
}

/** Lines of `name = value`. */
const facts = (values: Record<string, unknown>): string =>
  fenced(
    'text',
    Object.entries(values)
      .map(([name, value]) => `${name} = ${value}`)
      .join('\n'),
  )

function collateral(): string {
  const { amount, price_limit } = vectorOf('place').fields as Record<string, string>
  const quote = quoteAmount(BigInt(amount!), BigInt(price_limit!), 9)
  const fee = feeUpTo(quote, 5)
  return facts({
    'amount (base units, 9 decimals)': `${amount}, that is 1.5 SOL`,
    'price_limit (quote units per whole base token, 6 decimals)': `${price_limit}, that is 142.37 USDC per SOL`,
    'quote_amount at the limit': `${amount} * ${price_limit} / 10^9 = ${quote}`,
    'fee at the limit (fee_bps 5)': `ceil(${quote} * 5 / 10000) = ${fee}`,
    'a buy needs a USDC note of at least': quote + fee,
    'a sell needs a SOL note of at least': amount,
  })
}

function noteFacts(): string {
  const [owner, mint, blinding] = [notes.owner, notes.mint, notes.blinding].map(bytesOf) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ]
  const amount = BigInt(notes.amount)
  const deposit_form = openingCommitment({ owner, mint, amount, blinding, leaf_index: notes.leaf_index })
  const settlement_form = openingCommitment({ owner, mint, amount, blinding })
  expect(toHex(deposit_form)).toBe(notes.deposit_commitment)
  return facts({
    'Poseidon(1)': toHex(poseidonOf(1)),
    'Poseidon(1, 2)': toHex(poseidonOf(1, 2)),
    'owner (trading key)': notes.owner,
    mint: notes.mint,
    amount,
    blinding: notes.blinding,
    'inner = Poseidon(1, owner_hi, owner_lo, blinding)': toHex(noteInner(owner, blinding)),
    'settlement form': toHex(settlement_form),
    [`deposit form, leaf_index ${notes.leaf_index}`]: toHex(deposit_form),
  })
}

function walletFacts(): string {
  const seed = bytesOf(wallet.seed)
  const { key_index: k, x, ...vector } = wallet.cases[1]!
  const trading_key = deriveTradingKey(seed, k)
  const derived = {
    trading_key_seed: toHex(trading_key),
    trading_key: toHex(publicKeyOf(trading_key)),
    deposit_blinding: toHex(deriveDepositBlinding(seed, k, x)),
    anchor: toHex(deriveAnchor(seed, k, x)),
    order_id: toHex(deriveOrderId(seed, k, x)),
  }
  expect(derived).toEqual(vector)
  return facts({
    seed: wallet.seed,
    [`trading-key, k = ${k}`]: derived.trading_key_seed,
    'its trading key': derived.trading_key,
    [`deposit-blinding, k = ${k}, d = ${x}`]: derived.deposit_blinding,
    [`anchor, k = ${k}, c = ${Math.floor(x / 16)}, i = ${x % 16}`]: derived.anchor,
    [`order-id, k = ${k}, c = ${x}`]: derived.order_id,
  })
}

function receiptFacts(): string {
  const [command, path] = [tree.commands[2]!, tree.paths[2]!]
  return facts({
    'command (stands for body and signature)': command,
    'leaf = SHA-256(00, command)': toHex(treeLeaf(bytesOf(command))),
    index: 2,
    'path[0], on the right': path[0],
    'path[1], on the left': path[1],
    'path[2], on the right': path[2],
    root: tree.root,
  })
}

function blocks(): Record<string, string> {
  const made: Record<string, string> = {}
  for (const [name, shape] of Object.entries(SIGNED)) {
    const { request, body } = requestOf(name)
    made[name] = `${layout(shape, body)}\n\n${jsonText(request)}`
    if (name === 'withdraw' || name === 'reshape')
      made[name] += `\n\nIts id, the first 16 bytes of SHA-256 of the body: \`${toHex(bodyId(body))}\``
  }
  for (const [name, shape] of Object.entries(VENUES_OWN))
    made[name] = layout(shape, bytesOf(vectorOf(name).body))
  const { genesis_hash, program_id, config_account, generation } = venue_parts
  const ids = { genesis_hash: address(genesis_hash), program_id: address(program_id) }
  return {
    ...made,
    ...accountBodies(),
    venue: facts({ ...ids, config_account: address(config_account), generation, venue: VENUE }),
    keys: facts({
      'seed (32 bytes, for these examples only)': toHex(SEED),
      trading_key: KEY,
      'in JSON': address(KEY),
    }),
    anchors: facts({
      ...Object.fromEntries(anchors.anchors.map((anchor, at) => [`continuation_anchors[${at}]`, anchor])),
      pool_hash: anchors.pool_hash,
    }),
    wallet: walletFacts(),
    collateral: collateral(),
    note: noteFacts(),
    receipt_path: receiptFacts(),
  }
}

test('every block of the document is what layouts, vectors and signing code give', () => {
  expectBlocks('docs/bodies.md', blocks())
})

test('every vector of a signed body has its section', () => {
  const named = new Set(vectors.map(({ name }) => name))
  // A price source signs this one, for the operator's port.
  named.delete('reference_price')
  expect([...Object.keys(SIGNED), ...Object.keys(VENUES_OWN)].sort()).toEqual([...named].sort())
})

test('engine.md lists every kind of command', () => {
  const section = readDocument('docs/design/engine.md')
    .split('## Commands and answers')[1]!
    .split('## Receipts')[0]!
  const rows = section.split('\n').filter((line) => /^\| (clients|operator|chain|the process) \|/.test(line))
  const listed = rows.flatMap((row) => [...row.matchAll(/`([a-z_]+)`/g)].map(([, kind]) => kind!))
  expect([...new Set(listed)].sort()).toEqual([...COMMAND_KINDS].sort())
})
