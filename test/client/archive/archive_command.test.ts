/** `tacit archive` as a process: it extends, survives being killed, and serves auditors as files. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startChild } from '../../../bench/kit/child_process'
import type { MadeVault } from '../../../bench/venue/vault_node'
import { Archive } from '../../../client/archive/archive'
import { blockName } from '../../../client/archive/block'
import { ARCHIVE_WRITE_EVERY } from '../../../client/limits'
import { encodeBase58 } from '../../../protocol/base58'
import { said } from '../cli_site'

const CLI = join(import.meta.dir, '../../../client/cli')
/** More than two writes of the archive, and more than one block. */
const LEAVES = 56 * (2 * ARCHIVE_WRITE_EVERY + 100)
const BATCHES = LEAVES / 56

const folder = mkdtempSync(join(tmpdir(), 'tacit-archive-command-'))
const out = join(folder, 'archive')
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
  rmSync(folder, { recursive: true })
})

const start = (program: string, ...args: string[]) =>
  Bun.spawn([process.execPath, join(CLI, program), ...args], {
    stdout: 'pipe',
    stderr: 'pipe',
    stdin: 'ignore',
  })
const load = () => Archive.load(out, { genesis_hash: encodeBase58(new Uint8Array(32).fill(1)), program_id })
const blockPath = (number: number): string => join(out, blockName(number))
const calls = () => node.ask<number>('calls')

test('killed while it writes, and torn besides, it goes on from its last whole block', async () => {
  const killed = start('tacit.ts', 'archive', ...where, '--out', out)
  while (!existsSync(blockPath(0))) await Bun.sleep(1)
  killed.kill('SIGKILL')
  await killed.exited
  const left = await load()
  expect(left.damaged).toBeUndefined()
  expect(left.transactions.length).toBeGreaterThan(100)
  expect(left.transactions.length).toBeLessThan(BATCHES)
  const last = blockPath(left.block_count - 1)
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

test('a second run appends what is new and rewrites no full block', async () => {
  const full = readFileSync(blockPath(0))
  await node.ask('grow', { batches: 3 })
  await calls()
  const again = await said(start('tacit.ts', 'archive', ...where, '--out', out))
  expect(again).toMatchObject({ code: 0, error: '' })
  expect(again.out).toContain(`3 transactions read, ${BATCHES + 1} in`)
  expect(await calls()).toBeLessThan(3 + 10)
  expect(readFileSync(blockPath(0)).equals(full)).toBe(true)
}, 120_000)

test('an auditor reads a mirror and what came after it', async () => {
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

test('a wallet is recovered from the archive and what came after it, or it says what is missing', async () => {
  const seed_file = join(folder, 'seed')
  writeFileSync(seed_file, '00'.repeat(32), { mode: 0o600 })
  await node.ask('grow', { batches: 1 })
  await calls()
  const recover = (name: string, ...args: string[]) => {
    const files = ['--seed-file', seed_file, '--wallet', join(folder, name), '--archive', out]
    return said(start('tacit.ts', 'wallet', 'recover', ...where, ...files, ...args))
  }
  const whole = await recover('whole.json')
  expect(whole).toMatchObject({ code: 0, error: '' })
  expect(whole.out).toMatch(/total .* 1000000\n/)
  // Six batches that the archive lacks, five of the wallet with their decoys, accounts and listings.
  expect(await calls()).toBeLessThan(6 + 5 * 4 + 10)
  const short = await recover('short.json', '--gap-commands', '1')
  expect([short.code, existsSync(join(folder, 'short.json'))]).toEqual([1, false])
  expect(short.error).toContain('key 0 has commands or notes in settlement batch')
  const part = await recover('part.json', '--gap-commands', '1', '--partial')
  expect(part).toMatchObject({ code: 0, error: expect.stringContaining('the recovery is not complete') })
  expect(part.out).toContain('no notes')
}, 120_000)

test('what is asked wrongly is said', async () => {
  const ask = (...args: string[]) => said(start('tacit.ts', 'archive', ...args))
  expect(await ask(...where)).toMatchObject({ code: 64, error: expect.stringContaining('--out is needed') })
  const nowhere = await ask('--rpc', 'here', '--program', program_id, '--out', out)
  expect([nowhere.code, nowhere.error.includes('--rpc is the URL')]).toEqual([64, true])
  const another = encodeBase58(new Uint8Array(32).fill(3))
  const foreign = await ask(...where.slice(0, 2), '--program', another, '--out', join(folder, 'x'))
  expect([foreign.code, foreign.error.includes('the vault of this program is not on the chain')]).toEqual([
    1,
    true,
  ])
}, 180_000)
