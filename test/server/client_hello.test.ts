/** First bytes of TLS connections: the verdict does not depend on segments, and work and memory are linear and bounded. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { HELLO_BYTES_MAX, HELLO_RECORDS_MAX } from '../../server/limits'
import { HelloReader } from '../../server/tls/challenge_front'
import {
  anyFields,
  type HelloFields,
  helloMessage,
  opensslHello,
  readWhole,
  recordsOf,
  runtimeHello,
  verdictOf,
} from '../kit/server/client_hellos'

const PLAIN: HelloFields = {
  session: 32,
  suites: 3,
  methods: 1,
  extensions: [],
  names: undefined,
  names_at: 0,
}
const CHALLENGE: HelloFields = { ...PLAIN, names: ['acme-tls/1'] }
const verdict = (bytes: ArrayLike<number>) => new HelloReader().read(bytes)
const whole = (fields: HelloFields) => recordsOf(helloMessage(fields), [16_384])

/** Bytes that count how often they are read, and throw beyond their end. */
function counted(bytes: Uint8Array) {
  const count = { reads: 0 }
  const part = (from: number, to = bytes.length): ArrayLike<number> =>
    new Proxy({} as ArrayLike<number>, {
      get(_, key) {
        if (key === 'length') return to - from
        const at = Number(key)
        if (!(at >= 0 && at < to - from)) throw new RangeError(`read at ${String(key)}`)
        count.reads += 1
        return bytes[from + at]
      },
    })
  return { count, part }
}

test('the protocols of real clients decide', async () => {
  for (const capture of Bun.which('openssl') === null ? [runtimeHello] : [runtimeHello, opensslHello]) {
    expect(verdict(await capture(['acme-tls/1']))).toBe('challenge')
    for (const offered of [['h2', 'http/1.1'], ['acme-tls/1', 'http/1.1'], ['http/1.1'], []])
      expect(verdict(await capture(offered))).toBe('venue')
  }
})

test('a real hello gives the same verdict at every split, and asks for more before its end', async () => {
  const captured = [await runtimeHello(['acme-tls/1']), await runtimeHello([])]
  if (Bun.which('openssl') !== null) captured.push(await opensslHello(['h2']))
  for (const hello of captured) {
    const expected = verdict(hello)
    for (let cut = 0; cut < hello.length; cut += 1) {
      const reader = new HelloReader()
      expect(reader.read(hello.subarray(0, cut))).toBe('more')
      expect(reader.read(hello.subarray(cut))).toBe(expected)
    }
  }
})

test('hellos of any fields, in any records and segments, are decided at their last byte', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 8 })
  const cuts = fc.array(fc.nat(), { maxLength: 12 })
  fc.assert(
    fc.property(anyFields, sizes, cuts, (fields, record_sizes, wanted) => {
      const hello = recordsOf(helloMessage(fields), [...record_sizes, 16_384])
      const expected = verdictOf(fields)
      expect(verdict(hello)).toBe(expected)
      expect(verdict(hello.subarray(0, -1))).toBe('more')
      const at = [...wanted.map((cut) => cut % hello.length), hello.length].sort((a, b) => a - b)
      const reader = new HelloReader()
      let from = 0
      for (const to of at) {
        const { part } = counted(hello)
        expect(reader.read(part(from, to))).toBe(to === hello.length ? expected : 'more')
        from = to
      }
    }),
    { numRuns: 1_000 },
  )
})

test('every split of one hello in one-byte records and in one record agrees', () => {
  const message = helloMessage({ ...CHALLENGE, session: 0, suites: 1 })
  expect(message.length).toBeLessThanOrEqual(HELLO_RECORDS_MAX + 5)
  for (const sizes of [[1, 1, 1, 1, 16_384], [16_384], [40, 1]]) {
    const hello = recordsOf(message, sizes)
    for (let first = 0; first <= hello.length; first += 1)
      for (let second = first; second <= hello.length; second += 7) {
        const reader = new HelloReader()
        reader.read(hello.subarray(0, first))
        reader.read(hello.subarray(first, second))
        expect(reader.read(hello.subarray(second))).toBe('challenge')
      }
  }
})

test('a byte is read once, for any segments', async () => {
  const long = { ...PLAIN, extensions: [{ type: 21, size: 16_000 }] }
  for (const hello of [await runtimeHello(['acme-tls/1']), recordsOf(helloMessage(long), [260])])
    for (const size of [1, 2, 5, 64, hello.length]) {
      const { count, part } = counted(hello)
      const reader = new HelloReader()
      let last = 'more'
      for (let at = 0; at < hello.length; at += size)
        last = reader.read(part(at, Math.min(at + size, hello.length)))
      expect(last).not.toBe('more')
      expect(count.reads).toBeLessThanOrEqual(hello.length)
    }
})

