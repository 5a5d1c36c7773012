/**
 * Reads a TLS ClientHello (RFC 8446 section 4.1.2) as its bytes arrive and decides whether TLS-ALPN-01 is the only protocol
 * that it offers (RFC 7301, RFC 8737). Anyone can send these bytes: the work per byte is constant, and no byte is kept.
 */

import { HELLO_BYTES_MAX, HELLO_RECORDS_MAX } from '../limits'

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
