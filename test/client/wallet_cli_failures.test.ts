/** What can go wrong for a wallet's owner: each failure says what to do, and a second try finds everything as it was left. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { nullifierOfNote } from '../../client/exit/prepare_exit'
import { loadWallet } from '../../client/wallet/wallet_file'
import { toHex } from '../../protocol/bytes'
import { CliSite, EXIT_DELAY_S, JTO, notesIn, type Said, said, USDC } from './cli_site'

const GAPS = ['--gap-keys', '1', '--gap-deposits', '5', '--gap-commands', '5']

let site: CliSite
let payer: string
let note: string
const path = (name: string): string => site.path(name)
const file = () => ['--wallet', path('wallet.json')]
const rich = () => ['--payer', path('payer.json')]
const wallet = (...args: string[]) => site.run(...args)
const onChain = (command: string, ...args: string[]) =>
  wallet(...command.split(' '), ...site.where, ...file(), ...args)

beforeAll(async () => {
  site = await CliSite.open()
  payer = site.payer('payer.json')
  await wallet('create', '--seed-file', path('seed'), ...file())
  await site.fund(payer, USDC, '1000')
  const made = await onChain('deposit', ...rich(), '--mint', USDC, '--amount', '600')
  note = /note +([0-9a-f]{64})/.exec(made.out)![1]!
}, 20_000)
afterAll(() => site.close())

function expectRefusal({ code, error }: Said, expected: number, sentence: string): void {
  expect(error).toContain(sentence)
  expect(error).not.toContain('    at ')
  expect(code).toBe(expected)
}
const deposits = (): number => loadWallet(path('wallet.json'))!.counters(0).deposits

test('a node that is not there, is none, or is no address at all', async () => {
  const at = (url: string, ...args: string[]) =>
    wallet(...args, '--rpc', url, '--program', site.program_id, ...file(), ...GAPS)
  expectRefusal(await at('here', 'sync'), 64, '--rpc is the URL of a Solana node')
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('<html>hello') })
  expectRefusal(await at(server.url.href, 'sync'), 2, 'does not answer as a Solana node does')
  await server.stop(true)
  const gone = server.url.href
  const deposit = ['deposit', ...rich(), '--mint', USDC, '--amount', '1']
  const [read, write] = await Promise.all([
    at(gone, 'exit', 'status'),
    // Its own wallet: one command at a time.
    wallet(...deposit, '--rpc', gone, '--program', site.program_id, '--wallet', other('gone.json')),
  ])
  for (const refused of [read, write]) expectRefusal(refused, 2, `no answer from ${gone}: check --rpc`)
}, 30_000)

/** A wallet of the same seed in another file. */
function other(name: string): string {
  writeFileSync(path(name), readFileSync(path('wallet.json')), { mode: 0o600 })
  return path(name)
}

test('a payer without SOL or without tokens, another mint, an amount that is none', async () => {
  const before = deposits()
  const poor = site.payer('poor.json')
  const by = (key: string, mint: string, amount: string) =>
    onChain('deposit', '--payer', path(key), '--mint', mint, '--amount', amount)
  expectRefusal(await by('poor.json', USDC, '1'), 1, `the payer ${poor} holds 0 lamports`)
  expectRefusal(await by('payer.json', USDC, '100000'), 1, 'holds 400 units')
  expectRefusal(await by('payer.json', poor, '1'), 1, `the vault of this program takes no ${poor}`)
  expectRefusal(await by('payer.json', USDC, '0'), 64, '--amount is a whole number of base units above 0')
  expectRefusal(await by('payer.json', 'dollars', '1'), 64, '--mint is not a Solana address')
  expectRefusal(await onChain('exit request', '--payer', path('poor.json'), '--note', note), 1, 'send it SOL')
  expect(deposits()).toBe(before)
}, 40_000)

test('a destination that could not be paid, a note that is not there', async () => {
  const ask = (...args: string[]) => onChain('exit request', ...rich(), ...args)
  await site.fund(payer, JTO, '5')
  const jto = await accountOf(JTO)
  expectRefusal(await ask('--note', note, '--destination', payer), 64, `is not a token account of ${USDC}`)
  expectRefusal(await ask('--note', note, '--destination', jto), 64, `holds ${JTO}, not ${USDC}`)
  const stranger = '1'.repeat(64)
  expectRefusal(await ask('--note', stranger), 64, "'sync' finds what it lacks")
  expectRefusal(await ask('--note', 'mine'), 64, '--note is 64 lowercase hex digits')
  expect(loadWallet(path('wallet.json'))!.note(note)?.state).toBe('free')
}, 30_000)

async function accountOf(mint: string): Promise<string> {
  const { associatedTokenAddress } = await import('../../sandbox/chain/token_instructions')
  return associatedTokenAddress(payer, mint)
}

