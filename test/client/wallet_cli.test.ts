/** The wallet's commands as a user runs them, on a chain where no venue ever ran: in, recovered, and out again. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeGenesis } from '../../engine/chain/embedded/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../engine/chain/embedded/open_embedded_chain'
import { encodeBase58 } from '../../protocol/base58'
import { publicKeyOf } from '../../protocol/sign'
import { callRpc, chainFolder } from '../chain/chain_folder'
import { USDC } from '../engine/embedded_site'

const CLI = join(import.meta.dir, '../../client/wallet_cli.ts')
const PROGRAM = join(import.meta.dir, '../../program/vault.so')
const EXIT_DELAY_S = 600
const GAPS = ['--gap-keys', '2', '--gap-deposits', '10', '--gap-commands', '10']

const folder = chainFolder()
const path = (name: string): string => join(folder.dir, name)
let chain: OpenedChain
/** `--rpc URL --program ADDRESS`. */
let where: string[]

beforeAll(async () => {
  chain = await openEmbeddedChain({ data_dir: path('chain'), slot_ms: 10 })
  const settlement_signer = publicKeyOf(crypto.getRandomValues(new Uint8Array(32)))
  const genesis = { program_path: PROGRAM, settlement_signer, exit_delay_s: EXIT_DELAY_S }
  where = ['--rpc', chain.url, '--program', encodeBase58(await makeGenesis(chain, genesis))]
}, 20_000)
afterAll(async () => {
  await chain.close()
  folder.remove()
})

async function wallet(...args: string[]): Promise<{ code: number; out: string; error: string }> {
  const child = Bun.spawn([process.execPath, CLI, ...args], {
    stdout: 'pipe',
    stderr: 'pipe',
    stdin: 'ignore',
  })
  const texts = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  const [code, [out, error]] = await Promise.all([child.exited, texts])
  return { code, out, error }
}
const files = ['--wallet', path('wallet.json'), '--payer', path('payer.json')]
const notesIn = (out: string): string[] => out.match(/^[0-9a-f]{64}/gm) ?? []

test('a seed is made once, for its owner alone', async () => {
  const made = await wallet('create', '--seed-file', path('seed'), '--wallet', path('wallet.json'))
  expect(made).toMatchObject({ code: 0, error: '' })
  expect(statSync(path('seed')).mode & 0o777).toBe(0o600)
  const seed = readFileSync(path('seed'), 'utf8')
  expect((await wallet('create', '--seed-file', path('seed'))).code).toBe(64)
  expect(readFileSync(path('seed'), 'utf8')).toBe(seed)
  const told = await wallet('address', '--seed-file', path('seed'))
  expect(made.out).toContain(told.out.trim())
  chmodSync(path('seed'), 0o644)
  expect((await wallet('address', '--seed-file', path('seed'))).error).toContain('read by others')
  chmodSync(path('seed'), 0o600)
}, 20_000)

test('deposits made by command are recovered from the seed, to the last note', async () => {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const key_file = JSON.stringify([...seed, ...publicKeyOf(seed)])
  writeFileSync(path('payer.json'), key_file, { mode: 0o600 })
  const payer = encodeBase58(publicKeyOf(seed))
  expect((await wallet('address', ...files)).out).toContain(payer)
  await callRpc(chain, 'requestAirdrop', [payer, 5_000_000_000])
  await callRpc(chain, 'tacit_mintTo', [{ mint: USDC, owner: payer, amount: '1000' }])
  chain.advance(2)
  for (const [amount, key] of [
    ['600', '0'],
    ['300', '1'],
  ] as const) {
    const terms = ['--mint', USDC, '--amount', amount, '--key', key]
    expect(await wallet('deposit', ...where, ...files, ...terms)).toMatchObject({ code: 0, error: '' })
  }
  const { out } = await wallet('notes', '--wallet', path('wallet.json'))
  expect(notesIn(out)).toHaveLength(2)
  const again = ['--seed-file', path('seed'), '--wallet', path('again.json')]
  const recovered = await wallet('recover', ...where, ...again, ...GAPS)
  expect(recovered).toMatchObject({ code: 0, error: '' })
  expect(recovered.out).toContain('2 leaves, 0 nullifiers: both roots are those of the vault')
  expect(notesIn(recovered.out)).toEqual(notesIn(out))
  expect((await wallet('recover', ...where, ...again, ...GAPS)).code).toBe(64)
}, 30_000)

test('request, freeze and escape are commands; each waits for its time', async () => {
  const own = ['--wallet', path('again.json'), '--payer', path('payer.json')]
  const [first] = notesIn((await wallet('notes', ...own)).out)
  const note = ['--note', first!]
  expect(await wallet('exit', 'request', ...where, ...own, ...note)).toMatchObject({ code: 0, error: '' })
  const status = await wallet('exit', 'status', ...where, ...own)
  expect(status.out).toMatch(/not frozen[\s\S]*requested, deadline 20[\s\S]*no request/)
  const early = await wallet('exit', 'freeze', ...where, ...own, ...note)
  expect(early.code).toBe(1)
  expect(early.error).toContain('deadline_not_reached')
  expect((await wallet('exit', 'escape', ...where, ...own, ...note)).error).toContain('not_frozen')
  chain.warpTime(EXIT_DELAY_S + 10)
  chain.advance(2)
  expect(await wallet('exit', 'freeze', ...where, ...own, ...note)).toMatchObject({ code: 0, error: '' })
  chain.advance(10)
  const escaped = await wallet('exit', 'escape', ...where, ...own)
  expect(escaped.error).toBe('')
  expect(escaped.out.match(/^escaped /gm)).toHaveLength(2)
  expect((await wallet('exit', 'escape', ...where, ...own)).out).toContain('nothing to escape')
  const stale = await wallet('exit', 'escape', ...where, ...files)
  expect(stale.out).toContain('2 found spent')
  expect(stale.out).toContain('nothing to escape')
}, 40_000)

test('what is asked wrongly is told, and nothing is done', async () => {
  expect((await wallet()).error).toContain('usage: bun run wallet')
  expect((await wallet('exit', 'vanish')).code).toBe(64)
  expect((await wallet('notes', '--colour', 'red')).code).toBe(64)
  expect((await wallet('notes', '--wallet', path('none.json'))).error).toContain('there is no wallet')
  expect((await wallet('deposit', ...where, ...files, '--mint', USDC, '--amount', '1.5')).code).toBe(64)
  const elsewhere = ['--rpc', chain.url, '--program', USDC]
  const lost = await wallet('recover', ...elsewhere, '--seed-file', path('seed'), '--wallet', path('x.json'))
  expect(lost).toMatchObject({ code: 1, error: 'the vault of this program is not on the chain\n' })
  expect(existsSync(path('x.json'))).toBe(false)
}, 30_000)
