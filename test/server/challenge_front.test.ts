/** The front of an open TLS-ALPN-01 challenge: who reaches which listener, and that strangers cannot hold it up. */

import { heapStats } from 'bun:jsc'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { FRONT_BOUNDS } from '../../server/limits'
import { Accepted, type FrontBounds, openFront } from '../../server/tls/challenge_front'
import { type Listener, listen, requireFreePort } from '../../server/tls/listen'
import { helloMessage, recordsOf, runtimeHello } from '../kit/server/client_hellos'
import { listeningApp, spkiOf, TOKEN, tlsMaterial } from '../kit/server/harness'

const HELLO = recordsOf(
  helloMessage({ session: 32, suites: 3, methods: 1, extensions: [], names: undefined, names_at: 0 }),
  [16_384],
)
const HELLO_OF_16_KB = helloMessage({
  session: 0,
  suites: 1,
  methods: 1,
  extensions: [{ type: 21, size: 16_000 }],
  names: undefined,
  names_at: 0,
})
const ends: (() => unknown)[] = []
beforeEach(() => void ends.splice(0))
afterEach(async () => {
  for (const end of ends.reverse()) await end()
})

/** A socket of a stranger, from any address of the loopback network; `closed` resolves when the front ends it. */
function stranger(port: number, first?: Uint8Array, localAddress = '127.0.0.1') {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.setNoDelay(true)
  socket.on('error', () => undefined)
  socket.on('data', () => undefined)
  if (first !== undefined) socket.write(first)
  ends.push(() => socket.destroy())
  return { socket, closed: new Promise<void>((resolve) => socket.once('close', () => resolve())) }
}

/** A venue's listener that is plain TCP, so that bytes can be compared. */
async function plainVenue(serve: (socket: Socket) => void, bounds?: FrontBounds, accepted = new Accepted()) {
  const open = new Set<Socket>()
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    socket.on('error', () => undefined)
    serve(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const probe = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => probe.once('listening', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  const front = await openFront(
    { hostname: '127.0.0.1', port },
    (server.address() as AddressInfo).port,
    tlsMaterial(),
    accepted,
    bounds,
  )
  ends.push(async () => {
    for (const socket of open) socket.destroy()
    server.close()
    await front.close()
  })
  return { port, front, open }
}

function openListener(): Listener {
  const listener = listen(listeningApp(), { hostname: '127.0.0.1', port: 0, tls: tlsMaterial() })
  ends.push(() => listener.stop(0))
  return listener
}

/** Status and key of one request over a new connection. */
function ask(port: number): Promise<{ status: string; ms: number }> {
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const socket = tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () =>
      socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'),
    )
    socket.on('error', reject)
    socket.on('data', (part) => {
      socket.destroy()
      resolve({ status: part.toString('latin1').slice(9, 12), ms: performance.now() - began })
    })
  })
}

async function medianMs(port: number, count: number): Promise<number> {
  const latencies: number[] = []
  for (let at = 0; at < count; at += 1) {
    const { status, ms } = await ask(port)
    expect(status).toBe('200')
    latencies.push(ms)
  }
  return latencies.sort((a, b) => a - b)[count >> 1]!
}

/** The key that a new connection is shown. */
function keyOf(port: number, ALPNProtocols: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols }
    const socket = tlsConnect(options, () => {
      resolve(spkiOf(socket.getPeerCertificate().raw))
      socket.destroy()
    })
    socket.on('error', reject)
  })
}

test('the authority gets the certificate of the challenge, everyone else the venue', async () => {
  const listener = openListener()
  const answer = tlsMaterial()
  const remove = await listener.answerChallenge(answer)
  expect(await keyOf(listener.port, ['acme-tls/1'])).toBe(spkiOf(answer.cert_pem))
  expect(await keyOf(listener.port, ['http/1.1'])).not.toBe(spkiOf(answer.cert_pem))
  expect((await ask(listener.port)).status).toBe('200')
  await remove()
  expect((await ask(listener.port)).status).toBe('200')
  expect(await keyOf(listener.port, ['http/1.1'])).not.toBe(spkiOf(answer.cert_pem))
})

test('a certificate that is renewed during a challenge is served from its end on, and by the next one', async () => {
  const listener = openListener()
  const remove = await listener.answerChallenge(tlsMaterial())
  const renewed = tlsMaterial()
  listener.rotate(renewed)
  expect(await keyOf(listener.port, ['http/1.1'])).not.toBe(spkiOf(renewed.cert_pem))
  await remove()
  expect(await keyOf(listener.port, ['http/1.1'])).toBe(spkiOf(renewed.cert_pem))
  const remove_next = await listener.answerChallenge(tlsMaterial())
  expect(await keyOf(listener.port, ['http/1.1'])).toBe(spkiOf(renewed.cert_pem))
  await remove_next()
})

