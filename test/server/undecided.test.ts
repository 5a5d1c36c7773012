/** Unauthenticated input before a token or signature is checked is bounded, and strangers displace each other first. */

import { afterEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import fc from 'fast-check'
import { BODY_BYTES_MAX } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'
import { TokenRequest } from '../../protocol/wire/public'
import { parserOf } from '../../protocol/wire/values'
import { parseBody, parseJson, readBounded, readQuery } from '../../server/edge/body'
import { networkOf, Undecided } from '../../server/tls/challenge_front'
import { type Harness, openHarness, rawStatus } from '../kit/server/harness'

type Connection = { name: string; address: string }

function open(bounds: { connections: number; bytes: number }) {
  const dropped: string[] = []
  const undecided = new Undecided<Connection>(bounds, ({ name }) => dropped.push(name))
  const add = (name: string, address: string) => {
    const connection = { name, address }
    undecided.add(connection, address)
    return connection
  }
  return { undecided, dropped, add }
}

test('beyond the number, the oldest connection of the address with the most goes', () => {
  const { undecided, dropped, add } = open({ connections: 4, bytes: 1_000 })
  add('other', 'b')
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) add(name, 'a')
  expect(dropped).toEqual(['a1', 'a2'])
  add('c1', 'c')
  expect(dropped).toEqual(['a1', 'a2', 'a3'])
  expect(undecided.count).toBe(4)
})

test('behind one address, as behind a gateway, the oldest goes and the newest stays', () => {
  const { dropped, add } = open({ connections: 2, bytes: 1_000 })
  for (const name of ['first', 'second', 'third', 'fourth']) add(name, 'gateway')
  expect(dropped).toEqual(['first', 'second'])
})

test('beyond the bytes, the address that holds the most loses connections until the rest fits', () => {
  const { undecided, dropped, add } = open({ connections: 100, bytes: 100 })
  const usual = add('usual', 'b')
  undecided.keep(usual, 40)
  const [idle, large] = [add('idle', 'a'), add('large', 'a')]
  undecided.keep(large, 50)
  undecided.keep(large, 20)
  expect(dropped).toEqual(['idle', 'large'])
  expect([undecided.count, undecided.bytes]).toEqual([1, 40])
  // Late calls for a connection that is gone change nothing.
  undecided.keep(idle, 10)
  undecided.remove(large)
  expect(undecided.bytes).toBe(40)
})

test('bytes of a connection are no longer counted to its address once it is gone', () => {
  const { undecided, dropped, add } = open({ connections: 100, bytes: 100 })
  const gone = add('gone', 'a')
  undecided.keep(gone, 90)
  const small = add('small', 'a')
  undecided.keep(small, 10)
  expect(dropped).toEqual([])
  undecided.remove(gone)
  undecided.keep(add('large', 'b'), 95)
  expect(dropped).toEqual(['large'])
  undecided.remove(small)
  expect(Reflect.get(undecided, 'networks')).toHaveProperty('size', 0)
})

const FULL = { connections: 1_024, bytes: 4 * 1024 * 1024 }
/** Connections of as many IPv6 networks as needed, one each. */
const scattered = (at: number) => `2001:db8:${(at >> 8).toString(16)}:${(at & 255).toString(16)}::1`

test('many addresses of one IPv6 network displace only each other', () => {
  const { dropped, add } = open(FULL)
  add('usual', '198.51.100.1')
  for (let at = 0; at <= 1_024; at += 1) add(`stranger ${at}`, `2001:db8:0:7:${at.toString(16)}::${at}`)
  expect(dropped).toEqual(['stranger 0', 'stranger 1'])
})

test('many networks with one connection each displace the oldest of all, not those who share an address', () => {
  const { dropped, add } = open(FULL)
  for (let at = 0; at < 1_022; at += 1) add(`stranger ${at}`, scattered(at))
  for (const name of ['usual 1', 'usual 2', 'usual 3']) add(name, '198.51.100.1')
  expect(dropped).toEqual(['stranger 0'])
})

test('a network is displaced for its share from one sixteenth of the places on', () => {
  for (const [count, first] of [
    [64, 'other 0'],
    [65, 'gateway 0'],
  ] as const) {
    const { dropped, add } = open(FULL)
    for (let at = 0; at < 1_024 - count; at += 1) add(`other ${at}`, scattered(at))
    for (let at = 0; at < count; at += 1) add(`gateway ${at}`, '198.51.100.1')
    expect(dropped).toEqual([])
    add('one more', '203.0.113.9')
    expect([count, dropped]).toEqual([count, [first]])
  }
})

test('bytes count for a network from one sixteenth of the bytes on', () => {
  for (const [held, first] of [
    [100, 'idle'],
    [101, 'heavy'],
  ] as const) {
    const { undecided, dropped, add } = open({ connections: 1_024, bytes: 1_600 })
    add('idle', '203.0.113.9')
    undecided.keep(add('heavy', '198.51.100.1'), held)
    for (let at = 0; at < 15; at += 1) undecided.keep(add(`other ${at}`, scattered(at)), 100)
    if (held === 100) undecided.keep(add('one more', scattered(999)), 1)
    expect([held, dropped[0]]).toEqual([held, first])
  }
})

