/** The wallet's commands as a user runs them, on a chain without a venue: in, recovered, and out again. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { openChainReader } from '../../../client/chain/chain_access'
import { readExitRequest } from '../../../client/chain/read_vault'
import { nullifierOfNote, REFUND_INDEX_ROLE } from '../../../client/wallet/absorb'
import type { Wallet } from '../../../client/wallet/wallet'
import { loadWallet } from '../../../client/wallet/wallet_file'
import { toHex } from '../../../protocol/bytes'
import { deriveAnchor } from '../../../protocol/notes/derive'
import { noteInner, outputBlinding } from '../../../protocol/notes/notes'
import { USDC } from '../../../sandbox/environment'
import { said } from '../../kit/said'
import { CliSite, EXIT_DELAY_S, notesIn, usdc } from '../cli_site'

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
}, 120_000)
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
  const status = await wallet('exit', 'status', ...where, '--wallet', path('wallet.json'))
  expect([status.code, status.out + status.error]).toEqual([0, expect.stringContaining('no unspent note')])
  chmodSync(path('seed'), 0o644)
  expect((await wallet('address', '--seed-file', path('seed'))).error).toContain('read by others')
  chmodSync(path('seed'), 0o600)
}, 120_000)

test('deposits made by command are recovered from the seed, to the last note', async () => {
  const payer = site.payer('payer.json')
  expect((await wallet('address', ...files)).out).toContain(payer)
  const asked = [USDC, usdc(1000), '--rpc', site.chain.url, '--payer', path('payer.json')]
  expect(await wallet('faucet', ...asked)).toMatchObject({ code: 0, error: '' })
  for (const [amount, key] of [
    [600, '0'],
    [300, '1'],
  ] as const) {
    const terms = [USDC, usdc(amount), '--key', key]
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
}, 120_000)

const own = () => ['--wallet', path('again.json')]
const exit = (command: string, ...args: string[]) => {
  const payer = command === 'status' ? [] : ['--payer', path('payer.json')]
  return wallet('exit', command, ...where, ...own(), ...payer, ...args)
}
const statusOf = async (note: string): Promise<string> =>
  (await exit('status')).out.split('\n').find((line) => line.startsWith(note)) ?? ''

/** A dry run that the vault accepts: nothing is sent, and the wallet's file is as before. */
async function rehearsed(verb: string, ...args: string[]): Promise<void> {
  const [before, height] = [readFileSync(path('again.json'), 'utf8'), site.chain.slot]
  const { code, out, error } = await exit(verb, ...args, '--dry-run')
  expect({ code, error }).toEqual({ code: 0, error: '' })
  expect(out).toMatch(
    /takes {8}up to \d+ lamports of \w+.*\nsimulated {4}the vault accepts it; nothing was sent\n$/,
  )
  expect([readFileSync(path('again.json'), 'utf8'), site.chain.slot]).toEqual([before, height])
}

/** Requests an exit; the fields with which a batch serves it. */
async function requested(note: string, ...args: string[]) {
  expect(await exit('request', '--note', note, ...args)).toMatchObject({ code: 0, error: '' })
  const nullifier = nullifierOfNote(loadWallet(path('again.json'))!.note(note)!)
  const { mint, amount, destination, refund_inner, deadline_s } = (await readExitRequest(
    openChainReader(site.chain.url),
    site.program_id,
    nullifier,
  ))!
  expect(await statusOf(note)).toContain(`requested, deadline ${new Date(deadline_s * 1_000).toISOString()}`)
  return { nullifiers: [nullifier], payouts: [{ mint, amount, destination, inner: refund_inner, nullifier }] }
}

test('an exit is requested, served, paid and closed; status names each stage from the chain alone', async () => {
  const { out } = await wallet('notes', ...own())
  const [note] = notesIn(out)
  expect(await statusOf(note!)).toContain('no request')
  expect((await exit('close', '--note', note!)).error).toContain('there is no exit request')
  await rehearsed('request', '--note', note!)
  expect(await statusOf(note!)).toContain('no request')
  const batch = await requested(note!)
  const early = await exit('freeze', '--note', note!)
  expect([early.code, early.error.includes('deadline_not_reached')]).toEqual([1, true])
  const simulated = await exit('freeze', '--note', note!, '--dry-run')
  expect([simulated.code, simulated.error.includes('deadline_not_reached')]).toEqual([1, true])
  expect((await exit('close', '--note', note!)).error).toContain('exit_open')
  expect((await exit('pay', '--note', note!)).error).toContain('no batch has served this note yet')
  expect(await site.signer.settle(batch)).toEqual([1])
  expect(await statusOf(note!)).toMatch(/served, payout 1 waits in the queue; 'exit close' returns the bond/)
  expect((await exit('status')).out).toMatch(
    /queue {8}1 payouts wait, 60 places\n {2}1: \d00 of \w+ to \w+\n/,
  )
  expect((await exit('freeze', '--note', note!)).error).toContain('exit_served')
  expect((await exit('pay', '--note', note!, '--refund')).error).toContain('refund_not_due')
  for (const verb of ['close', 'pay']) await rehearsed(verb, '--note', note!)
  expect(await exit('close', '--note', note!)).toMatchObject({ code: 0, error: '' })
  expect(await exit('pay', '--note', note!)).toMatchObject({ code: 0, error: '' })
  site.chain.advance(10)
  expect(await statusOf(note!)).toMatch(/: paid, payout 1$/)
  expect((await exit('pay', '--number', '1')).error).toContain('payout 1 is not in the queue')
  expect((await audit()).out).toContain('queue        0 of 60 entries\n')
}, 180_000)

