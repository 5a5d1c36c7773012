/**
 * Secrets and order contents go through every route and stream of the real process. Goal: none of them is ever found in
 * its logs, its metrics, its files, a public answer or an error it gives; only the answers to their owner carry them.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Transport, VenueClient } from '../../client/api/venue_client'
import { openChainAccess } from '../../client/chain/chain_access'
import { ownAccount } from '../../client/chain/read_vault'
import {
  prepareCancel,
  prepareCancelAll,
  prepareDeadMan,
  prepareModify,
  preparePlace,
  prepareReshape,
  prepareWithdrawal,
} from '../../client/wallet/prepare'
import { toHex } from '../../protocol/bytes'
import { SOL } from '../../sandbox/environment'
import { filesOf, findMarks, marksOf, missedPlants } from '../kit/venue/marks'
import { SAMPLES } from './kit/hostile_requests'
import { LoadTrader } from './kit/load_trader'
import { DEPOSITED, fundTrader, openAccount, openFrameSocket } from './kit/open_trader'
import { readMetrics, VenueProcess, venueTransport } from './kit/venue_process'

/** Digits that occur nowhere else. */
const AMOUNT = 1_357_000_000n
const PRICE = 154_963_000n
const WITHDRAWN = 2_468_013_579n

/** Deposited notes are leaves of the tree on chain, which the venue caches. */
const ON_CHAIN = /commitment/
/** Files of the venue itself; the rest of the folder is the sandbox's chain and keys. */
const WRITTEN = /^(?:facts|hashing|history|journal|snapshots|stores)\//

const random = (bytes: number) => toHex(crypto.getRandomValues(new Uint8Array(bytes)))

