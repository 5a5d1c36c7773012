/**
 * Demultiplexes TLS during a TLS-ALPN-01 challenge (RFC 8737): connections that offer only `acme-tls/1` get the challenge's
 * certificate; all others are forwarded to the venue, still encrypted. Connections that are not TLS are closed.
 */

import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import {
  FRONT_BOUNDS,
  HELLO_BYTES_MAX,
  HELLO_READ_MS,
  HELLO_RECORDS_MAX,
  HELLO_SEGMENTS_FREE,
  IDLE_S,
  NETWORK_SHARE,
  SHARE_FREE,
} from '../limits'

/**
 * Reads a TLS ClientHello (RFC 8446 section 4.1.2) as its bytes arrive and decides whether TLS-ALPN-01 is the only protocol
 * that it offers (RFC 7301, RFC 8737). Anyone can send these bytes: the work per byte is constant, and no byte is kept.
 */

/** `more` while the ClientHello is incomplete; `malformed` from the first byte that no ClientHello has at its place. */
type HelloVerdict = 'more' | 'malformed' | 'challenge' | 'venue'

const [HANDSHAKE, CLIENT_HELLO, ALPN] = [22, 1, 16]
/** RFC 8446 section 5.1. */
const RECORD_BYTES_MAX = 2 ** 14
/** Version, random, empty session id, one cipher suite, one compression method. */
const BODY_BYTES_MIN = 2 + 32 + 1 + 2 + 2 + 1 + 1
const ACME_PROTOCOL = new TextEncoder().encode('acme-tls/1')

const MALFORMED = new Error('no ClientHello')

function check(holds: boolean): void {
  if (!holds) throw MALFORMED
}

/** Yields how many bytes it passes over, and continues with the number of them that arrived; with the next byte after 0. */
type Steps<Result> = Generator<number, Result, number>

export class HelloReader {
  private verdict: HelloVerdict = 'more'
  private records = 0
  /** Bytes of the record, and of the message, that are still to come. */
  private record_left = 0
  private message_left = HELLO_BYTES_MAX
  private readonly steps = this.hello()
  /** Bytes that the steps pass over. */
  private passed = this.steps.next().value as number

  /** Continues with the next bytes of the connection. After a verdict it reads nothing and repeats it. */
  read(part: ArrayLike<number>): HelloVerdict {
    for (let at = 0; this.verdict === 'more' && at < part.length; ) {
      const count = Math.min(this.passed, part.length - at)
      this.step(count === 0 ? part[at]! : count)
      at += Math.max(count, 1)
    }
    return this.verdict
  }

  private step(input: number): void {
    try {
      const { done, value } = this.steps.next(input)
      if (done) this.verdict = value
      else this.passed = value
    } catch (error) {
      if (error !== MALFORMED) throw error
      this.verdict = 'malformed'
    }
  }

  private *hello(): Steps<HelloVerdict> {
    yield* this.number(1, CLIENT_HELLO, CLIENT_HELLO)
    this.message_left = yield* this.size(3, BODY_BYTES_MIN)
    this.checkRecordEnd()
    yield* this.number(2, 0x0300, 0x03ff)
    yield* this.pass(32)
    yield* this.pass(yield* this.size(1, 0, 32))
    const suites = yield* this.size(2, 2)
    check(suites % 2 === 0)
    yield* this.pass(suites)
    yield* this.pass(yield* this.size(1, 1))
    // Before TLS 1.3 the extensions may be absent; with them, they are the rest of the message.
    if (this.message_left > 0) yield* this.number(2, this.message_left - 2, this.message_left - 2)
    let is_challenge: boolean | undefined
    while (this.message_left > 0) {
      const type = yield* this.number(2, 0, 0xffff)
      check(type !== ALPN || is_challenge === undefined)
      // The smallest list of protocols has one name of one byte.
      const size = yield* this.size(2, type === ALPN ? 4 : 0)
      if (type === ALPN) is_challenge = yield* this.protocols(size)
      else yield* this.pass(size)
    }
    return is_challenge ? 'challenge' : 'venue'
  }