/** Inner hash of the refund of a withdrawal that is the first command of the note's key. */
function refundInner(wallet: Wallet, commitment: string): Uint8Array {
  const { key_index } = wallet.note(commitment)!
  const anchor = deriveAnchor(wallet.seed, key_index, 0)
  const command = { order_id: new Uint8Array(16), nonce: 1n, generation: 0 }
  const blinding = outputBlinding({ anchor, ...command, index_role: REFUND_INDEX_ROLE })
  return noteInner(wallet.tradingKey(key_index), blinding)
}

const audit = () => wallet('audit-chain', ...where)

test('a payout to an account that is not there comes back as a note, and a spent note is refused for its bond', async () => {
  const [note] = notesIn((await wallet('notes', ...own())).out)
  const batch = await requested(note!)
  const destination = crypto.getRandomValues(new Uint8Array(32))
  const inner = refundInner(loadWallet(path('again.json'))!, note!)
  const payouts = batch.payouts.map(({ nullifier: _, ...payout }) => ({ ...payout, destination, inner }))
  expect(await site.signer.settle({ ...batch, payouts })).toEqual([2])
  const open = await audit()
  expect(open).toMatchObject({ code: 0, error: '' })
  expect(open.out).toMatch(/queue {8}1 of 60 entries, the oldest since slot \d+\n/)
  // A withdrawal: the batch spent the note and did not serve the request.
  const spent = await exit('refuse', '--nullifier', toHex(batch.nullifiers[0]!))
  expect(spent).toMatchObject({ code: 0, error: '' })
  expect(await exit('pay', '--number', '2')).toMatchObject({ code: 0, error: '' })
  site.chain.advance(10)
  expect(await statusOf(note!)).toContain('refused: the note is spent')
  const { out } = await wallet('sync', ...where, ...own(), ...GAPS)
  expect(out).toContain('1 notes new')
  expect(out).toMatch(/300 {2}key 1 {2}free {2}refund/)
  const closed = await audit()
  expect(closed.out).toContain('verdict      agrees')
}, 180_000)

test('after a missed deadline anyone freezes the vault: bonds return, and claims open', async () => {
  const [note] = notesIn((await wallet('notes', ...own())).out)
  await requested(note!)
  site.chain.advance(10)
  const open = (await audit()).out
  expect(open).toMatch(
    /exits {8}1 requests neither served nor refused\n {2}[0-9a-f]{64} {2}300 of \w+, deadline 20/,
  )
  site.chain.warpTime(EXIT_DELAY_S + 10)
  site.chain.advance(2)
  const frozen = await exit('freeze', '--note', note!)
  expect(frozen).toMatchObject({ code: 0, error: '' })
  expect(frozen.out).toContain("'exit claim' claims every unspent note")
  expect((await exit('status')).out).toMatch(/frozen since 20[\s\S]*'exit claim' claims every unspent note/)
  expect(await statusOf(note!)).toContain("'exit close' returns the bond")
  expect(await exit('close', '--note', note!)).toMatchObject({ code: 0, error: '' })
  expect(await statusOf(note!)).toContain('no request')
  expect((await exit('request', '--note', note!)).error).toContain('vault_frozen')
}, 180_000)

test('wrong options are named, and nothing is done', async () => {
  expect((await wallet()).error).toContain('usage: tacit VERB')
  expect((await wallet('exit', 'vanish')).code).toBe(64)
  expect((await wallet('notes', '--colour', 'red')).code).toBe(64)
  expect((await wallet('notes', '--wallet', path('none.json'))).error).toContain('there is no wallet')
  expect((await wallet('deposit', ...where, ...files, USDC, '0.0000015')).code).toBe(64)
  const elsewhere = ['--rpc', site.chain.url, '--program', USDC]
  const lost = await wallet('recover', ...elsewhere, '--seed-file', path('seed'), '--wallet', path('x.json'))
  expect(lost).toMatchObject({
    code: 1,
    error: expect.stringContaining('the vault of this program is not on the chain'),
  })
  expect(existsSync(path('x.json'))).toBe(false)
}, 120_000)

test('a secret that is typed in place of its file is not repeated', async () => {
  const secret = 'ab'.repeat(32)
  const watch = ['watch-escapes', ...where, '--payer', secret, '--once']
  const tacit = join(import.meta.dir, '../../../client/cli/tacit.ts')
  const pipes = { stdout: 'pipe', stderr: 'pipe' } as const
  for (const said_of of [
    await wallet('address', '--payer', secret),
    await said(Bun.spawn([process.execPath, tacit, ...watch], pipes)),
  ]) {
    expect(said_of.error).toContain('the file of --payer')
    expect(`${said_of.out}${said_of.error}`).not.toContain(secret)
  }
}, 120_000)