describe('nothing leaks', () => {
  const venue = new VenueProcess()
  /** Secrets that must not be found, by kind. */
  const needles = new Map<string, string>()
  /** Bodies of all refusals and error frames. */
  const errors: string[] = []
  let trader: LoadTrader
  let token = ''

  /** The result attached to a resend is the owner's own, as at the first time. */
  function keepError(text: string): void {
    const { result: _, ...problem } = JSON.parse(text) as Record<string, unknown>
    errors.push(JSON.stringify(problem))
  }
  function recording(): Transport {
    const plain = venueTransport(venue)
    const fetch: Transport['fetch'] = async (path, init) => {
      const response = await plain.fetch(path, init)
      if (!response.ok) keepError(await response.clone().text())
      return response
    }
    return { base_url: venue.facts.url, fetch, webSocket: (path) => plain.webSocket(path) }
  }
  /** Every text inside a request is one; one-letter words and symbols are not secret. */
  function keepSecret(of: string, value: unknown): void {
    if (typeof value === 'string' && value.length > 8 && value !== 'SOL-USDC' && value !== SOL) {
      needles.set(`${of} ${value}`, value)
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, inner] of Object.entries(value)) keepSecret(`${of}.${name}`, inner)
    }
  }

  beforeAll(async () => {
    await venue.start()
    const { credentials } = await openAccount(venue, 'secretive')
    keepSecret('credentials', credentials)
    const client = new VenueClient(recording(), credentials)
    const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
    trader = new LoadTrader('secretive', 1, client, chain)
    await trader.connect()
    token = await client.token()
    needles.set('token', token)
    await fundTrader(trader, venue.facts.program_id, new Map([[SOL, DEPOSITED.get(SOL)!]]), 4)
    keepSecret('note', trader.wallet.state.notes)
    needles.set('amount', String(AMOUNT)).set('price', String(PRICE)).set('withdrawn', String(WITHDRAWN))
  }, 180_000)
  afterAll(async () => {
    trader?.close()
    await venue.remove()
  })

  /** The same request right, wrong in three ways, and resent. */
  async function exercise<T extends object>(of: string, request: T, send: (body: T) => Promise<unknown>) {
    keepSecret(of, request)
    const wrong_signature = random(64)
    needles.set(`${of} wrong signature`, wrong_signature)
    const unknown = random(16)
    needles.set(`${of} unknown field`, unknown)
    await send({ ...request, [unknown]: unknown }).catch(() => {})
    await send({ ...request, signature: wrong_signature }).catch(() => {})
    await send({ ...request, nonce: unknown, cancel_nonce: unknown }).catch(() => {})
    await send(request)
    await send(request).catch(() => {})
  }
  const terms = () => ({
    instrument: trader.instrument,
    side: 'sell' as const,
    amount: AMOUNT,
    price_limit: PRICE,
    expiry_slot: trader.slot + 100_000,
  })
  const freeNote = () => trader.wallet.noteFor(SOL, WITHDRAWN * 2n)!

  test('commands over REST, right and wrong', async () => {
    const { client, wallet, venue: id } = trader
    const placed = preparePlace(wallet, id, terms(), freeNote())
    const { signature: _, ...unsigned } = placed
    await exercise('check', unsigned, (body) => client.check(body))
    await exercise('place', placed, (body) => client.place(body))
    const change = prepareModify(wallet, id, placed.order_id, terms())
    await exercise('modify', change, (body) => client.modify(placed.order_id, body))
    const { order_id } = change.replacement
    await exercise('cancel', prepareCancel(wallet, id, order_id, 0), (body) => client.cancel(order_id, body))
    await exercise('cancel-all', prepareCancelAll(wallet, id, 0), (body) => client.cancelAll(body))
    await exercise('dead-man', prepareDeadMan(wallet, id, 0, 1_000), (body) => client.deadMan(body))
    const to = { amounts: [AMOUNT, DEPOSITED.get(SOL)! - AMOUNT], expiry_slot: trader.slot + 100_000 }
    await exercise('reshape', prepareReshape(wallet, id, [freeNote()], to), (body) => client.reshape(body))
    const destination = ownAccount(trader.chain, SOL).text
    const payout = { destination, amount: WITHDRAWN, expiry_slot: trader.slot + 100_000 }
    await exercise('withdraw', prepareWithdrawal(wallet, id, freeNote(), payout), (body) =>
      client.withdraw(body),
    )
  })

  test('commands over the socket, right and wrong', async () => {
    const { client, wallet, venue: id } = trader
    const socket = await openFrameSocket(client, '/ws/trading')
    const send = (op: string) => async (params: object) => {
      socket.send(JSON.stringify({ op, id: 'x', params }))
      const frame = await socket.next()
      if (frame['type'] === 'error') keepError(JSON.stringify(frame))
      if (frame['type'] === 'error') throw new Error(String(frame['code']))
    }
    const placed = preparePlace(wallet, id, terms(), freeNote())
    await exercise('socket place', placed, send('order.place'))
    const cancel = { order_id: placed.order_id, ...prepareCancel(wallet, id, placed.order_id, 0) }
    await exercise('socket cancel', cancel, send('order.cancel'))
    const other_token = random(32)
    needles.set('token of nobody', other_token)
    for (const frame of [`{"op":"auth.refresh","id":"x","token":"${other_token}"}`, `{"${other_token}`]) {
      socket.send(frame)
      keepError(JSON.stringify(await socket.next()))
    }
    socket.close()
  })

  test('wrong logins, and secrets where none belong, on every route', async () => {
    const { client } = trader
    const { fetch } = client.transport
    const secret = random(32)
    needles.set('misplaced secret', secret)
    const login = {
      api_key: random(16),
      api_secret: secret,
      passphrase: `${secret}-p`,
      account_id: random(32),
    }
    keepSecret('login', login)
    await new VenueClient(client.transport, login).login().catch(() => {})
    const filled = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(filled)
      if (typeof value !== 'object' || value === null) return secret
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filled(inner)]))
    }
    // Revoking comes last: a dead token would keep the others from being read any further.
    const others = SAMPLES.filter(({ path }) => path !== '/auth/token/revoke')
    const asked = others.flatMap(({ method, mounted, body }) => {
      const path = mounted.path.replace(/\{[a-z_]+\}/g, secret)
      const common = { method, ...(body === undefined ? {} : { body: JSON.stringify(filled(body)) }) }
      const headers = { 'content-type': 'application/json', 'x-request-id': 'a-request-of-this-test' }
      return [
        fetch(`${path}?${secret}=${secret}`, {
          ...common,
          headers: { ...headers, authorization: `Bearer ${token}` },
        }),
        fetch(`${path}?token=${token}&after=${secret}`, { ...common, headers }),
        fetch(path, {
          ...common,
          headers: { ...headers, authorization: `Bearer ${secret}`, cookie: secret },
        }),
        fetch(`/${secret}${path}`, { ...common, headers: { ...headers, 'user-agent': secret } }),
      ]
    })
    for (const response of await Promise.all(asked)) await response.arrayBuffer()
    await client.revoke()
    await fetch('/orders', { headers: { authorization: `Bearer ${token}` } })
  })

  test('no log line, metric, error, public answer or file of the venue holds any of it, and the search would find it', async () => {
    const [metrics, transparency] = await Promise.all([
      readMetrics(venue),
      venueTransport(venue)
        .fetch('/transparency')
        .then((answer) => answer.text()),
    ])
    expect(await venue.stop()).toBe(0)
    expect(needles.size).toBeGreaterThan(80)
    expect(errors.length).toBeGreaterThan(100)
    const texts = { logs: venue.output, metrics, transparency, errors: errors.join('\n') }
    const places = new Map(
      Object.entries(texts).map(([name, text]) => [name, Buffer.from(text.toLowerCase())]),
    )
    const files = filesOf(venue.data_dir, (path) => WRITTEN.test(path))
    expect(files.size).toBeGreaterThan(5)
    const lower = (found: [string, string][]) => found.map(([, text]) => text.toLowerCase())
    const marks = marksOf(lower([...needles]))
    const on_chain = new Set([...needles].filter(([of]) => ON_CHAIN.test(of)).map(([, text]) => text))
    const secret = [...needles].filter(([, text]) => !on_chain.has(text))
    const marks_of_files = marksOf(['"sell"', 'order.accepted', 'account.changed', ...lower(secret)])
    expect([...findMarks(places, marks), ...findMarks(files, marks_of_files)]).toEqual([])
    expect([...missedPlants(places, marks), ...missedPlants(files, marks_of_files)]).toEqual([])
  })
})
