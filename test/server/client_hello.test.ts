/** First bytes of TLS connections: the protocols they offer are read, and nothing makes the reader fail. */
import { expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { connect } from 'node:tls'
import fc from 'fast-check'
import { protocolsOffered } from '../../server/tls/client_hello'

/** What a client of this runtime sends first. */
function helloOf(ALPNProtocols: string[]): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      let seen = Buffer.alloc(0)
      socket.on('data', (part: Buffer) => {
        seen = Buffer.concat([seen, part])
        if (protocolsOffered(seen) === 'more') return
        resolve(seen)
        socket.destroy()
        server.close()
      })
    })
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      const named = ALPNProtocols.length === 0 ? {} : { ALPNProtocols }
      const client = connect({ port, host: '127.0.0.1', servername: 'venue.example.org', ...named })
      client.on('error', () => undefined)
    })
    server.on('error', reject)
  })
}

test('the protocols of a real client are read, in its order', async () => {
  for (const offered of [['acme-tls/1'], ['h2', 'http/1.1'], ['acme-tls/1', 'http/1.1'], []])
    expect(protocolsOffered(await helloOf(offered))).toEqual(offered)
})

test('every cut before the end asks for more', async () => {
  const hello = await helloOf(['acme-tls/1'])
  for (let length = 0; length < hello.length; length += 1)
    expect(protocolsOffered(hello.subarray(0, length))).toBe('more')
})

test('a hello in several records is put together', async () => {
  const hello = await helloOf(['acme-tls/1'])
  const records: Buffer[] = []
  for (let at = 5; at < hello.length; at += 100) {
    const part = hello.subarray(at, Math.min(at + 100, hello.length))
    records.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 0xff]), part)
  }
  expect(protocolsOffered(Buffer.concat(records))).toEqual(['acme-tls/1'])
})

test('what is no hello is told apart at once', () => {
  for (const text of ['GET / HTTP/1.1\r\n', 'PROXY TCP4 ', '\x16\x03\x01\x00\x01\x02'])
    expect(protocolsOffered(Buffer.from(text, 'latin1'))).toBeUndefined()
})

test('no bytes make the reader throw, and none make it wait for ever', async () => {
  const hello = await helloOf(['acme-tls/1'])
  const damage = fc.record({ at: fc.nat(hello.length - 1), byte: fc.nat(255) })
  fc.assert(
    fc.property(fc.array(damage, { minLength: 1, maxLength: 8 }), (damages) => {
      const bytes = Buffer.from(hello)
      for (const { at, byte } of damages) bytes[at] = byte
      const read = protocolsOffered(Buffer.concat([bytes, Buffer.alloc(40_000, 22)]))
      expect(read).not.toBe('more')
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => void protocolsOffered(Buffer.from(bytes))),
  )
})
