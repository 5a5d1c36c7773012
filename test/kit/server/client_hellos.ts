/** ClientHellos for tests: built from fields, and captured from a client of this runtime and from openssl. */
import { createServer } from 'node:net'
import { connect } from 'node:tls'
import fc from 'fast-check'

export type HelloFields = {
  session: number
  suites: number
  methods: number
  /** Undefined: the message ends without extensions. */
  extensions: { type: number; size: number }[] | undefined
  /** Undefined: no ALPN extension. */
  names: string[] | undefined
  /** Extensions before the ALPN extension. */
  names_at: number
}

const u16 = (value: number) => [value >> 8, value & 0xff]
const filler = (count: number) => Array.from({ length: count }, (_, at) => (at * 7) & 0xff)
const vector8 = (bytes: number[]) => [bytes.length, ...bytes]
const vector16 = (bytes: number[]) => [...u16(bytes.length), ...bytes]

/** The handshake message, without records. */
export function helloMessage(fields: HelloFields): Uint8Array {
  const extensions = fields.extensions?.map(({ type, size }) => [...u16(type), ...vector16(filler(size))])
  if (extensions !== undefined && fields.names !== undefined) {
    const list = fields.names.flatMap((name) => vector8([...Buffer.from(name, 'latin1')]))
    extensions.splice(fields.names_at, 0, [0, 16, ...vector16(vector16(list))])
  }
  const body = [
    ...[3, 3],
    ...filler(32),
    ...vector8(filler(fields.session)),
    ...vector16(filler(fields.suites * 2)),
    ...vector8(filler(fields.methods)),
    ...(extensions === undefined ? [] : vector16(extensions.flat())),
  ]
  return Uint8Array.from([1, 0, ...u16(body.length), ...body])
}

/** Cuts a message into records of the given sizes; the last size repeats. */
export function recordsOf(message: Uint8Array, sizes: readonly number[]): Buffer {
  const parts: Uint8Array[] = []
  for (let at = 0, index = 0; at < message.length; index += 1) {
    const part = message.subarray(at, at + sizes[Math.min(index, sizes.length - 1)]!)
    parts.push(Uint8Array.from([22, 3, 1, ...u16(part.length)]), part)
    at += part.length
  }
  return Buffer.concat(parts)
}

const name = fc.oneof(
  fc.constantFrom('acme-tls/1', 'h2', 'http/1.1', 'acme-tls/2', 'acme-', 'tls/'),
  fc.string({ minLength: 1, maxLength: 20 }),
)

export const anyFields: fc.Arbitrary<HelloFields> = fc.record({
  session: fc.nat(32),
  suites: fc.integer({ min: 1, max: 40 }),
  methods: fc.integer({ min: 1, max: 4 }),
  extensions: fc.option(
    fc.array(fc.record({ type: fc.integer({ min: 17, max: 0xffff }), size: fc.nat(60) }), { maxLength: 6 }),
    { nil: undefined, freq: 12 },
  ),
  names: fc.option(fc.array(name, { minLength: 1, maxLength: 4 }), { nil: undefined }),
  names_at: fc.nat(6),
})

/** The result of a reader of the whole message. */
export function verdictOf({ extensions, names }: HelloFields): 'challenge' | 'venue' {
  const is_challenge = extensions !== undefined && names?.length === 1 && names[0] === 'acme-tls/1'
  return is_challenge ? 'challenge' : 'venue'
}

/** A second reader, of the whole message at once: the verdict for a valid ClientHello in one record, else `malformed`. */
export function readWhole(bytes: Uint8Array): 'challenge' | 'venue' | 'malformed' {
  const [record, message] = [bytes.subarray(5), bytes.subarray(9)]
  const view = Buffer.from(bytes)
  let at = 0
  const vector = (width: 1 | 2, of = message) => {
    const start = at + width
    if (start > of.length) throw new RangeError()
    const size = Buffer.from(of).readUIntBE(at, width)
    at = start + size
    if (at > of.length) throw new RangeError()
    return of.subarray(start, at)
  }
  try {
    const header = bytes[0] === 22 && bytes[1] === 3 && view.readUInt16BE(3) === record.length
    const handshake = record[0] === 1 && view.readUIntBE(6, 3) === message.length && message[0] === 3
    if (!header || !handshake || record.length > 16_384) return 'malformed'
    at = 34
    if (vector(1).length > 32) return 'malformed'
    const suites = vector(2).length
    if (suites === 0 || suites % 2 !== 0 || vector(1).length === 0) return 'malformed'
    if (at === message.length) return 'venue'
    const extensions = vector(2)
    if (at !== message.length) return 'malformed'
    const lists: Uint8Array[] = []
    for (at = 0; at < extensions.length; ) {
      const is_protocols = Buffer.from(extensions).readUInt16BE(at) === 16
      at += 2
      const extension = vector(2, extensions)
      if (is_protocols) lists.push(extension)
    }
    if (lists.length === 0) return 'venue'
    at = 0
    const list = vector(2, lists[0])
    if (lists.length > 1 || at !== lists[0]!.length || list.length === 0) return 'malformed'
    const names: string[] = []
    for (at = 0; at < list.length; ) names.push(Buffer.from(vector(1, list)).toString('latin1'))
    if (names.includes('')) return 'malformed'
    return names.join() === 'acme-tls/1' ? 'challenge' : 'venue'
  } catch (error) {
    if (error instanceof RangeError) return 'malformed'
    throw error
  }
}

/** The first bytes that a client sends to a socket that never answers. */
function firstBytes(open: (port: number) => () => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      let seen = Buffer.alloc(0)
      socket.on('error', () => undefined)
      socket.on('data', (part: Buffer) => {
        seen = Buffer.concat([seen, part])
        if (seen.length < 5 || seen.length < 5 + seen.readUInt16BE(3)) return
        closeClient?.()
        socket.destroy()
        server.close()
        resolve(seen)
      })
    })
    let closeClient: (() => void) | undefined
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      closeClient = open((server.address() as { port: number }).port)
    })
  })
}

/** From `node:tls` of this runtime. */
export function runtimeHello(ALPNProtocols: string[]): Promise<Buffer> {
  return firstBytes((port) => {
    const named = ALPNProtocols.length === 0 ? {} : { ALPNProtocols }
    const client = connect({ port, host: '127.0.0.1', servername: 'venue.example.org', ...named })
    client.on('error', () => undefined)
    return () => client.destroy()
  })
}

/** From `openssl s_client`. */
export function opensslHello(protocols: string[]): Promise<Buffer> {
  return firstBytes((port) => {
    const named = protocols.length === 0 ? [] : ['-alpn', protocols.join(',')]
    const at = ['-connect', `127.0.0.1:${port}`, '-servername', 'venue.example.org']
    const client = Bun.spawn(['openssl', 's_client', ...at, ...named], {
      stdio: ['ignore', 'ignore', 'ignore'],
    })
    return () => client.kill()
  })
}