test('a real hello sent byte by byte is answered', async () => {
  const listener = openListener()
  const remove = await listener.answerChallenge(tlsMaterial())
  // A relay that takes the client's bytes apart.
  const relay = createServer((client) => {
    const inner = connect(listener.port, '127.0.0.1')
    inner.setNoDelay(true)
    inner.pipe(client)
    client.on('data', (part: Buffer) => {
      for (const byte of part) inner.write(Buffer.from([byte]))
    })
    for (const socket of [client, inner]) socket.on('error', () => undefined)
    client.on('close', () => inner.destroy())
  })
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
  ends.push(() => relay.close())
  expect((await ask((relay.address() as AddressInfo).port)).status).toBe('200')
  await remove()
})

test('bytes that are no hello close the connection at once, without one to the venue', async () => {
  let reached = 0
  const { port } = await plainVenue(() => {
    reached += 1
  })
  for (const first of ['GET / HTTP/1.1\r\n', 'PROXY TCP4 ', '\x16\x03\x01\x00\x01\x02'])
    await stranger(port, Buffer.from(first, 'latin1')).closed
  await stranger(port, recordsOf(HELLO.subarray(5), [1])).closed
  expect(reached).toBe(0)
})

test('more undecided connections than the bound displace the oldest, and others are served', async () => {
  const { port, open } = await plainVenue((socket) => socket.once('data', () => socket.write('answer')))
  const idle = Array.from({ length: 100 }, () => stranger(port))
  await Promise.all(idle.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve))))
  const later = Array.from({ length: FRONT_BOUNDS.connections }, () => stranger(port))
  await Promise.all(idle.map(({ closed }) => closed))
  expect(later.filter(({ socket }) => socket.destroyed).length).toBe(0)
  expect(open.size).toBe(0)
  const usual = stranger(port, HELLO)
  expect(await new Promise((resolve) => usual.socket.once('data', (part) => resolve(String(part))))).toBe(
    'answer',
  )
})

test('the bytes kept are bounded: hellos that never end displace each other', async () => {
  const bounds = { ...FRONT_BOUNDS, bytes: 64 * 1024 }
  const { port } = await plainVenue(() => undefined, bounds)
  const unfinished = recordsOf(HELLO_OF_16_KB, [16_384]).subarray(0, 15_000)
  const strangers: ReturnType<typeof stranger>[] = []
  for (let at = 0; at < 12; at += 1) {
    strangers.push(stranger(port, unfinished))
    await Bun.sleep(5)
  }
  // Each keeps eight blocks of 2 KB, so four fit.
  await Promise.all(strangers.slice(0, 8).map(({ closed }) => closed))
  expect(strangers.slice(8).filter(({ socket }) => socket.destroyed).length).toBe(0)
})

test('a connection that is forwarded keeps nothing of its hello', async () => {
  const { port } = await plainVenue((socket) => {
    let seen = 0
    socket.on('data', (part: Buffer) => {
      seen += part.length
      if (seen === hello.length) socket.write('answer')
    })
  })
  const hello = recordsOf(HELLO_OF_16_KB, [16_384])
  const open = async (count: number) => {
    const clients = Array.from({ length: count }, () => stranger(port, hello.subarray(0, 15_000)))
    const answered = clients.map(({ socket }) => new Promise((resolve) => socket.once('data', resolve)))
    await Bun.sleep(200)
    for (const { socket } of clients) socket.write(hello.subarray(15_000))
    await Promise.all(answered)
    Bun.gc(true)
    return heapStats().objectTypeCounts['Uint8Array'] ?? 0
  }
  const before = await open(1)
  // Sockets have three such objects each; a hello would be eight blocks and a segment.
  expect((await open(50)) - before).toBeLessThan(50 * 6)
})

/** The venue's answer, or that the front closed the connection. */
const answered = ({ socket }: ReturnType<typeof stranger>) =>
  new Promise<string>((resolve) => {
    socket.once('data', (part) => resolve(String(part)))
    socket.once('close', () => resolve('closed'))
  })
const serveAnswer = (socket: Socket) => {
  socket.once('data', () => socket.write('answer'))
  socket.on('end', () => socket.end())
}