  /** The list, which is all that its extension contains: is TLS-ALPN-01 its only name? */
  private *protocols(size: number): Steps<boolean> {
    let left = yield* this.number(2, size - 2, size - 2)
    let is_challenge = left === 1 + ACME_PROTOCOL.length
    while (left > 0) {
      const name_size = yield* this.number(1, 1, left - 1)
      left -= 1 + name_size
      if (!is_challenge || name_size !== ACME_PROTOCOL.length) {
        is_challenge = false
        yield* this.pass(name_size)
      } else
        for (const byte of ACME_PROTOCOL) if ((yield* this.number(1, 0, 0xff)) !== byte) is_challenge = false
    }
    return is_challenge
  }

  /** The size of a vector, which must end within the message. */
  private size(width: number, min: number, max = Number.POSITIVE_INFINITY): Steps<number> {
    return this.number(width, min, Math.min(max, this.message_left - width))
  }

  /** A number of `width` bytes, rejected as soon as no further bytes can bring it between its bounds. */
  private *number(width: number, min: number, max: number): Steps<number> {
    check(width <= this.message_left && min <= max)
    let value = 0
    for (let rest = 256 ** (width - 1); rest >= 1; rest /= 256) {
      if (this.record_left === 0) yield* this.header()
      value = value * 256 + (yield 0)
      this.take(1)
      check(value * rest <= max && (value + 1) * rest > min)
    }
    return value
  }

  private *pass(count: number): Steps<void> {
    check(count <= this.message_left)
    for (let left = count; left > 0; ) {
      if (this.record_left === 0) yield* this.header()
      const passed = yield Math.min(left, this.record_left)
      this.take(passed)
      left -= passed
    }
  }

  private take(count: number): void {
    this.record_left -= count
    this.message_left -= count
  }

  private *header(): Steps<void> {
    this.records += 1
    check((yield 0) === HANDSHAKE && this.records <= HELLO_RECORDS_MAX)
    check((yield 0) === 3)
    yield 0
    const high = (yield 0) << 8
    check(high <= RECORD_BYTES_MAX)
    this.record_left = high | (yield 0)
    check(this.record_left > 0)
    // A message is bounded as a record is, so this bounds the record too.
    this.checkRecordEnd()
  }

  /** No message may follow the ClientHello in its record: the client has to wait for the server's answer. */
  private checkRecordEnd(): void {
    check(this.record_left <= this.message_left)
  }
}

type Held = { network: Network; bytes: number }
/** The connections of one network, oldest first. */
type Network = { name: string; connections: Set<object>; bytes: number }
type Bounds = { connections: number; bytes: number }

/**
 * An IPv4 address, also where IPv6 maps it, or the first 64 bits of an IPv6 address: one customer has all addresses below
 * them. The text is a socket's, so equal bits have equal texts.
 */
export function networkOf(address: string): string {
  const ipv4 = address.replace(/^::ffff:/, '')
  if (!ipv4.includes(':')) return ipv4
  const [head, tail = []] = address.split('::').map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array<string>(8 - head!.length - tail.length).fill('0')
  return [...head!, ...zeros, ...tail].slice(0, 4).join(':')
}

export class Undecided<C extends object> {
  private readonly held = new Map<C, Held>()
  private readonly networks = new Map<string, Network>()
  private bytes_total = 0

  /** `drop` closes a connection that is already removed here. */
  constructor(
    private readonly bounds: Bounds,
    private readonly drop: (connection: C) => void,
  ) {}

  get count(): number {
    return this.held.size
  }

  get bytes(): number {
    return this.bytes_total
  }

  add(connection: C, address: string): void {
    const name = networkOf(address)
    const network = this.networks.get(name) ?? { name, connections: new Set(), bytes: 0 }
    this.networks.set(name, network)
    network.connections.add(connection)
    this.held.set(connection, { network, bytes: 0 })
    if (this.held.size > this.bounds.connections)
      this.dropOldest(({ connections }) => connections.size / this.bounds.connections)
  }

