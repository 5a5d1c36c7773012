/** The host carries the connections between nodes: it joins, repeats and delays frames, and no answer or command moves. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Enclave } from '../../enclave/contract'
import type { NodeVenue, Passed } from '../../engine/venue'
import { encodeBase58 } from '../../protocol/base58'
import { fromAnyHex, utf8 } from '../../protocol/bytes'
import { parseQuote } from '../../protocol/tdx/quote'
import type { AnnouncedEntry } from '../../protocol/vault/announcements'
import { machinePolicy } from '../../sandbox/environment'
import { openLog } from '../../server/edge/log'
import { LINK_RENEW_MS, LINK_STREAMS_MAX } from '../../server/limits'
import { LinkAnswers, type LinkParts } from '../../server/links/answer_links'
import { LeaderLink } from '../../server/links/leader_link'
import { PassedOn } from '../../server/links/passed_on'
import { operatorApp } from '../../server/operator/operator'
import { judgePeer } from '../../server/self_check'
import type { Transport } from '../../server/sockets/outbox'
import type { SocketData, Upgrader } from '../../server/sockets/upgrade'
import { type Listener, listen } from '../../server/tls/listen'
import { announcementsOf } from '../../tools/program/announcements_of'
import { type Machine, openMachine, openOn, VENUE } from '../enclave/machine'
import { only } from '../kit/server/harness'

let machine: Machine
let enclave: Enclave
let announced: AnnouncedEntry[]
let listener: Listener | undefined
let now_ms = 0
const clock = { unixMs: () => Date.now(), monotonicMs: () => now_ms }

beforeEach(async () => {
  machine = await openMachine()
  enclave = await openOn(machine.agent)
  const { quote, event_log } = await enclave.keyProof('settlement')
  announced = announcementsOf(parseQuote(fromAnyHex(quote)!), event_log, VENUE).map((one) => ({
    list: one.list,
    id: 'id' in one ? one.id! : new Uint8Array(),
    value: one.value ?? new Uint8Array(),
    next: undefined,
  }))
  now_ms = 0
})
afterEach(async () => {
  await listener?.stop(0)
  listener = undefined
  await enclave.close()
  await machine.close()
})
const judge: LinkParts['judge'] = (evidence) => {
  const { agent } = machine
  const terms = { policy: machinePolicy(agent.root_pem), collect: async () => agent.collateral() }
  return judgePeer({ terms, announced, now_ms: Date.now() }, evidence)
}
const partsOf = (): LinkParts => ({ enclave, clock, venue: VENUE, judge })
const LEAD = {
  epoch: 7,
  seq: 41,
  head: '00'.repeat(32),
  right_ms: 5_000,
  status: {
    ready: true,
    matching: 'running',
    settlement: 'wired',
    chain: { slot: 1, lag_ms: 2, genesis_hash: encodeBase58(VENUE) },
    enclave: 'development',
    draining: false,
    reasons: [],
  },
  unavailable: null,
  nodes: 1,
}

type Leg = {
  front: Transport | undefined
  leader: SocketData
  to_leader: Uint8Array[]
  to_front: Uint8Array[]
}
/** The host: one leg per connection of a front, and for each one to the leading node; it carries nothing by itself. */
function host(answers: LinkAnswers, passed_on: PassedOn) {
  const legs: Leg[] = []
  let held: Promise<void> | undefined
  const calls: Record<string, (body: Uint8Array) => Promise<Response>> = {
    '/links/offer': async () => Response.json(answers.offer()),
    '/links/open': async (body) => Response.json(await answers.open(body)),
    '/links/frame': async (body) => {
      const answer = await answers.frame(body)
      await held
      return new Response(new Uint8Array(answer))
    },
  }
  const fetch = async (request: Request, server?: Upgrader) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/links/stream') {
      const leader = passed_on.socket()
      const leg: Leg = { front: undefined, leader, to_leader: [], to_front: [] }
      leader.opened({
        sendBytes: (bytes: Uint8Array) => leg.to_front.push(new Uint8Array(bytes)),
        getBufferedAmount: () => 0,
        close: () => undefined,
      } as never)
      legs.push(leg)
      const data: SocketData = {
        opened: (transport) => {
          leg.front = transport
        },
        message: (message) => leg.to_leader.push(new Uint8Array(message as Uint8Array)),
        control: () => undefined,
        drained: () => undefined,
        closed: () => undefined,
      }
      server!.upgrade(request, { data, headers: {} })
      return new Response(null)
    }
    return calls[pathname]!(await request.bytes()).catch(() => new Response('', { status: 401 }))
  }
  listener = listen({ fetch }, { hostname: '127.0.0.1', port: 0, tls: enclave.tls })
  return {
    legs,
    url: listener.url,
    hold: (until: Promise<void> | undefined) => {
      held = until
    },
  }
}
const linkTo = (url: string) =>
  new LeaderLink(
    { ...partsOf(), log: openLog(() => undefined, Date.now) },
    () => url,
    () => 3,
  )
const commandOf = (account: string): Passed =>
  ({ kind: 'command', access: 'trade', command: utf8(account), signed: utf8(''), answers: 'held' }) as Passed
const textOf = (passed: Passed) => new TextDecoder().decode((passed as { command: Uint8Array }).command)

