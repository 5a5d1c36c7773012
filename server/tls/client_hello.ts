/** Reads the protocols that a TLS client offers (ALPN, RFC 7301) from its first bytes. */

import { HELLO_BYTES_MAX } from '../limits'

const [HANDSHAKE, CLIENT_HELLO, ALPN] = [22, 1, 16]

/**
 * @returns the protocols, empty when the client offers none; `more` when the bytes are incomplete; undefined when they are no
 * ClientHello (RFC 8446 section 4.1.2).
 */
export function protocolsOffered(bytes: Buffer): string[] | 'more' | undefined {
  const hello = helloOf(bytes)
  if (hello === 'more' || hello === undefined) return hello
  try {
    const reader = new Reader(hello)
    reader.skip(2 + 32)
    reader.vector(1)
    reader.vector(2)
    reader.vector(1)
    const extensions = new Reader(reader.vector(2))
    while (!extensions.done) {
      const type = extensions.number(2)
      const content = extensions.vector(2)
      if (type === ALPN) return namesOf(content)
    }
    return []
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** The message, reassembled from its records. */
function helloOf(bytes: Buffer): Buffer | 'more' | undefined {
  const parts: Buffer[] = []
  let [at, held] = [0, 0]
  while (at + 5 <= bytes.length) {
    if (bytes[at] !== HANDSHAKE) return undefined
    const length = bytes.readUInt16BE(at + 3)
    const part = bytes.subarray(at + 5, at + 5 + length)
    parts.push(part)
    held += part.length
    at += 5 + length
    const message = Buffer.concat(parts)
    if (message.length > 0 && message[0] !== CLIENT_HELLO) return undefined
    if (message.length < 4) continue
    const wanted = message.readUIntBE(1, 3)
    if (wanted > HELLO_BYTES_MAX) return undefined
    if (held >= 4 + wanted) return message.subarray(4, 4 + wanted)
  }
  if (bytes.length > 0 && bytes[0] !== HANDSHAKE) return undefined
  return bytes.length > 2 * HELLO_BYTES_MAX ? undefined : 'more'
}

function namesOf(content: Buffer): string[] {
  const list = new Reader(new Reader(content).vector(2))
  const names: string[] = []
  while (!list.done) names.push(list.vector(1).toString('latin1'))
  return names
}

/** @throws RangeError past the end. */
class Reader {
  private at = 0
  constructor(private readonly bytes: Buffer) {}

  get done(): boolean {
    return this.at >= this.bytes.length
  }
  skip(length: number): void {
    if (this.at + length > this.bytes.length) throw new RangeError('past the end')
    this.at += length
  }
  number(width: 1 | 2): number {
    this.skip(width)
    return this.bytes.readUIntBE(this.at - width, width)
  }
  /** A length of `width` bytes, then that many bytes. */
  vector(width: 1 | 2): Buffer {
    const length = this.number(width)
    this.skip(length)
    return this.bytes.subarray(this.at - length, this.at)
  }
}