test('another seed has no notes, and is told to look at itself', async () => {
  await wallet('create', '--seed-file', path('other'))
  const from = ['--seed-file', path('other'), '--wallet', path('empty.json')]
  const { code, out } = await wallet('recover', ...site.where, ...from, ...GAPS)
  expect([code, notesIn(out)]).toEqual([0, []])
  expect(out).toContain('is it the right one')
}, 20_000)

test('a file of a later version, or of another kind, is not touched', async () => {
  const content = JSON.parse(readFileSync(path('wallet.json'), 'utf8')) as { version: number }
  expect(content.version).toBe(1)
  const later = JSON.stringify({ ...content, version: 2 })
  writeFileSync(path('later.json'), later, { mode: 0o600 })
  expectRefusal(await wallet('notes', '--wallet', path('later.json')), 64, 'has version 2')
  expect(readFileSync(path('later.json'), 'utf8')).toBe(later)
  expectRefusal(await wallet('notes', '--wallet', path('seed')), 64, 'recover it from its seed')
}, 20_000)

test('two commands never work on one wallet at a time, and a lock whose process is gone is taken over', async () => {
  const lock = path('wallet.json.lock')
  writeFileSync(lock, String(process.pid))
  expectRefusal(await onChain('sync', ...GAPS), 64, 'another command uses')
  const gone = Bun.spawn(['true'])
  await gone.exited
  writeFileSync(lock, String(gone.pid))
  expect(await onChain('sync', ...GAPS)).toMatchObject({ code: 0 })
  expect(existsSync(lock)).toBe(false)
}, 20_000)

/** Ends a command by Ctrl-C once `sent` holds. */
async function interrupted(sent: () => boolean, ...args: string[]): Promise<void> {
  const child = site.start(...args, ...site.where, ...file(), ...rich())
  while (!sent()) await Bun.sleep(5)
  child.kill('SIGINT')
  expectRefusal(await said(child), 130, 'may still land')
}

test('Ctrl-C while a deposit is on its way: the next takes its own blinding, and sync finds the first', async () => {
  const before = deposits()
  site.chain.faults.landing_delay_slots = 100
  const pay = ['deposit', '--mint', USDC, '--amount']
  await interrupted(() => deposits() > before, ...pay, '40')
  site.chain.faults.landing_delay_slots = 0
  const second = await wallet(...pay, '7', ...site.where, ...file(), ...rich())
  expect(second).toMatchObject({ code: 0, error: '' })
  expect(deposits()).toBe(before + 2)
  site.chain.advance(120)
  const { out } = await onChain('sync', ...GAPS)
  const amounts = loadWallet(path('wallet.json'))!.state.notes.map(({ amount }) => amount)
  expect(amounts.filter((amount) => amount !== '40').sort()).toEqual(['600', '7'])
  // Whether the node had it already when Ctrl-C came is not ours to say; if it landed, it is found.
  expect(out).toContain(`${amounts.includes('40') ? 1 : 0} notes new`)
}, 30_000)

test('Ctrl-C while an exit is asked for: asked again, it is told to stand; refused, served or missed as any other', async () => {
  site.chain.faults.landing_delay_slots = 100
  const state = () => loadWallet(path('wallet.json'))!.note(note)!.state
  await interrupted(() => state() === 'pending', 'exit', 'request', '--note', note)
  site.chain.faults.landing_delay_slots = 0
  site.chain.advance(120)
  const again = await onChain('exit request', ...rich(), '--note', note)
  if (again.code !== 0) expectRefusal(again, 1, "'exit status' tells its deadline")
  expect((await onChain('exit status')).out).toContain('requested, deadline')
  const nullifier = toHex(nullifierOfNote(loadWallet(path('wallet.json'))!.note(note)!))
  const of_it = ['--nullifier', nullifier]
  expectRefusal(await onChain('exit refuse', ...rich(), ...of_it), 1, 'the note is not spent')
  site.chain.warpTime(EXIT_DELAY_S + 10)
  site.chain.advance(2)
  expect(await onChain('exit freeze', ...rich(), ...of_it)).toMatchObject({ code: 0 })
  expectRefusal(
    await onChain('exit freeze', ...rich(), ...of_it),
    1,
    "'exit status' tells what a frozen vault",
  )
  expectRefusal(await onChain('deposit', ...rich(), '--mint', USDC, '--amount', '1'), 1, 'vault_frozen')
}, 40_000)

test('sync finds what the wallet file never knew, in a frozen vault too', async () => {
  site.chain.advance(10)
  const known = loadWallet(path('wallet.json'))!.state.notes.length
  await wallet('create', '--seed-file', path('unused'), '--wallet', path('unused.json'))
  const state = { ...loadWallet(path('unused.json'))!.state }
  const seed = readFileSync(path('seed'), 'utf8').trim()
  writeFileSync(path('wallet.json'), JSON.stringify({ seed, state }), { mode: 0o600 })
  expect((await onChain('sync', ...GAPS)).out).toContain(`${known} notes new, 0 found spent`)
}, 40_000)