test('a network is an IPv4 address, in either notation, or 64 bits of an IPv6 address', () => {
  for (const [address, network] of [
    ['198.51.100.1', '198.51.100.1'],
    ['::ffff:198.51.100.1', '198.51.100.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['2001:db8::3:4:5:6', '2001:db8:0:0'],
    ['2001:db8::2:3:4:5:6', '2001:db8:0:2'],
    ['2001::1:2:3:4:5:6', '2001:0:1:2'],
    ['::1:2:3:4:5:6:7', '0:1:2:3'],
    ['2001::ffff:3', '2001:0:0:0'],
    ['::ffff:1:2', '0:0:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['', ''],
  ] as const)
    expect([address, networkOf(address)]).toEqual([address, network])
})

test('after any calls the totals are those of the connections that remain, and within the bounds', () => {
  const step = fc.record({
    kind: fc.constantFrom('add', 'keep', 'remove'),
    which: fc.nat(20),
    address: fc.constantFrom('a', 'b', 'c', 'd'),
    bytes: fc.nat(60),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const alive = new Map<Connection, number>()
      const undecided = new Undecided<Connection>({ connections: 6, bytes: 200 }, (gone) =>
        alive.delete(gone),
      )
      const made: Connection[] = []
      for (const { kind, which, address, bytes } of steps) {
        const known = made[which % Math.max(1, made.length)]
        if (kind === 'add') {
          const connection = { name: '', address }
          made.push(connection)
          alive.set(connection, 0)
          undecided.add(connection, address)
        } else if (known === undefined) continue
        else if (kind === 'remove') {
          alive.delete(known)
          undecided.remove(known)
        } else if (alive.has(known)) {
          alive.set(known, alive.get(known)! + bytes)
          undecided.keep(known, bytes)
        }
        expect(undecided.count).toBe(alive.size)
        expect(undecided.bytes).toBe([...alive.values()].reduce((sum, held) => sum + held, 0))
        expect(undecided.count).toBeLessThanOrEqual(6)
        expect(undecided.bytes).toBeLessThanOrEqual(200)
      }
    }),
  )
})

let harness: Harness
afterEach(() => harness?.stop())

/** Time of the fastest of a few runs, in milliseconds. */
function fastest(run: () => unknown): number {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 7; round += 1) {
    const began = performance.now()
    try {
      run()
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
    best = Math.min(best, performance.now() - began)
  }
  return best
}

/** Inputs of a given size that cost a careless reader the square of it. */
const HOSTILE: Record<string, (size: number) => () => unknown> = {
  'escaped quotes': (size) => () => parseJson(`"${'\\"'.repeat(size / 2)}"`),
  backslashes: (size) => () => parseJson(`"${'\\'.repeat(size & ~1)}"`),
  'many strings': (size) => () => parseJson(`[${'"",'.repeat(size / 3)}1]`),
  'many keys': (size) => {
    const members = Array.from({ length: size / 10 }, (_, at) => `"${at.toString(36)}":1`)
    return () => parseJson(`{${members.join(',')}}`)
  },
  depth: (size) => () => parseJson('['.repeat(size / 2) + ']'.repeat(size / 2)),
  'unknown fields': (size) => {
    const parse = parserOf(TokenRequest)
    const value = Object.fromEntries(Array.from({ length: size / 10 }, (_, at) => [`k${at}`, 1]))
    return () => parse(value)
  },
  'long field': (size) => {
    const parse = parserOf(TokenRequest)
    return () => parse({ api_key: 'a'.repeat(size), api_secret: 'b', passphrase: 'c' })
  },
  'query names': (size) => {
    const names = Array.from({ length: size / 6 }, (_, at) => at.toString(36))
    return () => readQuery(`http://localhost/?${names.join('&')}`)
  },
  'encoded query': (size) => {
    const names = Array.from({ length: size / 9 }, (_, at) => `%41${at.toString(36)}`)
    return () => readQuery(`http://localhost/?${names.join('&')}`)
  },
  'spaces in the content type': (size) => {
    const headers = { 'content-type': `application/json${' '.repeat(size)}; charset=utf-8x` }
    const request = new Request('http://localhost/', { headers })
    return () => parseBody(request, new Uint8Array(0))
  },
}

test('sixteen times the bytes cost about sixteen times the work, and never more than some milliseconds', () => {
  for (const [name, of] of Object.entries(HOSTILE)) {
    const [small, large] = [of(BODY_BYTES_MAX / 4), of(BODY_BYTES_MAX * 4)]
    // Compiles the code first.
    for (let round = 0; round < 50; round += 1) fastest(small)
    const linear = () => fastest(large) / Math.max(fastest(small), 0.02) < 80
    const quick = () => fastest(of(BODY_BYTES_MAX)) < 30
    // Work that grows with the square fails each time; a busy machine does not.
    const holds = (asked: () => boolean) => Array.from({ length: 10 }).some(asked)
    expect([name, holds(linear), holds(quick)]).toEqual([name, true, true])
  }
})

/** Status of a request, and whether the server is still answering others right after it. */
async function status(request: string): Promise<number> {
  const answered = await rawStatus(harness.listener.port, request)
  expect((await harness.call('GET', '/health', { token: null })).status).toBe(200)
  return answered
}

const HOST = 'Host: localhost\r\n'

test('heads beyond 16 KB, and lengths that are none, are rejected by the runtime', async () => {
  harness = openHarness()
  const login = `POST /auth/token HTTP/1.1\r\n${HOST}`
  expect(await status(`GET /health HTTP/1.1\r\n${HOST}x: ${'a'.repeat(20_000)}\r\n\r\n`)).toBe(431)
  expect(await status(`GET /health HTTP/1.1\r\n${HOST}${'a:b\r\n'.repeat(4_000)}\r\n`)).toBe(431)
  for (const length of ['-1', '1e3', '99999999999999999999', '0x10', ' '])
    expect([length, await status(`${login}Content-Length: ${length}\r\n\r\n`)]).toEqual([length, 400])
  expect(await status(`${login}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n`)).toBe(400)
})

test('paths, queries and hosts of any bytes are answered, none with 500', async () => {
  harness = openHarness({ venue: { time: () => ({ slot: 1, unix_ms: 2, slot_ms: 400 }) } })
  const long = 'a'.repeat(15_000)
  const targets = [
    '//[',
    '/%ff%zz',
    `/${long}`,
    `/health?${long}`,
    `/${'a/'.repeat(7_000)}`,
    '/evidences/%ff',
  ]
  targets.push(`/evidences/${long}`, `/ws/orders?token=${long}`, `/attestation?reportData=${long}`)
  for (const target of targets) {
    const answered = await status(`GET ${target} HTTP/1.1\r\n${HOST}\r\n`)
    expect([target.slice(0, 30), answered >= 200 && answered < 500]).toEqual([target.slice(0, 30), true])
  }
  for (const host of ['[::bad', 'a b%%', '', '/////////////', long]) {
    const answered = await status(`GET /time HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect([host.slice(0, 10), answered]).toEqual([
      host.slice(0, 10),
      host === '[::bad' || host === long ? 200 : 400,
    ])
  }
  expect(harness.unexpected).toEqual([])
})

test('a body beyond its bound is rejected as soon as that is known, in one chunk or in thousands', async () => {
  harness = openHarness()
  const login = `POST /auth/token HTTP/1.1\r\n${HOST}`
  expect(await status(`${login}Content-Length: ${BODY_BYTES_MAX + 1}\r\n\r\n`)).toBe(413)
  const chunks = '1\r\na\r\n'.repeat(BODY_BYTES_MAX + 1)
  expect(await status(`${login}Transfer-Encoding: chunked\r\n\r\n${chunks}`)).toBe(413)
  // The last chunk is missing: the answer does not wait for it.
  expect(await status(`${login}Transfer-Encoding: chunked\r\n\r\n8000\r\n${'a'.repeat(0x8000)}\r\n`)).toBe(
    413,
  )
})

test('a route that needs a token answers before its body has arrived', async () => {
  harness = openHarness()
  expect(await status(`POST /orders HTTP/1.1\r\n${HOST}Content-Length: 1000000\r\n\r\nabc`)).toBe(401)
  const upgrade = 'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a\r\n'
  expect(await status(`GET /ws/orders?token=${'a'.repeat(14_000)} HTTP/1.1\r\n${HOST}${upgrade}\r\n`)).toBe(
    401,
  )
})

test('bodies that never arrive hold nothing but their connections', async () => {
  harness = openHarness()
  const { port } = harness.listener
  const head = `POST /auth/token HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n`
  const heads = [`${head}Content-Length: 100\r\n\r\n{`, `${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`]
  const sockets = Array.from({ length: 200 }, (_, at) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(heads[at % 2]!))
    socket.on('error', () => undefined)
    return socket
  })
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
  expect((await harness.call('GET', '/health', { token: null })).status).toBe(200)
  for (const socket of sockets) socket.destroy()
  await Bun.sleep(50)
  expect(harness.lines.filter((line) => line.includes('internal_error'))).toEqual([])
})

test('the rest of a body that is too large is not read', async () => {
  let is_cancelled = false
  const body = new ReadableStream({
    pull: (to) => to.enqueue(new Uint8Array(8)),
    cancel() {
      is_cancelled = true
    },
  })
  const request = new Request('http://localhost', { method: 'POST', body })
  const refused = await readBounded(request, 20).catch((error: unknown) => error)
  expect([refused, is_cancelled]).toEqual([expect.objectContaining({ code: 'body_too_large' }), true])
})
