/** An archive gives back what was written, up to its first block that is not whole, from a folder as from a mirror. */
import { afterAll, beforeEach, expect, test } from 'bun:test'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { Archive } from '../../../client/archive/archive'
import {
  type ArchivedTransaction,
  ArchiveRejected,
  blockName,
  encodeBlock,
} from '../../../client/archive/block'
import { ARCHIVE_BLOCK_BYTES, ARCHIVE_BLOCK_BYTES_MAX } from '../../../client/limits'
import { encodeBase58 } from '../../../protocol/base58'

const folder = mkdtempSync(join(tmpdir(), 'tacit-archive-'))
const path = join(folder, 'archive')
const OF = { genesis_hash: encodeBase58(fill(1)), program_id: encodeBase58(fill(2)) }
beforeEach(() => rmSync(path, { recursive: true, force: true }))
afterAll(() => rmSync(folder, { recursive: true }))

function fill(byte: number, width = 32): Uint8Array {
  return new Uint8Array(width).fill(byte)
}
/** Of about 10 KB, so that a block holds a hundred. */
function transaction(n: number, bytes = 10_000): ArchivedTransaction {
  const signature = encodeBase58(
    fill(0, 64)
      .with(0, n % 256)
      .with(1, n >> 8),
  )
  return { signature, slot: 1_000 + n, data: [fill(n % 256, bytes), fill(1, 3)] }
}
const some = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => transaction(from + at))

/** Extends by each part in turn. @returns the transactions in each block at the end */
async function write(parts: readonly ArchivedTransaction[][]): Promise<number> {
  for (const part of parts) {
    const archive = await Archive.load(path, OF)
    archive.extend(part, part.at(-1)?.slot ?? Math.max(0, archive.through_slot))
  }
  return readdirSync(path).length
}
const blockPath = (number: number): string => join(path, blockName(number))

