/**
 * An archive gives back the written events, from folder or mirror; its command extends it, survives being killed, and serves.
 */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import {
  existsSync,
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
import { startChild } from '../../../bench/kit/child_process'
import type { MadeVault } from '../../../bench/venue/vault_node'
import {
  Archive,
  type ArchivedTransaction,
  ArchiveRejected,
  blockName,
  encodeBlock,
} from '../../../client/archive/archive'
import { ARCHIVE_BLOCK_BYTES, ARCHIVE_BLOCK_BYTES_MAX, ARCHIVE_WRITE_EVERY } from '../../../client/limits'
import { nullifierOfNote } from '../../../client/wallet/absorb'
import { Wallet } from '../../../client/wallet/wallet'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { compareBytes, concatBytes, toHex } from '../../../protocol/bytes'
import { deriveAnchor, deriveOrderId } from '../../../protocol/notes/derive'
import { encodeMemo, noteInner, outputBlinding, settlementCommitment } from '../../../protocol/notes/notes'
import { sha256 } from '../../../protocol/sha256'
import { USDC } from '../../../sandbox/environment'
import { said } from '../../kit/said'
import { CliSite } from '../cli_site'
import { LyingNode } from '../lying_node'

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

test('events appended in parts come back whole and in order, in blocks of bounded size', async () => {
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

test('only block files of a folder are read: no device, no folder and nothing too long', async () => {
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

let site: CliSite
let liar: LyingNode
let pruned: LyingNode
let memos: Uint8Array[]
const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))

beforeAll(async () => {
  site = await CliSite.open()
  ;[liar, pruned] = [new LyingNode(site.chain.url), new LyingNode(site.chain.url)]
  writeFileSync(site.path('seed'), toHex(wallet.seed), { mode: 0o600 })
  const [note] = await site.deposit(wallet, 5_000n)
  const outputs = [fillOutput(0, 2_000n), fillOutput(1, 3_000n)]
  memos = outputs.map(({ memo }) => memo)
  const ordered = outputs.toSorted((a, b) => compareBytes(a.commitment, b.commitment))
  await site.signer.settle({ nullifiers: [nullifierOfNote(note!)], outputs: ordered })
  pruned.lies = { getTransaction: () => null }
}, 180_000)
afterAll(async () => {
  await Promise.all([liar.stop(), pruned.stop()])
  await site.close()
})

/** Proceeds or change of the first fill of the wallet's first order. */
function fillOutput(index_role: number, amount: bigint) {
  const parts = { anchor: deriveAnchor(wallet.seed, 0, 0), order_id: deriveOrderId(wallet.seed, 0, 0) }
  const blinding = outputBlinding({ ...parts, nonce: 1n, generation: 0, index_role })
  const inner = noteInner(wallet.tradingKey(0), blinding)
  const commitment = settlementCommitment({ mint: decodeBase58(USDC, 32)!, amount, inner })
  return { commitment, memo: encodeMemo(blinding, amount) }
}

type Told = { meta: { innerInstructions: { instructions: { data: string }[] }[] } } | null
/** Misstates these memos. */
function lieAbout(hidden: readonly Uint8Array[]): void {
  liar.lies = {
    getTransaction: (result) => {
      const told = structuredClone(result) as Told
      for (const { instructions } of told?.meta.innerInstructions ?? [])
        for (const one of instructions) {
          const data = Buffer.from(decodeBase58(one.data)!)
          for (const memo of hidden) {
            const at = data.indexOf(memo)
            if (at >= 0) data.fill(0x5a, at, at + memo.length)
          }
          one.data = encodeBase58(data)
        }
      return told
    },
  }
}

async function run(command: 'recover' | 'sync', rpc: readonly string[], file: string, ...more: string[]) {
  const seed = command === 'recover' ? ['--seed-file', site.path('seed'), '--replace'] : []
  const where = ['--rpc', rpc.join(','), '--program', site.program_id, '--wallet', site.path(file)]
  const { code, out, error } = await site.run(command, ...where, ...seed, '--gap-commands', '50', ...more)
  return { code, total: /total .* (\d+)\n/.exec(out)?.[1], error }
}

test('a memo that one of two nodes alone could show is said to be in doubt, and one that two show differently is an error', async () => {
  lieAbout([memos[1]!])
  const honest = site.chain.url
  for (const nodes of [
    [liar.url, pruned.url],
    [pruned.url, liar.url],
  ]) {
    const { code, error } = await run('recover', nodes, 'doubt.json')
    expect([code, error]).toEqual([
      0,
      expect.stringContaining('1 batches of this wallet were shown by fewer'),
    ])
  }
  const disagree = await run('recover', [honest, liar.url], 'two.json')
  expect(disagree).toMatchObject({ code: 1, error: expect.stringContaining('has another batch 1 than') })
  expect(await run('recover', [honest, honest], 'two.json')).toEqual({ code: 0, total: '5000', error: '' })
}, 180_000)

test('after one reading of a lying node an honest one is enough: its batches replace the kept ones', async () => {
  lieAbout([memos[1]!])
  expect(await run('recover', [liar.url], 'change.json')).toEqual({ code: 0, total: '2000', error: '' })
  const healed = await run('sync', [site.chain.url], 'change.json')
  expect(healed).toMatchObject({ code: 0, total: '5000' })
  expect(healed.error).toContain('one of both is wrong; everything is read again')
  expect(await run('sync', [site.chain.url], 'change.json')).toEqual({ code: 0, total: '5000', error: '' })
  const history = join(site.path('change.json.history'), '00000000.block')
  const bytes = readFileSync(history)
  const foreign = bytes.with(20, bytes[20]! ^ 1)
  const sealed = concatBytes(foreign.subarray(0, -32), sha256(foreign.subarray(0, -32)))
  writeFileSync(history, sealed)
  // A history of another cluster is no lie of a node: it is not replaced.
  const elsewhere = await run('sync', [site.chain.url], 'change.json')
  expect(elsewhere).toMatchObject({ code: 1, error: expect.stringContaining('the archive is of vault') })
  expect(readFileSync(history).equals(sealed)).toBe(true)
  // With both memos hidden the search cannot end; the wallet gets the reason once the archive is compared.
  lieAbout(memos)
  expect(await run('recover', [liar.url], 'both.json', '--partial')).toMatchObject({
    code: 0,
    total: undefined,
  })
  expect(await run('sync', [site.chain.url], 'both.json')).toMatchObject({ code: 0, total: '5000' })
}, 180_000)

test("a mistaken memo in another's archive is an error, also where the search cannot end", async () => {
  for (const hidden of [[memos[1]!], memos]) {
    lieAbout(hidden)
    const name = `archive-${hidden.length}`
    const { exited } = Bun.spawn(
      [process.execPath, `${import.meta.dir}/../../../client/cli/tacit.ts`].concat(
        ...[['archive', '--rpc', liar.url, '--program', site.program_id, '--out', site.path(name)]],
      ),
      { stdout: 'ignore', stderr: 'ignore' },
    )
    expect(await exited).toBe(0)
    const of_it = await run('recover', [site.chain.url], `${name}.json`, '--archive', site.path(name))
    expect(of_it).toMatchObject({ code: 1, error: expect.stringContaining('has another batch 1 than') })
  }
}, 180_000)

const CLI = join(import.meta.dir, '../../../client/cli')
/** More than two writes of the archive, and more than one block. */
const LEAVES = 56 * (2 * ARCHIVE_WRITE_EVERY + 100)
const BATCHES = LEAVES / 56

const archiveFolder = mkdtempSync(join(tmpdir(), 'tacit-archive-command-'))
const out = join(archiveFolder, 'archive')
const node = startChild('venue/vault_node.ts')
let where: string[]
let program_id: string

beforeAll(async () => {
  const made = { leaves: LEAVES, fills: 5, unfilled: 1, seed: [...new Uint8Array(32)] }
  const vault = await node.ask<MadeVault>('make', made)
  program_id = vault.program_id
  where = ['--rpc', vault.rpc_url, '--program', program_id]
}, 180_000)
afterAll(async () => {
  await node.end()
  rmSync(archiveFolder, { recursive: true })
})

const start = (program: string, ...args: string[]) =>
  Bun.spawn([process.execPath, join(CLI, program), ...args], {
    stdout: 'pipe',
    stderr: 'pipe',
    stdin: 'ignore',
  })
const load = () => Archive.load(out, { genesis_hash: encodeBase58(new Uint8Array(32).fill(1)), program_id })
const archiveBlockPath = (number: number): string => join(out, blockName(number))
const calls = () => node.ask<number>('calls')

test('killed while it writes, and torn, it goes on from its last whole block', async () => {
  const killed = start('tacit.ts', 'archive', ...where, '--out', out)
  while (!existsSync(archiveBlockPath(0))) await Bun.sleep(1)
  killed.kill('SIGKILL')
  await killed.exited
  const left = await load()
  expect(left.damaged).toBeUndefined()
  expect(left.transactions.length).toBeGreaterThan(100)
  expect(left.transactions.length).toBeLessThan(BATCHES)
  const last = archiveBlockPath(left.block_count - 1)
  truncateSync(last, readFileSync(last).length - 40)
  const rest = (await load()).transactions.length
  await calls()
  const resumed = await said(start('tacit.ts', 'archive', ...where, '--out', out))
  expect(resumed).toMatchObject({ code: 0, error: expect.stringMatching(/^(1000 transactions read\n)?$/) })
  expect(resumed.out).toContain(`whose block ${left.block_count - 1} is torn or damaged`)
  expect(resumed.out).toContain(`${LEAVES + 1} leaves`)
  // Each transaction that was lost is read, and none that was kept.
  expect(await calls()).toBeLessThan(BATCHES + 1 - rest + 10)
  const whole = await load()
  expect([whole.transactions.length, whole.damaged]).toEqual([BATCHES + 1, undefined])
  expect(whole.block_count).toBeGreaterThan(1)
}, 180_000)

test('a second run appends new events and rewrites no full block', async () => {
  const full = readFileSync(archiveBlockPath(0))
  await node.ask('grow', { batches: 3 })
  await calls()
  const again = await said(start('tacit.ts', 'archive', ...where, '--out', out))
  expect(again).toMatchObject({ code: 0, error: '' })
  expect(again.out).toContain(`3 transactions read, ${BATCHES + 1} in`)
  expect(await calls()).toBeLessThan(3 + 10)
  expect(readFileSync(archiveBlockPath(0)).equals(full)).toBe(true)
}, 120_000)

test('an auditor reads a mirror and the later transactions', async () => {
  const file = (url: string) => Bun.file(join(out, new URL(url).pathname))
  const mirror = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async ({ url }) =>
      (await file(url).exists()) ? new Response(file(url)) : new Response('', { status: 404 }),
  })
  await node.ask('grow', { batches: 2 })
  await calls()
  const audit = ['tacit.ts', 'audit-chain', ...where, '--archive', mirror.url.href] as const
  const honest = await said(start(...audit))
  expect([honest.code, honest.error]).toEqual([0, ''])
  expect(honest.out).toContain(`note tree    ${LEAVES + 1 + 5 * 56} leaves`)
  expect(await calls()).toBeLessThan(2 + 10)
  await mirror.stop(true)
  const gone = await said(start(...audit))
  expect([gone.code, gone.error.includes('does not answer')]).toEqual([3, true])
}, 120_000)

test('a wallet is recovered from the archive and later transactions, or the missing part is named', async () => {
  const seed_file = join(archiveFolder, 'seed')
  writeFileSync(seed_file, '00'.repeat(32), { mode: 0o600 })
  await node.ask('grow', { batches: 1 })
  await calls()
  const recover = (name: string, ...args: string[]) => {
    const files = ['--seed-file', seed_file, '--wallet', join(archiveFolder, name), '--archive', out]
    return said(start('tacit.ts', 'wallet', 'recover', ...where, ...files, ...args))
  }
  const whole = await recover('whole.json')
  expect(whole).toMatchObject({ code: 0, error: '' })
  expect(whole.out).toMatch(/total .* 1000000\n/)
  // Six batches that the archive lacks, five of the wallet with their decoys, accounts and listings.
  expect(await calls()).toBeLessThan(6 + 5 * 4 + 10)
  const short = await recover('short.json', '--gap-commands', '1')
  expect([short.code, existsSync(join(archiveFolder, 'short.json'))]).toEqual([1, false])
  expect(short.error).toContain('key 0 has commands or notes in settlement batch')
  const part = await recover('part.json', '--gap-commands', '1', '--partial')
  expect(part).toMatchObject({ code: 0, error: expect.stringContaining('the recovery is not complete') })
  expect(part.out).toContain('no notes')
}, 120_000)

test('wrong options are named', async () => {
  const ask = (...args: string[]) => said(start('tacit.ts', 'archive', ...args))
  expect(await ask(...where)).toMatchObject({ code: 64, error: expect.stringContaining('--out is needed') })
  const nowhere = await ask('--rpc', 'here', '--program', program_id, '--out', out)
  expect([nowhere.code, nowhere.error.includes('--rpc is the URL')]).toEqual([64, true])
  const another = encodeBase58(new Uint8Array(32).fill(3))
  const foreign = await ask(...where.slice(0, 2), '--program', another, '--out', join(archiveFolder, 'x'))
  expect([foreign.code, foreign.error.includes('the vault of this program is not on the chain')]).toEqual([
    1,
    true,
  ])
}, 180_000)