  /** Counts further bytes kept of the connection; it may be dropped for them. */
  keep(connection: C, bytes: number): void {
    const held = this.held.get(connection)
    if (held === undefined) return
    held.bytes += bytes
    held.network.bytes += bytes
    this.bytes_total += bytes
    while (this.bytes_total > this.bounds.bytes)
      this.dropOldest((network) => network.bytes / this.bounds.bytes)
  }

  remove(connection: C): void {
    const held = this.held.get(connection)
    if (held === undefined) return
    const { network, bytes } = held
    this.held.delete(connection)
    network.connections.delete(connection)
    network.bytes -= bytes
    this.bytes_total -= bytes
    if (network.connections.size === 0) this.networks.delete(network.name)
  }

  /** The search visits at most as many networks as there are connections, and runs only at a bound. */
  private dropOldest(shareOf: (network: Network) => number): void {
    let [largest, share] = [undefined as Network | undefined, NETWORK_SHARE]
    for (const network of this.networks.values())
      if (shareOf(network) > share) [largest, share] = [network, shareOf(network)]
    const [oldest] = (largest?.connections as Set<C> | undefined) ?? this.held.keys()
    this.remove(oldest!)
    this.drop(oldest!)
  }
}

export type ChallengeAnswer = { cert_pem: string; key_pem: string }
export type FrontBounds = { total: number; connections: number; bytes: number; hello_ms: number }
export type Front = {
  /** Stops accepting; resolves when every accepted connection is forwarded or closed. Forwarded ones stay open. */
  close(): Promise<void>
}

/** Counts the open connections of all fronts of a listener, by network. */
export class Accepted {
  private readonly networks = new Map<string, number>()
  private count = 0

  /** Returns the function that ends the count of an admitted connection; undefined for one beyond `total` or its share. */
  admit(address: string, total: number): (() => void) | undefined {
    const network = networkOf(address)
    const own = this.networks.get(network) ?? 0
    const is_surplus = this.count >= total * SHARE_FREE && own >= total * NETWORK_SHARE
    if (this.count >= total || is_surplus) return undefined
    this.add(network, 1)
    return () => this.add(network, -1)
  }

  private add(network: string, change: 1 | -1): void {
    const count = (this.networks.get(network) ?? 0) + change
    this.count += change
    if (count === 0) this.networks.delete(network)
    else this.networks.set(network, count)
  }
}

/**
 * Shares the port with the listener that it replaces.
 * @param accepted the open connections of this front and of the listener's earlier ones
 */
export async function openFront(
  at: { hostname: string; port: number },
  venue_port: number,
  answer: ChallengeAnswer,
  accepted: Accepted,
  bounds: FrontBounds = FRONT_BOUNDS,
): Promise<Front> {
  const challenge = createTlsServer({
    cert: answer.cert_pem,
    key: answer.key_pem,
    ALPNProtocols: ['acme-tls/1'],
  })
  // The authority needs only the handshake.
  challenge.on('secureConnection', (socket) => socket.end())
  challenge.on('tlsClientError', () => undefined)
  await listening(challenge, { host: '127.0.0.1', port: 0 })
  const targets = {
    venue: venue_port,
    challenge: (challenge.address() as AddressInfo).port,
    hello_ms: bounds.hello_ms,
  }

  const undecided = new Undecided<Socket>(bounds, (client) => client.destroy())
  const pending = new Set<Promise<void>>()
  const server = createServer({ allowHalfOpen: true }, (client) => {
    // The runtime's `maxConnections` would not count the connections of earlier fronts.
    const end = accepted.admit(client.remoteAddress ?? '', bounds.total)
    if (end === undefined) return client.destroy()
    client.once('close', end)
    const joined = accept(client, undecided, targets)
    pending.add(joined)
    void joined.then(() => pending.delete(joined))
  })
  try {
    await listening(server, { host: at.hostname, port: at.port, reusePort: true })
  } catch (error) {
    challenge.close()
    throw error
  }
  return {
    async close() {
      server.close()
      await Promise.all(pending)
      challenge.close()
    },
  }
}

function listening(server: Server, options: object): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => resolve())
  })
}

