/**
 * The examples of the reference are answers of a running venue: two traders call every operation, and each stored example has
 * the fields and types of the venue's answer now. `UPDATE_EXAMPLES=1` writes the file.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Transport } from '../../client/api/venue_client'
import { VenueClient } from '../../client/api/venue_client'
import { ownAccount } from '../../client/chain/read_vault'
import { prepareRebind } from '../../client/wallet/account'
import * as prepare from '../../client/wallet/prepare'
import type { WalletNote } from '../../client/wallet/wallet'
import type { CancelRequest, Order, PlaceRequest } from '../../protocol/wire/trading'
import { parserOf } from '../../protocol/wire/values'
import { SOL, USDC } from '../../sandbox/environment'
import { MANIFEST } from '../../server/manifest'
import { EVENT_KINDS, EVENT_SHAPES, type OpenApi } from '../../server/reference/openapi'
import { openDocuments } from '../../server/reference/page'
import type { LoadTrader } from '../faults/kit/load_trader'
import { openTrader } from '../faults/kit/open_trader'
import { VenueProcess, venueTransport } from '../faults/kit/venue_process'
import { accountId, testCredential } from '../kit/venue/test_login'
import { ELSEWHERE } from './rows'

const FILE = join(import.meta.dir, '../../server/reference/examples.json')
const LIFE_SLOTS = 20_000
type Example = { request?: unknown; answer: unknown }

const venue = new VenueProcess()
const live: Record<string, Example> = {}
let document: OpenApi
let maker: LoadTrader
let taker: LoadTrader
beforeAll(async () => {
  document = JSON.parse((await openDocuments('0.0.0')).json)
  await venue.start()
  maker = await openTrader(venue, 'maker', { keys: 1, notes: 3 })
  taker = await openTrader(venue, 'taker', { keys: 1, notes: 3 })
}, 180_000)
afterAll(() => venue.remove())

/** The operation of a call; undefined for paths that the manifest does not have. */
function operationOf(method: string, path: string): string | undefined {
  const parts = path.split('?')[0]!.split('/')
  const fits = (pattern: string): boolean => {
    const named = pattern.split('/')
    return (
      named.length === parts.length && named.every((part, at) => part.startsWith('{') || part === parts[at])
    )
  }
  const paths = Object.keys(document.paths).filter((pattern) => fits(pattern))
  const exact = paths.find((pattern) => !pattern.includes('{')) ?? paths[0]
  return exact === undefined ? undefined : document.paths[exact]![method.toLowerCase()]?.operationId
}

/** Keeps the newest accepted call of each operation. */
function recording(transport: Transport): Transport {
  const fetch: Transport['fetch'] = async (path, init) => {
    const answered = await transport.fetch(path, init)
    const operation = operationOf(init?.method ?? 'GET', path)
    if (
      operation !== undefined &&
      answered.ok &&
      answered.headers.get('content-type') === 'application/json'
    ) {
      const answer = await answered.clone().json()
      const request = typeof init?.body === 'string' ? JSON.parse(init.body) : undefined
      live[operation] = request === undefined ? { answer } : { request, answer }
    }
    return answered
  }
  return { base_url: transport.base_url, fetch, webSocket: (path) => transport.webSocket(path) }
}

/** Asks again until it holds: settlement goes on during the calls. */
async function until<T>(ask: () => Promise<T>, holds: (answer: T) => boolean): Promise<T> {
  for (;;) {
    const answer = await ask().catch(() => undefined)
    if (answer !== undefined && holds(answer)) return answer
    await Bun.sleep(100)
  }
}

