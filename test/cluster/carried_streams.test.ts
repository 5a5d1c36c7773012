/** The host carries the connections between nodes: it joins, repeats and delays frames, and no answer or command moves. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Enclave } from '../../enclave/contract'
import type { NodeVenue, Passed } from '../../engine/venue'
import { utf8 } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { AnnouncedEntry } from '../../protocol/vault/admin'
import { openLog } from '../../server/edge/log'
import {
  LINK_CALL_MS,
  LINK_FRAME_LATE_MS,
  LINK_PASSED_MAX,
  LINK_RENEW_MS,
  LINK_RIGHT_MS,
  LINK_SILENT_MS,
  LINK_SOCKETS_PART,
  LINK_STREAM_BYTES_MAX,
  LINK_STREAMS_LOOK_MS,
} from '../../server/limits'
import { LinkAnswers, type LinkParts } from '../../server/links/answer_links'
import { LeaderLink } from '../../server/links/leader_link'
import { PassedOn } from '../../server/links/passed_on'
import type { Transport } from '../../server/sockets/outbox'
import type { SocketData, Upgrader } from '../../server/sockets/upgrade'
import { type Listener, listen } from '../../server/tls/listen'
import { type Machine, openMachine, openOn, VENUE } from '../enclave/machine'
import { only } from '../kit/server/harness'
import { admitting, judging, LEAD } from './link_kit'

let machine: Machine
let enclave: Enclave
let announced: AnnouncedEntry[]
let listener: Listener | undefined
let now_ms = 0
const clock = { unixMs: () => Date.now(), monotonicMs: () => now_ms }

beforeEach(async () => {
  machine = await openMachine()
  enclave = await openOn(machine.agent)
  announced = await admitting(enclave)
  now_ms = 0
})
afterEach(async () => {
  await listener?.stop(0)
  listener = undefined
  await enclave.close()
  await machine.close()
})

const judge: LinkParts['judge'] = (evidence) => judging(machine, announced)(evidence)
const partsOf = (): LinkParts => ({ enclave, clock, venue: VENUE, judge })

type Leg = {
  front: Transport | undefined
  leader: SocketData
  to_leader: Uint8Array[]
  to_front: Uint8Array[]
  /** The leading node has ended it. */
  is_over: boolean
}
/** The host: one leg per connection of a front, and for each one to the leading node; it carries nothing by itself. */
function host(answers: LinkAnswers, passed_on: PassedOn) {
  const legs: Leg[] = []
  let held: Promise<void> | undefined
  let kept: Uint8Array[] | undefined
  const calls: Record<string, (body: Uint8Array) => Promise<Response>> = {
    '/links/offer': async () => Response.json(answers.offer()),
    '/links/open': async (body) => Response.json(await answers.open(body)),
    '/links/frame': async (body) => {
      if (kept !== undefined) {
        kept.push(body)
        return new Response('', { status: 503 })
      }
      const answer = await answers.frame(body)
      await held
      return new Response(new Uint8Array(answer))
    },
  }
  const fetch = async (request: Request, server?: Upgrader) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/links/stream') {
      const leader = passed_on.socket()
      const leg: Leg = { front: undefined, leader, to_leader: [], to_front: [], is_over: false }
      leader.opened({
        sendBytes: (bytes: Uint8Array) => leg.to_front.push(new Uint8Array(bytes)),
        getBufferedAmount: () => 0,
        close: () => undefined,
        terminate: () => {
          leg.is_over = true
        },
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
  const frame_bytes_max = LINK_STREAM_BYTES_MAX
  listener = listen({ fetch }, { hostname: '127.0.0.1', port: 0, tls: enclave.tls, frame_bytes_max })
  return {
    legs,
    url: listener.url,
    hold: (until: Promise<void> | undefined) => {
      held = until
    },
    /** Questions from here on are not carried. */
    keep: () => {
      kept = []
      return kept
    },
  }
}
/** Carries the first frames of a connection. */
async function begun(legs: readonly Leg[], at: number): Promise<Leg> {
  await until(() => legs[at]?.front !== undefined && legs[at].to_leader.length > 0)
  const leg = legs[at]!
  leg.leader.message(leg.to_leader.shift()!)
  await until(() => leg.to_front.length > 0)
  leg.front!.sendBytes(leg.to_front.shift()!)
  return leg
}
/** Longer than the leading node's interval between two looks. */
const looked = () => Bun.sleep(LINK_STREAMS_LOOK_MS + 200)
const linkTo = (url: string) =>
  new LeaderLink(
    { ...partsOf(), log: openLog(() => undefined, Date.now) },
    () => url,
    () => ({ seq: 3, epoch: 7 }),
  )
const commandOf = (account: string): Passed =>
  ({
    kind: 'command',
    seq: 3,
    access: 'trade',
    command: utf8(account),
    signed: utf8(''),
    answers: 'held',
  }) as Passed
const textOf = (passed: Passed) => new TextDecoder().decode((passed as { command: Uint8Array }).command)

/** Answers each command with whose it is, or none. */
function world(is_silent = false) {
  const order: string[] = []
  const lost: string[] = []
  const left: string[] = []
  const back: string[][] = []
  const leading = only<NodeVenue>('venue', {
    nodeBack: async (_, open) => {
      if (open.has('refused')) throw new Refusal('lease_lost')
      back.push([...open])
      return [...open].filter((one) => one.startsWith('late'))
    },
    nodeLost: (node) => lost.push(node),
    passed: async (passed) => {
      if (passed.kind === 'leaves') {
        left.push(passed.node)
        return { value: {}, seq: 42, limits: null }
      }
      order.push(textOf(passed))
      if (is_silent) await new Promise(() => undefined)
      return { value: { of: textOf(passed) }, seq: 42, limits: null }
    },
  })
  const answers = new LinkAnswers(partsOf(), () => LEAD)
  const passed_on = new PassedOn(answers, () => leading)
  return { ...host(answers, passed_on), order, lost, left, back, passed_on, answers }
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
  for (const at of [0, 1]) await begun(legs, at)
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
  await begun(legs, 0)
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
  await again(link)
  await begun(legs, legs.length - 1)
  const bobs = outcome(link.pass(commandOf('bob')))
  await until(() => legs.at(-1)!.to_leader.length === 1)
  legs.at(-1)!.front!.sendBytes(legs[0]!.to_front[0]!)
  const got = await Promise.race([bobs, Bun.sleep(2_000).then(() => 'nothing')])
  link.stop()
  expect(JSON.stringify(got)).not.toContain('alice')
})

test('commands keep their order over the renewal of a link, and an answer from before it is taken', async () => {
  const { legs, url, order } = world()
  const link = linkTo(url)
  await link.ask()
  const leg = await begun(legs, 0)
  const first = outcome(link.pass(commandOf('0 first')))
  await until(() => leg.to_leader.length === 1)
  leg.leader.message(leg.to_leader[0]!)
  now_ms = LINK_RENEW_MS - 500
  await link.ask()
  void outcome(link.pass(commandOf('1 place')))
  await until(() => leg.to_leader.length === 2)
  now_ms = LINK_RENEW_MS + 200
  await link.ask()
  void outcome(link.pass(commandOf('2 cancel')))
  // A separate frame shows the renewed link.
  await until(() => leg.to_leader.length === 4)
  leg.front!.sendBytes(leg.to_front[0]!)
  expect(await first).toMatchObject({ value: { of: '0 first' } })
  // The host carries the last frame of the link before a minute late.
  leg.leader.message(leg.to_leader[2]!)
  leg.leader.message(leg.to_leader[3]!)
  await Bun.sleep(20)
  now_ms += 60_000
  leg.leader.message(leg.to_leader[1]!)
  await Bun.sleep(20)
  link.stop()
  expect(order).toEqual(['0 first'])
})

/** Gives up the link and opens the next one, on a new connection, as the node does by itself. */
async function again(link: LeaderLink): Promise<void> {
  while (typeof (await outcome(link.ask())) === 'string') await Bun.sleep(5)
}

test.each([0, 1])(
  'of a connection that the node has given up no frame counts behind those of its next one, though %p of them came before',
  async (carried) => {
    const { legs, url, order } = world()
    const link = linkTo(url)
    await link.ask()
    await until(() => legs[0]?.front !== undefined && legs[0].to_leader.length === 1)
    const [leg] = legs as [Leg]
    for (const frame of leg.to_leader.splice(0, carried)) leg.leader.message(frame)
    const first = outcome(link.pass(commandOf('1 place')))
    await until(() => leg.to_leader.length === 2 - carried)
    // The host ends the connection towards the front alone.
    leg.front!.close(1000, '')
    expect(await first).toBe('outcome_unknown')
    await again(link)
    const next = await begun(legs, legs.length - 1)
    void outcome(link.pass(commandOf('2 cancel')))
    await until(() => next.to_leader.length === 1)
    next.leader.message(next.to_leader[0]!)
    await Bun.sleep(20)
    now_ms = LINK_SILENT_MS - 100
    for (const frame of leg.to_leader) leg.leader.message(frame)
    await Bun.sleep(20)
    expect([order, next.is_over]).toEqual([['2 cancel'], false])
    await looked()
    expect(leg.is_over).toBe(true)
    link.stop()
  },
)

test('a leading node that is silent for longer than its callers wait ends no connection: abandoned requests are answered, and count until then', async () => {
  const { legs, url } = world(true)
  const link = linkTo(url)
  await link.ask()
  const leg = await begun(legs, 0)
  await Bun.sleep(50)
  const real = performance.now.bind(performance)
  let shift = 0
  performance.now = () => real() + shift
  /** Both ends, by steps in which the node lives. */
  const pass = async (ms: number) => {
    for (; ms > 0; ms -= 4_000) {
      now_ms += 4_000
      for (let times = 0; times < 2; times++) await link.ask()
    }
  }
  const carry = () => {
    for (const one of leg.to_leader.splice(0)) leg.leader.message(one)
    for (const one of leg.to_front.splice(0)) leg.front!.sendBytes(one)
  }
  try {
    const first = Array.from({ length: LINK_PASSED_MAX }, () => outcome(link.pass(commandOf('alice'))))
    await until(() => leg.to_leader.length > 0)
    await Bun.sleep(100)
    carry()
    expect(await outcome(link.pass(commandOf('bob')))).toBe('matching_unavailable')
    shift = LINK_CALL_MS + 1_000
    expect(new Set(await Promise.all(first))).toEqual(new Set(['outcome_unknown']))
    // The leading node counts them still.
    expect(await outcome(link.pass(commandOf('bob')))).toBe('matching_unavailable')
    await pass(LINK_CALL_MS)
    await looked()
    carry()
    await Bun.sleep(50)
    const bobs = outcome(link.pass(commandOf('bob')))
    await until(() => leg.to_leader.length > 0)
    carry()
    expect(await Promise.race([bobs, Bun.sleep(50).then(() => 'waits')])).toBe('waits')
    expect(leg.is_over).toBe(false)
  } finally {
    performance.now = real
    link.stop()
  }
}, 60_000)

test('a front whose clients only read keeps its connection and its link, over renewals', async () => {
  const { legs, url, lost, answers } = world()
  const link = linkTo(url)
  await link.ask()
  const leg = await begun(legs, 0)
  await looked()
  while (now_ms < 2 * LINK_RENEW_MS) {
    now_ms += LINK_SILENT_MS / 4
    await link.ask()
    for (const frame of leg.to_leader.splice(0)) leg.leader.message(frame)
  }
  await looked()
  expect([legs.length, leg.is_over, lost, answers.count()]).toEqual([1, false, [], 1])
  link.stop()
})

test('a dead node is lost, even if a host holds its connection open and delivers its last questions late', async () => {
  const { legs, url, lost, answers, keep } = world()
  const link = linkTo(url)
  await link.ask()
  const leg = await begun(legs, 0)
  await link.ask()
  const kept = keep()
  await outcome(link.ask())
  expect(kept).toHaveLength(1)
  link.stop()
  now_ms = LINK_SILENT_MS - 1_000
  // It counts once, and shows no life later than the answer that the node had when it asked.
  await answers.frame(kept[0]!)
  await looked()
  expect(lost).toEqual([])
  now_ms = LINK_SILENT_MS
  await looked()
  expect([lost, leg.is_over, answers.count()]).toEqual([[link.node], true, 1])
  now_ms += 2 * LINK_RIGHT_MS
  expect(answers.count()).toBe(0)
})

test('a connection ends whose frames the host keeps while it carries the questions', async () => {
  const { legs, url, lost, order } = world()
  const link = linkTo(url)
  await link.ask()
  const leg = await begun(legs, 0)
  void outcome(link.pass(commandOf('closed socket')))
  await until(() => leg.to_leader.length === 1)
  await link.ask()
  await looked()
  for (let step = 0; step < 4; step++) {
    now_ms += LINK_FRAME_LATE_MS / 4
    expect(leg.is_over).toBe(false)
    await link.ask()
  }
  await looked()
  expect([leg.is_over, lost]).toEqual([true, [link.node]])
  leg.leader.message(leg.to_leader[0]!)
  expect(order).toEqual([])
  link.stop()
})

test('a connection of which the host ended the side of the leading node alone is not kept: the node is back with its sockets', async () => {
  const { legs, url, lost, back } = world()
  const link = linkTo(url)
  link.watch({ answered: () => undefined, sockets: () => ['n.1'] })
  await link.ask()
  const leg = await begun(legs, 0)
  await link.ask()
  leg.leader.closed(1006)
  const command = outcome(link.pass(commandOf('alice')))
  for (const after_ms of [0, LINK_SILENT_MS - 1]) {
    now_ms += after_ms
    await link.ask()
  }
  expect([lost.length, legs.length]).toEqual([1, 1])
  now_ms += 1
  await again(link)
  await begun(legs, legs.length - 1)
  expect(await command).toBe('outcome_unknown')
  for (let times = 0; times < 3; times++) {
    now_ms += LINK_SILENT_MS - 1
    await link.ask()
  }
  link.stop()
  expect([legs.length, back]).toEqual([2, [['n.1'], ['n.1']]])
})

test('a node ends by its own word alone', async () => {
  const { legs, url, left } = world()
  const link = linkTo(url)
  await link.ask()
  const leg = await begun(legs, 0)
  for (const node of [link.node, 'ffeeddccbbaa9988.']) {
    const asked = outcome(link.pass({ kind: 'leaves', node }))
    await until(() => leg.to_leader.length === 1)
    leg.leader.message(leg.to_leader.shift()!)
    await until(() => leg.to_front.length === 1)
    leg.front!.sendBytes(leg.to_front.shift()!)
    left.push(JSON.stringify(await asked))
  }
  link.stop()
  expect(left).toEqual([link.node, expect.stringContaining('42'), '"frame_invalid"'])
})

test('a connection begins with the open sockets, however many, and their node is back once it has said all of them', async () => {
  const { legs, url, back, lost } = world()
  const named = (at: number) => `open ${at}`.padEnd(53)
  const open = [...Array.from({ length: 3 * LINK_SOCKETS_PART }, (_, at) => named(at)), 'late 1', 'late 2']
  const link = linkTo(url)
  const unarmed: string[] = []
  link.watch({
    answered: () => undefined,
    sockets: () => open,
    unarmed: (origins) => unarmed.push(...origins),
  })
  await link.ask()
  await until(() => legs[0]?.to_leader.length === 2)
  const [leg] = legs as [Leg]
  void outcome(link.pass(commandOf('behind')))
  await until(() => leg.to_leader.length === 3)
  // All but the last part.
  leg.leader.message(leg.to_leader[0]!)
  await Bun.sleep(20)
  expect(back).toEqual([])
  for (const frame of leg.to_leader.slice(1)) leg.leader.message(frame)
  await until(() => {
    for (const frame of leg.to_front.splice(0)) leg.front!.sendBytes(frame)
    return unarmed.length > 0
  })
  expect([back, unarmed, lost]).toEqual([[open], ['late 1', 'late 2'], []])
  link.stop()
})

test('a node whose sockets the leading one cannot take is not back, and its connection ends', async () => {
  const { legs, url, back, lost, order } = world()
  const link = linkTo(url)
  link.watch({ answered: () => undefined, sockets: () => ['refused'] })
  await link.ask()
  void outcome(link.pass(commandOf('behind')))
  await until(() => legs[0]?.front !== undefined && legs[0].to_leader.length === 1)
  legs[0]!.leader.message(legs[0]!.to_leader[0]!)
  await until(() => legs[0]!.is_over)
  expect([back, lost]).toEqual([[], [link.node]])
  // A connection that begins with anything else is none.
  const other = linkTo(url)
  await other.ask()
  await until(() => legs[1]?.front !== undefined && legs[1].to_leader.length === 1)
  legs[1]!.leader.message(legs[0]!.to_leader[0]!)
  expect(legs[1]!.is_over).toBe(true)
  expect(order.length).toBeLessThanOrEqual(1)
  link.stop()
  other.stop()
})
