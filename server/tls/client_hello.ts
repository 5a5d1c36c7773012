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

type Field =
  | 'type'
  | 'length'
  | 'version'
  | 'random'
  | 'session_size'
  | 'session'
  | 'suites_size'
  | 'suites'
  | 'methods_size'
  | 'methods'
  | 'extensions_size'
  | 'extension_type'
  | 'extension_size'
  | 'extension'
  | 'list_size'
  | 'name_size'
  | 'name'

export class HelloReader {
  private verdict: HelloVerdict = 'more'
  private records = 0
  private header_at = 0
  private record_size = 0
  /** Bytes of the record, and of the message, that are still to come. */
  private record_left = 0
  private message_left = HELLO_BYTES_MAX

  private field: Field = 'type'
  /** Bytes of the field that are still to come. */
  private field_left = 1
  private is_number = true
  private value = 0
  private min = CLIENT_HELLO
  private max = CLIENT_HELLO

  private extension_type = 0
  private alpn_seen = false
  private list_left = 0
  private name_at = 0
  private is_challenge = false

  /** Continues with the next bytes of the connection. After a verdict it reads nothing and repeats it. */
  read(part: ArrayLike<number>): HelloVerdict {
    let at = 0
    while (this.verdict === 'more' && at < part.length) {
      if (this.record_left === 0) this.readHeader(part[at++]!)
      else if (this.is_number) this.readNumber(part[at++]!)
      else at += this.pass(part, at)
    }
    return this.verdict
  }

  private readHeader(byte: number): void {
    const at = this.header_at
    this.header_at = (at + 1) % 5
    if (at === 0) {
      this.records += 1
      if (byte !== HANDSHAKE || this.records > HELLO_RECORDS_MAX) this.verdict = 'malformed'
    } else if (at === 1) {
      if (byte !== 3) this.verdict = 'malformed'
    } else if (at === 3) {
      this.record_size = byte << 8
      if (this.record_size > RECORD_BYTES_MAX) this.verdict = 'malformed'
    } else if (at === 4) {
      this.record_left = this.record_size | byte
      if (this.record_left === 0) this.verdict = 'malformed'
      // A message is bounded as a record is, so this bounds the record too.
      this.checkRecordEnd()
    }
  }

  /** No message may follow the ClientHello in its record: the client has to wait for the server's answer. */
  private checkRecordEnd(): void {
    if (this.record_left > this.message_left) this.verdict = 'malformed'
  }

  /** Rejects a number as soon as no further bytes can bring it between its bounds. */
  private readNumber(byte: number): void {
    this.take(1)
    this.value = this.value * 256 + byte
    const rest = 256 ** this.field_left
    const is_possible = this.value * rest <= this.max && (this.value + 1) * rest > this.min
    if (!is_possible) this.verdict = 'malformed'
    else if (this.field_left === 0) this.endNumber(this.value)
  }

  /** Passes over bytes of the current field, of which only a protocol's name is looked at. */
  private pass(part: ArrayLike<number>, at: number): number {
    const count = Math.min(part.length - at, this.record_left, this.field_left)
    if (this.field === 'name' && this.is_challenge) {
      for (let index = at; index < at + count; index += 1)
        if (part[index] !== ACME_PROTOCOL[this.name_at++]) this.is_challenge = false
    }
    this.take(count)
    if (this.field_left === 0) this.endBytes()
    return count
  }

  private take(count: number): void {
    this.record_left -= count
    this.message_left -= count
    this.field_left -= count
  }

  /** A number of `width` bytes. */
  private number(field: Field, width: number, min: number, max: number): void {
    this.begin(field, width, true)
    if (min > max) this.verdict = 'malformed'
    this.value = 0
    this.min = min
    this.max = max
  }

  /** The size of a vector, which must end within the message. */
  private size(field: Field, width: number, min: number, max = Number.POSITIVE_INFINITY): void {
    this.number(field, width, min, Math.min(max, this.message_left - width))
  }

  private bytes(field: Field, count: number): void {
    this.begin(field, count, false)
    if (count === 0) this.endBytes()
  }

  private begin(field: Field, count: number, is_number: boolean): void {
    this.field = field
    this.field_left = count
    this.is_number = is_number
    if (count > this.message_left) this.verdict = 'malformed'
  }

  private endNumber(value: number): void {
    switch (this.field) {
      case 'type':
        this.size('length', 3, BODY_BYTES_MIN)
        break
      case 'length':
        this.message_left = value
        this.checkRecordEnd()
        this.number('version', 2, 0x0300, 0x03ff)
        break
      case 'version':
        this.bytes('random', 32)
        break
      case 'session_size':
        this.bytes('session', value)
        break
      case 'suites_size':
        if (value % 2 !== 0) this.verdict = 'malformed'
        this.bytes('suites', value)
        break
      case 'methods_size':
        this.bytes('methods', value)
        break
      case 'extension_type':
        this.beginExtension(value)
        break
      case 'extension_size':
        // The list is all that this extension contains.
        if (this.extension_type === ALPN) this.number('list_size', 2, value - 2, value - 2)
        else this.bytes('extension', value)
        break
      case 'list_size':
        this.is_challenge = value === 1 + ACME_PROTOCOL.length
        this.beginName(value)
        break
      case 'name_size':
        this.list_left -= value
        if (value !== ACME_PROTOCOL.length) this.is_challenge = false
        this.bytes('name', value)
        break
      default:
        this.next()
    }
  }

  private endBytes(): void {
    switch (this.field) {
      case 'random':
        this.size('session_size', 1, 0, 32)
        break
      case 'session':
        this.size('suites_size', 2, 2)
        break
      case 'suites':
        this.size('methods_size', 1, 1)
        break
      case 'methods':
        // Before TLS 1.3 the extensions may be absent; with them, they are the rest of the message.
        if (this.message_left === 0) this.end()
        else this.number('extensions_size', 2, this.message_left - 2, this.message_left - 2)
        break
      case 'name':
        if (this.list_left > 0) this.beginName(this.list_left)
        else this.next()
        break
      default:
        this.next()
    }
  }

  private next(): void {
    if (this.message_left === 0) this.end()
    else this.number('extension_type', 2, 0, 0xffff)
  }

  private beginExtension(type: number): void {
    this.extension_type = type
    if (type === ALPN && this.alpn_seen) this.verdict = 'malformed'
    this.alpn_seen ||= type === ALPN
    // The smallest list has one name of one byte.
    this.size('extension_size', 2, type === ALPN ? 4 : 0)
  }

  /** @param list_left of the list, from this name on. */
  private beginName(list_left: number): void {
    this.list_left = list_left - 1
    this.name_at = 0
    this.number('name_size', 1, 1, this.list_left)
  }

  private end(): void {
    this.verdict = this.is_challenge ? 'challenge' : 'venue'
  }
}