test('the connection beyond the total is closed at once, and one that ends makes room', async () => {
  const bounds = { ...FRONT_BOUNDS, total: 16 }
  const accepted = new Accepted()
  const { port } = await plainVenue(serveAnswer, bounds, accepted)
  // Of an earlier front, whose connections outlive it.
  for (let at = 0; at < 13; at += 1) accepted.admit(`198.51.100.${at}`, bounds.total)
  const forwarded = [stranger(port, HELLO, '127.0.0.2'), stranger(port, HELLO, '127.0.0.3')]
  for (const one of forwarded) expect(await answered(one)).toBe('answer')
  const idle = stranger(port, undefined, '127.0.0.4')
  await new Promise((resolve) => idle.socket.once('connect', resolve))
  expect(await answered(stranger(port, HELLO, '127.0.0.5'))).toBe('closed')
  expect(idle.socket.destroyed).toBe(false)
  forwarded[0]!.socket.destroy()
  let outcome = ''
  while (outcome !== 'answer') outcome = await answered(stranger(port, HELLO, '127.0.0.5'))
})

test('one network gets half of the total, and then each network a sixteenth', async () => {
  const bounds = { ...FRONT_BOUNDS, total: 32 }
  const { port } = await plainVenue(serveAnswer, bounds)
  const from = async (address: string, count: number) => {
    const outcomes: string[] = []
    for (let at = 0; at < count; at += 1) outcomes.push(await answered(stranger(port, HELLO, address)))
    return outcomes.filter((outcome) => outcome === 'answer').length
  }
  expect(await from('127.0.0.1', 20)).toBe(16)
  for (let network = 2; network < 10; network += 1) expect(await from(`127.0.0.${network}`, 3)).toBe(2)
  expect(await from('127.0.0.10', 1)).toBe(0)
})

test('a network counts over all fronts, in either notation, until its connections are closed', () => {
  const accepted = new Accepted()
  const ends = Array.from({ length: 8 }, () => accepted.admit('198.51.100.1', 16)!)
  expect(accepted.admit('::ffff:198.51.100.1', 16)).toBeUndefined()
  const other = accepted.admit('2001:db8:1:2::3', 16)!
  expect(accepted.admit('2001:db8:1:2:4::5', 16)).toBeUndefined()
  other()
  expect(accepted.admit('2001:db8:1:2:4::5', 16)).toBeFunction()
  for (const end of ends.splice(0, 2)) end()
  expect(accepted.admit('198.51.100.1', 16)).toBeFunction()
  for (const end of ends) end()
  expect([...(Reflect.get(accepted, 'networks') as Map<string, number>).values()]).toEqual([1, 1])
})

test('the deadline counts from the start of the connection, for any bytes', async () => {
  const bounds = { ...FRONT_BOUNDS, hello_ms: 400 }
  const { port, front } = await plainVenue(() => undefined, bounds)
  const began = performance.now()
  const { socket, closed } = stranger(port)
  const idle = stranger(port)
  // Offers the challenge's protocol and then stops in the handshake.
  const half = stranger(port, await runtimeHello(['acme-tls/1']))
  let at = 0
  const timer = setInterval(() => socket.write(HELLO.subarray(at, ++at)), 20)
  await Promise.all([closed, idle.closed, half.closed])
  clearInterval(timer)
  expect(performance.now() - began).toBeLessThan(5_000)
  await front.close()
})

test('the front ends once every connection that it accepted is forwarded', async () => {
  const { port, front } = await plainVenue((socket) => socket.once('data', () => socket.write('answer')))
  const { socket } = stranger(port, HELLO.subarray(0, 60))
  // Accepted after the stranger, so both are when it answers.
  const other = stranger(port, HELLO)
  await new Promise((resolve) => other.socket.once('data', resolve))
  let is_closed = false
  const closing = front.close().then(() => {
    is_closed = true
  })
  await Bun.sleep(20)
  expect(is_closed).toBe(false)
  socket.write(HELLO.subarray(60))
  await new Promise((resolve) => socket.once('data', resolve))
  await closing
})

test('ends are passed on in both directions, and the last bytes with them', async () => {
  let seen = ''
  const { port } = await plainVenue((socket) => {
    socket.once('data', () => socket.write('first'))
    socket.on('data', (part) => {
      seen += part.toString('latin1')
    })
    // The client's end arrives while the venue still has an answer to give.
    socket.on('end', () => socket.end('last'))
  })
  const received = await new Promise<string>((resolve) => {
    let text = ''
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => socket.write(HELLO))
    socket.once('data', () => socket.end('request'))
    socket.on('data', (part) => {
      text += part
    })
    socket.on('end', () => resolve(text))
  })
  expect(received).toBe('firstlast')
  expect(seen).toBe(`${HELLO.toString('latin1')}request`)
})