/** Shared by the calls of the maker. */
class Caller {
  readonly client: VenueClient
  constructor(
    readonly trader: LoadTrader,
    readonly terms: prepare.OrderTerms,
  ) {
    this.client = new VenueClient(
      recording(venueTransport(venue)),
      testCredential('maker', trader.venue).login,
    )
  }
  order(change: object = {}): PlaceRequest {
    const { wallet, venue: id } = this.trader
    return prepare.preparePlace(wallet, id, { ...this.terms, ...change }, wallet.noteFor(SOL, 1_000_000n)!)
  }
  cancelOf(order_id: string): CancelRequest {
    return prepare.prepareCancel(this.trader.wallet, this.trader.venue, order_id, 0)
  }
  /** Calls that the client has no method for. */
  async send(method: string, path: string, body?: unknown): Promise<void> {
    const headers = {
      authorization: `Bearer ${await this.client.token()}`,
      'content-type': 'application/json',
    }
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
    const { status } = await this.client.transport.fetch(path, init)
    expect([path, status < 300]).toEqual([path, true])
  }
}

/** Two orders that meet, to finality. */
async function callForFills(caller: Caller): Promise<void> {
  const { client, terms } = caller
  const { order_id } = await client.place(caller.order())
  const note = taker.wallet.noteFor(USDC, 1n)!
  await taker.client.place(prepare.preparePlace(taker.wallet, taker.venue, { ...terms, side: 'buy' }, note))
  const isFinal = ({ fills }: Order) => fills.some(({ stage }) => stage === 'finalized')
  const { fills } = await until(() => client.order(order_id), isFinal)
  await client.orders()
  await client.fills()
  await client.settlementBatch(fills[0]!.settlement_batch!)
  await client.inclusion({ commitment: fills[0]!.proceeds_commitment })
}

/** Orders that rest, and the calls that end them. */
async function callForOrders(caller: Caller): Promise<void> {
  const { client, trader, terms } = caller
  const far = { price_limit: 155_000_000n }
  const first = await client.place(caller.order(far))
  const { signature: _, ...check } = caller.order(far)
  await client.check({ ...check, order_id: '5c'.repeat(16) })
  prepare.dropRefused(trader.wallet, check.order_id)
  const nearer = { ...terms, price_limit: 154_000_000n }
  const modify = prepare.prepareModify(trader.wallet, trader.venue, first.order_id, nearer)
  const { order_id } = await client.modify(first.order_id, modify)
  await client.cancel(order_id, caller.cancelOf(order_id))
  await client.deadMan(prepare.prepareDeadMan(trader.wallet, trader.venue, 0, 1_000))
  await client.cancelAll(prepare.prepareCancelAll(trader.wallet, trader.venue, 0, terms.instrument.symbol))
  const last = await client.place(caller.order(far))
  await caller.send('POST', `/orders/${last.order_id}/cancel`, caller.cancelOf(last.order_id))
}

/** Notes that change their shape, and leave. */
async function callForNotes({ client, trader, terms }: Caller): Promise<void> {
  const { wallet, venue: id, chain } = trader
  const { expiry_slot } = terms
  const isFree = ({ mint, state }: WalletNote) => mint === USDC && state === 'free'
  const [one, two] = wallet.state.notes.filter(isFree)
  const merge = { amounts: [BigInt(one!.amount) + BigInt(two!.amount)], expiry_slot }
  const reshape = await client.reshape(prepare.prepareReshape(wallet, id, [one!, two!], merge))
  const isFinal = ({ status }: { status: string }) => status === 'finalized'
  await until(() => client.reshapeOf(reshape.reshape_id), isFinal)
  const out = { destination: ownAccount(chain, USDC).text, amount: 1_000_000_000n, expiry_slot }
  const withdrawal = prepare.prepareWithdrawal(wallet, id, wallet.state.notes.find(isFree)!, out)
  const { withdrawal_id } = await client.withdraw(withdrawal)
  const isPaid = ({ status }: { status: string }) => status === 'paid'
  await until(() => client.withdrawal(withdrawal_id), isPaid)
}

