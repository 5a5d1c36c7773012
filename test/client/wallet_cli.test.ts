/** The wallet's commands as a user runs them, on a chain where no venue ever ran: in, recovered, and out again. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, existsSync, readFileSync, statSync } from 'node:fs'
import { USDC } from '../kit/venue/embedded_site'
import { CliSite, EXIT_DELAY_S, notesIn } from './cli_site'

const GAPS = ['--gap-keys', '2', '--gap-deposits', '10', '--gap-commands', '10']

let site: CliSite
let files: string[]
let where: string[]
const path = (name: string): string => site.path(name)
const wallet = (...args: string[]) => site.run(...args)

beforeAll(async () => {
  site = await CliSite.open()
  where = site.where
  files = ['--wallet', path('wallet.json'), '--payer', path('payer.json')]
}, 20_000)
afterAll(() => site.close())

test('a seed is made once, for its owner alone', async () => {
  const made = await wallet('create', '--seed-file', path('seed'), '--wallet', path('wallet.json'))
  expect(made).toMatchObject({ code: 0, error: '' })
  expect(statSync(path('seed')).mode & 0o777).toBe(0o600)
  const seed = readFileSync(path('seed'), 'utf8')
  expect((await wallet('create', '--seed-file', path('seed'))).code).toBe(64)
  expect(readFileSync(path('seed'), 'utf8')).toBe(seed)
  const told = await wallet('address', '--seed-file', path('seed'))
  expect(made.out).toContain(told.out.trim())
  const paying = await wallet('create', '--seed-file', path('paying'))
  const address = (await wallet('address', '--payer', path('paying'))).out.trim().split(/ +/)[1]!
  expect(paying.out).toContain(`as payer     ${address}\n`)
  chmodSync(path('seed'), 0o644)
  expect((await wallet('address', '--seed-file', path('seed'))).error).toContain('read by others')
  chmodSync(path('seed'), 0o600)
}, 20_000)

test('deposits made by command are recovered from the seed, to the last note', async () => {
  const payer = site.payer('payer.json')
  expect((await wallet('address', ...files)).out).toContain(payer)
  const asked = ['--rpc', site.chain.url, '--payer', path('payer.json'), '--mint', USDC, '--amount', '1000']
  expect(await wallet('faucet', ...asked)).toMatchObject({ code: 0, error: '' })
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
  site.chain.warpTime(EXIT_DELAY_S + 10)
  site.chain.advance(2)
  expect(await wallet('exit', 'freeze', ...where, ...own, ...note)).toMatchObject({ code: 0, error: '' })
  site.chain.advance(10)
  const escaped = await wallet('exit', 'escape', ...where, ...own, ...GAPS)
  expect(escaped.error).toBe('')
  expect(escaped.out.match(/^escaped /gm)).toHaveLength(2)
  expect((await wallet('exit', 'escape', ...where, ...own, ...GAPS)).out).toContain('nothing to escape')
  const stale = await wallet('exit', 'escape', ...where, ...files, ...GAPS)
  expect(stale.out).toContain('2 found spent')
  expect(stale.out).toContain('nothing to escape')
}, 40_000)

test('what is asked wrongly is told, and nothing is done', async () => {
  expect((await wallet()).error).toContain('usage: bun run wallet')
  expect((await wallet('exit', 'vanish')).code).toBe(64)
  expect((await wallet('notes', '--colour', 'red')).code).toBe(64)
  expect((await wallet('notes', '--wallet', path('none.json'))).error).toContain('there is no wallet')
  expect((await wallet('deposit', ...where, ...files, '--mint', USDC, '--amount', '1.5')).code).toBe(64)
  const elsewhere = ['--rpc', site.chain.url, '--program', USDC]
  const lost = await wallet('recover', ...elsewhere, '--seed-file', path('seed'), '--wallet', path('x.json'))
  expect(lost).toMatchObject({
    code: 1,
    error: expect.stringContaining('the vault of this program is not on the chain'),
  })
  expect(existsSync(path('x.json'))).toBe(false)
}, 30_000)