test('a side that is closed or reset takes the other with it', async () => {
  const { port, open } = await plainVenue((socket) => {
    socket.once('data', () => socket.write('answer'))
    socket.on('end', () => socket.end())
  })
  for (const close of ['destroy', 'resetAndDestroy'] as const) {
    const gone = stranger(port, HELLO)
    await new Promise((resolve) => gone.socket.once('data', resolve))
    expect(open.size).toBe(1)
    gone.socket[close]()
    while (open.size > 0) await Bun.sleep(1)
    const left = stranger(port, HELLO)
    await new Promise((resolve) => left.socket.once('data', resolve))
    for (const socket of open) socket[close]()
    await left.closed
  }
})

/** Bytes that the kernel's buffers of two connections may take before the other side reads. */
const KERNEL_MAX = 2 * (Number(kernelBuffer('tcp_rmem').at(-1)) + Number(kernelBuffer('tcp_wmem').at(-1)))
/** Bytes that the front itself may hold for one direction. */
const HELD_MAX = 1024 * 1024
const FLOOD = new Uint8Array(64 * 1024)
const STALLED_MS = 500

function kernelBuffer(name: string): string[] {
  const path = `/proc/sys/net/ipv4/${name}`
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split(/\s+/) : [`${2 ** 25}`]
}

/** Writes until nothing is accepted for `STALLED_MS` or the bound is passed; @returns bytes taken. */
async function flood(socket: Socket): Promise<number> {
  let taken = 0
  let last = performance.now()
  while (taken <= KERNEL_MAX + HELD_MAX && performance.now() - last < STALLED_MS) {
    if (socket.writableLength === 0) {
      socket.write(FLOOD)
      taken += FLOOD.length
      last = performance.now()
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  return taken
}

test('neither direction is buffered without bound while the other side does not read', async () => {
  let inner: Socket | undefined
  const { port } = await plainVenue((socket) => {
    inner = socket
    socket.once('data', () => {
      socket.write('answer')
      socket.pause()
    })
  })
  const client = connect(port, '127.0.0.1', () => client.write(HELLO))
  client.on('error', () => undefined)
  ends.push(() => client.destroy())
  await new Promise((resolve) => client.once('data', resolve))
  expect(await flood(client)).toBeLessThanOrEqual(KERNEL_MAX + HELD_MAX)
  client.pause()
  expect(await flood(inner!)).toBeLessThanOrEqual(KERNEL_MAX + HELD_MAX)
})

test('an open socket goes on after the challenge ends, and the next challenge can begin', async () => {
  const listener = openListener()
  const remove = await listener.answerChallenge(tlsMaterial())
  const url = `${listener.url.replace('https', 'wss')}/ws/fills?token=${TOKEN}`
  const socket = new WebSocket(url, { tls: { rejectUnauthorized: false } } as never)
  const next = () =>
    new Promise<string>((resolve) => {
      socket.onmessage = ({ data }) => resolve(String(data))
    })
  await next()
  await remove()
  const remove_next = await listener.answerChallenge(tlsMaterial())
  socket.send('{"op":"ping","id":"still-here"}')
  expect(JSON.parse(await next())).toMatchObject({ type: 'reply', id: 'still-here' })
  await remove_next()
  socket.close()
})

test('a listener that stops during a challenge frees its port', async () => {
  const listener = openListener()
  const remove = await listener.answerChallenge(tlsMaterial())
  await listener.stop(0)
  await remove()
  requireFreePort({ hostname: '127.0.0.1', port: listener.port })
})

test('strangers do not slow others down', async () => {
  const listener = openListener()
  const remove = await listener.answerChallenge(tlsMaterial())
  const { port } = listener
  await medianMs(port, 100)
  const quiet = await medianMs(port, 60)
  const scripts = [
    recordsOf(HELLO_OF_16_KB, [260]),
    recordsOf(HELLO_OF_16_KB.subarray(0, 5_000), [1]),
    crypto.getRandomValues(new Uint8Array(900)),
  ]
  const lanes: { socket: Socket; script: Uint8Array; at: number }[] = []
  const timer = setInterval(() => {
    for (let index = 0; index < 30; index += 1) {
      const script = scripts[index % scripts.length]!
      const lane = lanes[index]
      if (lane === undefined || lane.socket.destroyed || lane.at >= script.length) {
        lane?.socket.destroy()
        const { socket } = stranger(port, script.subarray(0, script.length >> 1))
        lanes[index] = { socket, script, at: script.length >> 1 }
      } else lane.socket.write(script.subarray(lane.at, ++lane.at))
    }
  }, 10)
  const attacked = await medianMs(port, 200)
  clearInterval(timer)
  for (const { socket } of lanes) socket.destroy()
  await remove()
  // Both share this process: bench/front.ts measures them apart. The old front did not answer at all.
  expect(attacked).toBeLessThan(quiet * 8 + 20)
}, 180_000)