/** Resolves when the connection is forwarded to the venue, or closed. */
function accept(
  client: Socket,
  undecided: Undecided<Socket>,
  targets: { venue: number; challenge: number; hello_ms: number },
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  // An absolute deadline: each segment would prolong an idle one.
  const deadline = setTimeout(() => client.destroy(), targets.hello_ms)
  const settle = () => {
    clearTimeout(deadline)
    undecided.remove(client)
  }
  client.on('error', () => client.destroy())
  client.on('close', () => {
    settle()
    resolve()
  })
  undecided.add(client, client.remoteAddress ?? '')
  readHello(client, {
    kept: (bytes) => undecided.keep(client, bytes),
    decided(port_of, first) {
      if (port_of === 'challenge') {
        // Deadline and place last until the connection closes: the handshake is all that it is for.
        join(client, targets.challenge, first, () => undefined)
        return
      }
      settle()
      join(client, targets.venue, first, resolve)
    },
  })
  return promise
}

type Decision = {
  kept(bytes: number): void
  /** The client is paused and `first` contains all that it sent. */
  decided(port_of: 'venue' | 'challenge', first: Uint8Array[]): void
}

/** Reads until the ClientHello is complete; closes a connection that sends none. */
function readHello(client: Socket, { kept, decided }: Decision): void {
  const reader = new HelloReader()
  const held = new HeldBytes()
  let segments = 0
  let pause: Timer | undefined
  const end = () => client.destroy()
  const read = (part: Buffer) => {
    const verdict = reader.read(part)
    if (verdict === 'malformed') return end()
    if (verdict === 'more') {
      kept(held.push(part))
      segments += 1
      if (segments < HELLO_SEGMENTS_FREE) return
      client.pause()
      clearTimeout(pause)
      pause = setTimeout(() => client.resume(), HELLO_READ_MS)
      return
    }
    clearTimeout(pause)
    client.off('data', read)
    // From here on an end is forwarded.
    client.off('end', end)
    client.pause()
    decided(verdict, [...held.take(), part])
  }
  client.on('data', read)
  client.on('end', end)
  client.on('close', () => clearTimeout(pause))
}

const BLOCK_BYTES = 2_048

/** Copies segments into blocks, once each: kept as they are, segments of one byte would cost an object each. */
class HeldBytes {
  private full: Uint8Array[] = []
  private last = new Uint8Array(0)
  private used = 0

  /** @returns the bytes allocated for the segment. */
  push(part: Uint8Array): number {
    let [at, allocated] = [0, 0]
    while (at < part.length) {
      if (this.used === this.last.length) allocated += this.grow()
      const fitting = part.subarray(at, at + this.last.length - this.used)
      this.last.set(fitting, this.used)
      this.used += fitting.length
      at += fitting.length
    }
    return allocated
  }

  /** Keeps nothing: the connection may stay open for hours. */
  take(): Uint8Array[] {
    const blocks = [...this.full, this.last.subarray(0, this.used)]
    this.full = []
    this.last = new Uint8Array(0)
    return blocks
  }

  private grow(): number {
    if (this.used > 0) this.full.push(this.last)
    this.last = new Uint8Array(BLOCK_BYTES)
    this.used = 0
    return BLOCK_BYTES
  }
}

/** Passes bytes on in both directions, `first` before them; each side waits for the other to accept them. Empties `first`. */
function join(client: Socket, port: number, first: Uint8Array[], joined: () => void): void {
  const inner = tcpConnect({ host: '127.0.0.1', port, allowHalfOpen: true }, () => {
    for (const part of first.splice(0)) if (part.length > 0) inner.write(part)
    inner.pipe(client)
    client.pipe(inner)
  })
  // Only an answer proves that the listener accepted: a connection in its backlog would close with it.
  inner.once('data', joined)
  client.setNoDelay(true)
  inner.setNoDelay(true)
  inner.on('error', () => client.destroy())
  let linger: Timer | undefined
  inner.on('close', () => {
    joined()
    if (client.destroyed) return
    client.destroySoon()
    // A client that does not read the last bytes is not kept longer than an idle one.
    linger = setTimeout(() => client.destroy(), IDLE_S * 1_000)
    linger.unref()
  })
  client.on('close', () => {
    clearTimeout(linger)
    inner.destroy()
  })
}