/** Answers each command with whose it is. */
function world() {
  const order: string[] = []
  const lost: string[] = []
  const leading = only<NodeVenue>('venue', {
    nodeBack: () => undefined,
    nodeLost: (node) => lost.push(node),
    passed: async (passed) => {
      order.push(textOf(passed))
      return { value: { of: textOf(passed) }, seq: 42, limits: null }
    },
  })
  const answers = new LinkAnswers(partsOf(), () => LEAD)
  const passed_on = new PassedOn(answers, () => leading)
  return { ...host(answers, passed_on), order, lost, passed_on, answers }
}
async function until(look: () => boolean): Promise<void> {
  const end = Date.now() + 4_000
  while (!look()) {
    if (Date.now() > end) throw new Error('did not come')
    await Bun.sleep(5)
  }
}
const outcome = (asked: Promise<unknown>) => asked.catch((error) => error.code)

test('an answer to one node is none to another, whose frames the host puts on its connection', async () => {
  const { legs, url } = world()
  const [one, other] = [linkTo(url), linkTo(url)]
  await one.ask()
  await other.ask()
  await until(() => legs.length === 2 && legs.every((leg) => leg.front !== undefined))
  void outcome(one.pass(commandOf('alice at front one')))
  const bobs = outcome(other.pass(commandOf('bob at front two')))
  await until(() => legs.every((leg) => leg.to_leader.length === 1))
  // The host puts the frames of both nodes on one connection.
  legs[0]!.leader.message(legs[0]!.to_leader[0]!)
  legs[0]!.leader.message(legs[1]!.to_leader[0]!)
  await Bun.sleep(50)
  for (const frame of legs[0]!.to_front) legs[1]!.front!.sendBytes(frame)
  const got = await Promise.race([bobs, Bun.sleep(2_000).then(() => 'nothing')])
  one.stop()
  other.stop()
  expect(JSON.stringify(got)).not.toContain('alice')
})

test('an answer on a connection that ended is none on the next one', async () => {
  const { legs, url, hold } = world()
  const link = linkTo(url)
  await link.ask()
  await until(() => legs[0]?.front !== undefined)
  void outcome(link.pass(commandOf('alice')))
  await until(() => legs[0]!.to_leader.length === 1)
  legs[0]!.leader.message(legs[0]!.to_leader[0]!)
  await until(() => legs[0]!.to_front.length === 1)
  // The host keeps alice's answer, lets the front ask for its right, and ends the connection meanwhile.
  const asked = Promise.withResolvers<void>()
  hold(asked.promise)
  const asking = link.ask()
  await Bun.sleep(50)
  legs[0]!.front!.close(1000, '')
  asked.resolve()
  await outcome(asking)
  hold(undefined)
  // As the node does by itself: a link that was carried is given up, and the next one gets a connection of its own.
  while (typeof (await outcome(link.ask())) === 'string') await Bun.sleep(5)
  await until(() => legs.length >= 2 && legs.at(-1)!.front !== undefined)
  const bobs = outcome(link.pass(commandOf('bob')))
  await until(() => legs.at(-1)!.to_leader.length === 1)
  legs.at(-1)!.front!.sendBytes(legs[0]!.to_front[0]!)
  const got = await Promise.race([bobs, Bun.sleep(2_000).then(() => 'nothing')])
  link.stop()
  expect(JSON.stringify(got)).not.toContain('alice')
})

test('commands keep their order over the renewal of a link', async () => {
  const { legs, url, order } = world()
  const link = linkTo(url)
  await link.ask()
  await until(() => legs[0]?.front !== undefined)
  const [leg] = legs as [Leg]
  void outcome(link.pass(commandOf('0 first')))
  await until(() => leg.to_leader.length === 1)
  leg.leader.message(leg.to_leader[0]!)
  now_ms = LINK_RENEW_MS - 500
  await link.ask()
  void outcome(link.pass(commandOf('1 place')))
  await until(() => leg.to_leader.length === 2)
  now_ms = LINK_RENEW_MS + 200
  await link.ask()
  void outcome(link.pass(commandOf('2 cancel')))
  await until(() => leg.to_leader.length === 3)
  // The host carries the last frame of the link before a minute late.
  leg.leader.message(leg.to_leader[2]!)
  await Bun.sleep(20)
  now_ms += 60_000
  leg.leader.message(leg.to_leader[1]!)
  await Bun.sleep(20)
  link.stop()
  expect(order).toEqual([...order].sort())
})

test('requests that are no upgrade use up no streams', async () => {
  const { passed_on } = world()
  const app = operatorApp({
    documents: { html: '', json: '', css: '' },
    clock,
    log: openLog(() => undefined, Date.now),
    stream: () => passed_on.socket(),
    node: new Map(),
    app: { meters: { read: () => [] } },
  } as never)
  await listener!.stop(0)
  listener = listen(app, { hostname: '127.0.0.1', port: 0, tls: enclave.tls })
  const get = () => fetch(`${listener!.url}/links/stream`, { tls: { rejectUnauthorized: false } } as never)
  const statuses: number[] = []
  for (let one = 0; one < LINK_STREAMS_MAX; one++) statuses.push((await get()).status)
  await Bun.sleep(6_000)
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = new WebSocket(`${listener.url.replace('http', 'ws')}/links/stream`, {
    tls: { rejectUnauthorized: false },
  } as never)
  socket.onopen = () => resolve('open')
  socket.onerror = () => resolve('refused')
  socket.onclose = () => resolve('refused')
  const got = await promise
  socket.close()
  expect(got).toBe('open')
}, 20_000)