test('every mutation of one byte is decided within bounds, at its place in every segmentation', async () => {
  const hello = await runtimeHello(['acme-tls/1'])
  const wrong: string[] = []
  for (let at = 0; at < hello.length; at += 1)
    for (let byte = 0; byte < 256; byte += 1) {
      const bytes = Buffer.from(hello)
      bytes[at] = byte
      const expected = verdict(bytes)
      if (byte % 16 !== at % 16) continue
      const { count, part } = counted(bytes)
      const reader = new HelloReader()
      for (let from = 0; from < bytes.length; from += 7)
        reader.read(part(from, Math.min(from + 7, bytes.length)))
      if (count.reads > bytes.length) wrong.push(`${at} = ${byte}: read ${count.reads}`)
      if (reader.read([]) !== expected) wrong.push(`${at} = ${byte}: ${expected}`)
    }
  expect(wrong).toEqual([])
})

test('no bytes make the reader throw, and none keep it waiting beyond its bounds', async () => {
  const hello = await runtimeHello(['acme-tls/1'])
  const damage = fc.record({ at: fc.nat(hello.length - 1), byte: fc.nat(255) })
  const tail = Buffer.alloc(40_000, 22)
  fc.assert(
    fc.property(fc.array(damage, { minLength: 1, maxLength: 8 }), (damages) => {
      const bytes = Buffer.concat([hello, tail])
      for (const { at, byte } of damages) bytes[at] = byte
      expect(verdict(bytes)).not.toBe('more')
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => void verdict(bytes)),
    { numRuns: 2_000 },
  )
})

test('every value of every byte gives the verdict of a reader of the whole message', async () => {
  const alone = { ...CHALLENGE, session: 0, suites: 1 }
  const second = { type: 16, size: 13 }
  const shapes: HelloFields[] = [
    PLAIN,
    CHALLENGE,
    { ...PLAIN, session: 0, suites: 1, extensions: undefined },
    { ...alone, extensions: [{ type: 21, size: 0 }] },
    { ...alone, extensions: [{ type: 17, size: 13 }, second], names_at: 1 },
    { ...alone, names: ['a', 'bc'], extensions: [{ type: 43, size: 1 }], names_at: 1 },
    { ...alone, methods: 3, names: ['acme-tls/1', 'x'] },
  ]
  const tail = Buffer.alloc(20_000, 22)
  for (const hello of [await runtimeHello(['acme-tls/1']), ...shapes.map(whole)]) {
    const bytes = Buffer.concat([hello, tail])
    for (let at = 0; at < hello.length; at += 1) {
      for (let byte = 0; byte < 256; byte += 1) {
        bytes[at] = byte
        const expected = readWhole(bytes.subarray(0, hello.length))
        if (verdict(bytes) !== expected) expect([at, byte, verdict(bytes)]).toEqual([at, byte, expected])
      }
      bytes[at] = hello[at]!
    }
  }
}, 180_000)

/** Where the reader decides: the number of bytes that it needed. */
function decidedAfter(bytes: Uint8Array): number {
  const reader = new HelloReader()
  for (let at = 0; at < bytes.length; at += 1)
    if (reader.read(bytes.subarray(at, at + 1)) === 'malformed') return at + 1
  return Number.POSITIVE_INFINITY
}

test('other protocols are rejected at the first byte that differs', () => {
  const rows: [bytes: number[], after: number][] = [
    [[...Buffer.from('GET / HTTP/1.1')], 1],
    [[21, 3, 1, 0, 2, 2, 40], 1],
    [[22, 2], 2],
    [[22, 3, 1, 0, 0], 5],
    [[22, 3, 1, 0x40, 1], 5],
    [[22, 3, 1, 0x41], 4],
    [[22, 3, 1, 0, 1, 2], 6],
    [[22, 3, 1, 0, 9, 1, 1], 7],
    [[22, 3, 1, 0, 9, 1, 0, 0x40], 8],
    [[22, 3, 1, 0, 50, 1, 0, 0, 40], 9],
    [[22, 3, 1, 0, 50, 1, 0, 0, 200, 2], 10],
    // A record in which bytes follow the message.
    [[22, 3, 1, 0, 200, 1, 0, 0, 100], 9],
    [[22, 3, 1, 0, 4, 1, 0, 0, 100, 22, 3, 1, 0, 101], 14],
    [[22, 3, 1, 0, 46, 1, 0, 0, 41], 9],
    [[22, 3, 1, 0, 45, 1, 0, 0, 41, 4], 10],
    [[22, 3, 1, 0, 4, 1, 0, 0, 41, 22, 3, 1, 0, 0], 14],
    [[22, 3, 1, 0, 4, 1, 0, 0x3f, 0xfd], 9],
    [[22, 3, 1, 0, 1, 1, 21], 7],
    [[22, 3, 1, 0, 1, 1, 22, 2], 8],
  ]
  for (const [bytes, after] of rows) expect(decidedAfter(Uint8Array.from([...bytes, 255]))).toBe(after)
})

/** Changes bytes of the message, counted from its start. */
function changed(fields: HelloFields, at: number, ...bytes: number[]): Buffer {
  const message = helloMessage(fields)
  message.set(bytes, at)
  return recordsOf(message, [16_384])
}

test('sizes that do not fit are rejected', () => {
  const session = 4 + 2 + 32
  const suites = session + 1 + 32
  const methods = suites + 2 + 6
  const extensions = methods + 2
  const alpn = extensions + 2
  const list = alpn + 4
  expect(verdict(whole(CHALLENGE))).toBe('challenge')
  const rows: [at: number, ...bytes: number[]][] = [
    [session, 33],
    [suites, 0, 5],
    // Half a suite, behind which the rest fits again.
    [suites, 0, 5, 0, 0, 0, 0, 0, 2],
    [suites, 0, 0],
    [suites, 0xff, 0xfe],
    [methods, 0],
    [methods, 200],
    [extensions, 0, 1],
    [extensions, 0, 200],
    [alpn + 2, 0, 14],
    [alpn + 2, 0, 12],
    [list, 0, 10],
    [list, 0, 12],
    [list + 2, 0],
    [list + 2, 9],
    [list + 2, 11],
  ]
  for (const row of rows) expect([row, verdict(changed(CHALLENGE, ...row))]).toEqual([row, 'malformed'])
})

/** The message of PLAIN with these bytes as its extensions. */
function withExtensions(...bytes: number[]): Buffer {
  const message = [...helloMessage(PLAIN).subarray(0, -1), bytes.length, ...bytes]
  message[3] = message.length - 4
  return recordsOf(Uint8Array.from(message), [16_384])
}

test('vectors of a forbidden size are rejected where the rest of the message fits them', () => {
  const name = [...Buffer.from('acme-tls/1')]
  const challenge = [0, 16, 0, 13, 0, 11, 10, ...name]
  expect(verdict(withExtensions(...challenge))).toBe('challenge')
  expect(verdict(whole({ ...PLAIN, session: 33 }))).toBe('malformed')
  expect(verdict(whole({ ...PLAIN, suites: 0 }))).toBe('malformed')
  expect(verdict(whole({ ...PLAIN, methods: 0 }))).toBe('malformed')
  for (const names of [[''], ['', 'acme-tls/1'], ['acme-tls/1', '']])
    expect(verdict(whole({ ...PLAIN, names }))).toBe('malformed')
  // A name of one byte more than its list, and the next extension behind that byte.
  const longer = [0, 16, 0, 13, 0, 11, 11, ...name, 0]
  expect(verdict(withExtensions(...longer, 0, 21, 0, 0))).toBe('malformed')
})

test('a vector is rejected before its first byte where none fits', () => {
  const start = withExtensions().length
  // The smallest protocol list has six bytes with its size; one byte is no type of an extension.
  expect(decidedAfter(withExtensions(0, 16, 0, 3, 0, 1, 0))).toBe(start + 2)
  expect(decidedAfter(withExtensions(0, 21, 0, 0, 0))).toBe(start + 4)
  expect(decidedAfter(Uint8Array.of(22, 3, 1, 0, 44, 1, 0, 0, 40))).toBe(9)
})

test('one protocol list at most, and a list that only begins like the challenge is none', () => {
  const twice = { ...CHALLENGE, extensions: [{ type: 16, size: 13 }] }
  expect(verdict(whole(twice))).toBe('malformed')
  const once = { ...CHALLENGE, extensions: [{ type: 21, size: 13 }] }
  const message = helloMessage(once)
  message.copyWithin(message.length - 17, message.length - 34, message.length - 17)
  expect(verdict(whole(once))).toBe('challenge')
  expect(verdict(recordsOf(message, [16_384]))).toBe('malformed')
  for (const names of [
    ['acme-', 'tls/1'],
    ['acme', 'acme-'],
    ['acme-tls/2'],
    ['acme-tls/1', 'acme-tls/1'],
    ['x'],
  ])
    expect(verdict(whole({ ...PLAIN, names }))).toBe('venue')
  expect(verdict(whole({ ...PLAIN, extensions: undefined }))).toBe('venue')
  // Five and four bytes fill a list of eleven like one name of ten.
  expect(verdict(whole({ ...PLAIN, names: ['acme-', 'acme'] }))).toBe('venue')
})

test('the bounds are reached and not exceeded', () => {
  const fixed = helloMessage(PLAIN).length + 4
  const filled = (size: number) => helloMessage({ ...PLAIN, extensions: [{ type: 21, size: size - fixed }] })
  const largest = filled(HELLO_BYTES_MAX)
  expect(verdict(recordsOf(largest, [16_384]))).toBe('venue')
  expect(verdict(recordsOf(largest, [HELLO_BYTES_MAX / HELLO_RECORDS_MAX]))).toBe('venue')
  expect(decidedAfter(recordsOf(filled(HELLO_BYTES_MAX + 1), [16_384]))).toBe(5 + 4)
  const small = filled(HELLO_RECORDS_MAX + 60)
  expect(verdict(recordsOf(small, [...Array(HELLO_RECORDS_MAX - 1).fill(1), 16_384]))).toBe('venue')
  const one_more = recordsOf(small, [...Array(HELLO_RECORDS_MAX).fill(1), 16_384])
  expect(decidedAfter(one_more)).toBe(HELLO_RECORDS_MAX * 6 + 1)
})