test('what is appended in parts comes back whole and in order, in blocks of bounded size', async () => {
  const parts = fc.array(fc.integer({ min: 0, max: 150 }), { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(parts, async (sizes) => {
      rmSync(path, { recursive: true, force: true })
      const starts = sizes.map((_, at) => sizes.slice(0, at).reduce((sum, size) => sum + size, 0))
      const wanted = sizes.map((size, at) => some(starts[at]!, starts[at]! + size))
      const blocks = await write(wanted)
      const { transactions, block_count, damaged, through_slot } = await Archive.load(path, OF)
      expect(transactions).toEqual(wanted.flat())
      expect([block_count, damaged]).toEqual([blocks, undefined])
      expect(through_slot).toBe(wanted.flat().at(-1)?.slot ?? 0)
      // Only the newest block is not full, and none is longer than its bound.
      for (const name of readdirSync(path)) {
        const { length } = readFileSync(join(path, name))
        expect(length).toBeLessThan(ARCHIVE_BLOCK_BYTES + 200)
        if (name !== blockName(blocks - 1)) expect(length).toBeGreaterThan(ARCHIVE_BLOCK_BYTES - 11_000)
      }
    }),
    { numRuns: 15 },
  )
}, 120_000)

test('a full block is never written again', async () => {
  await write([some(0, 150)])
  const full = readFileSync(blockPath(0))
  await write([some(150, 160), some(160, 400)])
  expect(readFileSync(blockPath(0)).equals(full)).toBe(true)
  expect((await Archive.load(path, OF)).transactions).toEqual(some(0, 400))
})

test('a block reaches no further than its own transactions, should the next never be written', async () => {
  const archive = new Archive(path, OF)
  archive.extend(some(0, 250), 9_000)
  rmSync(blockPath(2))
  const left = await Archive.load(path, OF)
  expect([left.block_count, left.through_slot]).toEqual([2, left.transactions.at(-1)!.slot])
  rmSync(blockPath(1))
  const first = await Archive.load(path, OF)
  expect(first.through_slot).toBe(first.transactions.at(-1)!.slot)
})

test('a torn or flipped block ends the archive before it, and the next extension goes on from there', async () => {
  await write([some(0, 250)])
  const [first, second] = [0, 1].map((number) => readFileSync(blockPath(number)))
  for (const number of [2, 1])
    for (const damage of [cut, flip]) {
      rmSync(path, { recursive: true, force: true })
      await write([some(0, 250)])
      damage(blockPath(number))
      const { transactions, damaged, block_count } = await Archive.load(path, OF)
      expect([damaged, block_count]).toEqual([number, number])
      expect(transactions).toEqual(some(0, transactions.length))
      expect(transactions.length).toBeLessThan(250)
      await write([some(transactions.length, 250)])
      expect((await Archive.load(path, OF)).transactions).toEqual(some(0, 250))
      expect([0, 1].map((at) => readFileSync(blockPath(at)))).toEqual([first!, second!])
    }
})
function cut(file: string): void {
  truncateSync(file, readFileSync(file).length - 1)
}
function flip(file: string): void {
  const content = readFileSync(file)
  content[content.length >> 1]! ^= 1
  writeFileSync(file, content)
}

test('one bit flipped anywhere in a block is noticed', async () => {
  const { bytes } = encodeBlock(OF, undefined, { through_slot: 5, transactions: [transaction(3, 40)] })
  await write([[]])
  for (let at = 0; at < bytes.length; at++) {
    writeFileSync(blockPath(0), bytes.with(at, bytes[at]! ^ 1))
    expect((await Archive.load(path, OF)).damaged).toBe(0)
  }
})

test('blocks out of order, or after another block, are none of this archive', async () => {
  await write([some(0, 250)])
  const second = readFileSync(blockPath(1))
  writeFileSync(blockPath(0), second)
  expect(await Archive.load(path, OF)).toMatchObject({ block_count: 0, damaged: 0 })
  const other = encodeBlock(OF, undefined, { through_slot: 5, transactions: some(0, 3) })
  writeFileSync(blockPath(0), other.bytes)
  expect(await Archive.load(path, OF)).toMatchObject({ block_count: 1, damaged: 1 })
})

test('an archive of another vault or chain is rejected, and a shorter one replaces a longer one whole', async () => {
  await write([some(0, 250)])
  for (const other of [
    { ...OF, genesis_hash: OF.program_id },
    { ...OF, program_id: OF.genesis_hash },
  ])
    expect(await Archive.load(path, other).catch((error: unknown) => error)).toBeInstanceOf(ArchiveRejected)
  new Archive(path, OF).extend(some(7, 9), 2_000)
  expect(readdirSync(path)).toEqual([blockName(0)])
  expect((await Archive.load(path, OF)).transactions).toEqual(some(7, 9))
})

test('a mirror serves the same files; one that fails or sends too much is named', async () => {
  await write([some(0, 250)])
  let answer: (name: string) => Response = () => new Response()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) => answer(new URL(url).pathname.slice('/vault/'.length)),
  })
  const url = `${server.url.href}vault/`
  const served = (name: string) => {
    const file = Bun.file(join(path, name))
    return file.size > 0 ? new Response(file) : new Response('', { status: 404 })
  }
  answer = served
  expect(await Archive.load(url, OF)).toMatchObject({ block_count: 3, transactions: some(0, 250) })
  const failure = () => Archive.load(url, OF).then(String, ({ message }: Error) => message)
  answer = (name) => (name === blockName(1) ? new Response('', { status: 500 }) : served(name))
  expect(await failure()).toContain(`${url}${blockName(1)} answers HTTP 500`)
  answer = () => new Response(new Uint8Array(ARCHIVE_BLOCK_BYTES_MAX + 1))
  expect(await failure()).toContain('is longer than any block')
  answer = () => new Response('<html>')
  expect(await Archive.load(url, OF)).toMatchObject({ block_count: 0, damaged: 0 })
  const cut = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: { data: (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort') },
  })
  const cut_url = `http://127.0.0.1:${cut.port}`
  const unended = await Archive.load(cut_url, OF).then(String, ({ message }: Error) => message)
  expect(unended).toContain(`${cut_url}/${blockName(0)} does not answer, or not to the end`)
  cut.stop(true)
  answer = served
  const whole = readdirSync(path).reduce((sum, name) => sum + readFileSync(join(path, name)).length, 0)
  for (const where of [url, path]) {
    expect(await Archive.load(where, OF, whole)).toMatchObject({ block_count: 3 })
    const long = await Archive.load(where, OF, whole - 1).then(String, ({ message }: Error) => message)
    expect(long).toBe(`${where} has more than ${whole - 1} bytes`)
  }
  await server.stop(true)
  expect(await failure()).toContain('does not answer')
})

test('a folder holds blocks alone: no device, no folder and nothing that is too long is read', async () => {
  const failure = () =>
    Archive.load(path, OF).then(String, (error: Error) => `${error.name} ${error.message}`)
  mkdirSync(path)
  symlinkSync('/dev/zero', blockPath(0))
  expect(await failure()).toBe(`ArchiveRejected ${blockPath(0)} is not a file`)
  rmSync(blockPath(0))
  mkdirSync(blockPath(0))
  expect(await failure()).toBe(`ArchiveRejected ${blockPath(0)} is not a file`)
  rmSync(blockPath(0), { recursive: true })
  writeFileSync(blockPath(0), '')
  truncateSync(blockPath(0), ARCHIVE_BLOCK_BYTES_MAX + 1)
  expect(await failure()).toBe(`ArchiveRejected ${blockPath(0)} is longer than any block`)
})