async function callEverything(): Promise<void> {
  const { instrument, wallet } = maker
  const expiry_slot = (await maker.client.time()).slot + LIFE_SLOTS
  const price = { amount: 1_500_000_000n, price_limit: 140_000_000n }
  const caller = new Caller(maker, { instrument, side: 'sell', ...price, expiry_slot })
  const { client } = caller
  await callForFills(caller)
  await callForOrders(caller)
  await callForNotes(caller)

  await client.nonces(wallet.tradingKeyText(0))
  await client.events({ limit: 3 })
  await client.leaves(0, 3)
  await client.account()
  await client.settlement()
  await client.statistics(instrument.symbol)
  for (const read of ['info', 'status', 'time', 'instruments', 'treeRoot', 'transparency'] as const)
    await client[read]()
  await client.instrument(instrument.symbol)
  await caller.send('GET', '/health')
  await caller.send('GET', `/attestation?reportData=${'00'.repeat(32)}`)

  // The calls that end a login; a key that another account takes over.
  await client.setCredential(testCredential('maker', maker.venue, { version: 2 }).request)
  const moved = new VenueClient(recording(venueTransport(venue)), testCredential('taker', taker.venue).login)
  await moved.rebind(prepareRebind(wallet, maker.venue, 0, accountId('taker')))
  await moved.revoke()
}

const SECRETS = new Set(['access_token', 'api_secret', 'passphrase'])
const LIST_MAX = 2
/** Even, so that cut hex is hex. */
const TEXT_MAX = 130

/** Secrets are left out, long texts and lists cut, so that the schema still holds. */
function shortened(value: unknown, name = ''): unknown {
  if (SECRETS.has(name)) return '…'
  if (typeof value === 'string') {
    const [kept, is_hex] = [value.slice(0, TEXT_MAX), /^[0-9a-f]*$/.test(value)]
    return kept.length === value.length || is_hex ? kept : `${kept}…`
  }
  if (Array.isArray(value)) {
    const entries = name === 'siblings' ? value : value.slice(0, LIST_MAX)
    return entries.map((entry) => shortened(entry, name))
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shortened(inner, key)]))
}

/** Each place in a value with its type; null fits any type, and so do the entries of a list. */
function placesOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.slice(0, 1).flatMap((entry) => placesOf(entry, `${path}[]`))
  if (typeof value !== 'object' || value === null) return value === null ? [] : [`${path}: ${typeof value}`]
  return Object.entries(value).flatMap(([name, inner]) => placesOf(inner, `${path}.${name}`))
}

test("each operation has an example, and each example the fields and types of the venue's answer", async () => {
  await callEverything()
  const shown = Object.fromEntries(
    Object.entries(live)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([operation, example]) => [operation, shortened(example) as Example]),
  )
  if (process.env['UPDATE_EXAMPLES'] === '1') writeFileSync(FILE, `${JSON.stringify(shown, null, 2)}\n`)
  const stored: Record<string, Example> = JSON.parse(readFileSync(FILE, 'utf8'))
  const text = new Set(ELSEWHERE)
  const wanted = MANIFEST.filter(
    ({ method, path, route }) =>
      route.kind === 'endpoint' && (!text.has(`${method} ${path}`) || path === '/info'),
  ).map(({ method, path }) => document.paths[path]![method]!.operationId)
  expect(Object.keys(stored).sort()).toEqual(wanted.sort())
  for (const [operation, example] of Object.entries(stored))
    expect([operation, ...placesOf(example)]).toEqual([operation, ...placesOf(shown[operation])])
}, 300_000)

test('the data of every event has the shape that the documents of the streams give for its kind', async () => {
  const kinds = new Set<string>()
  const { login } = testCredential('maker', maker.venue, { version: 2 })
  for (const client of [new VenueClient(venueTransport(venue), login), taker.client])
    for (let after: number | null = 0; after !== null; ) {
      const page = await client.events({ after, limit: 100 })
      for (const { kind, data } of page.items) {
        const [shape] = EVENT_KINDS[kind]
        expect(() => parserOf(EVENT_SHAPES[shape])(data)).not.toThrow()
        kinds.add(kind)
      }
      after = page.next_after
    }
  for (const kind of [
    'order.accepted',
    'fill.finalized',
    'withdrawal.accepted',
    'reshape.accepted',
    'note.created',
  ])
    expect([...kinds]).toContain(kind)
  expect(() => parserOf(EVENT_SHAPES.Batch)({ symbol: 'SOL-USDC' })).toThrow()
}, 120_000)
