/** Failures that a wallet's owner can meet: each names its remedy, and a second try finds everything unchanged. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nullifierOfNote } from '../../../client/wallet/absorb'
import type { WalletOrder, WalletPayment, WalletState } from '../../../client/wallet/wallet'
import { loadWallet } from '../../../client/wallet/wallet_file'
import { toHex } from '../../../protocol/bytes'
import { JTO, USDC } from '../../../sandbox/environment'
import { type Said, said } from '../../kit/said'
import { CliSite, EXIT_DELAY_S, notesIn, usdc } from '../cli_site'

const GAPS = ['--gap-keys', '1', '--gap-deposits', '5', '--gap-commands', '5']

const ORDER: WalletOrder = {
  order_id: '01'.repeat(16),
  key_index: 0,
  command: 0,
  nonce: '1',
  anchor_count: 4,
  symbol: 'SOL-USDC',
  side: 'buy',
  base_mint: USDC,
  quote_mint: USDC,
  base_decimals: 9,
  fee_bps: 5,
  price_limit: '1',
  collateral: '02'.repeat(32),
  consumed: [],
  filled: '0',
  quote: '0',
  fee: '0',
  open: true,
}
const PAYMENT: WalletPayment = {
  id: 'x',
  kind: 'withdrawal',
  key_index: 0,
  command: 0,
  inputs: [],
  amounts: ['1'],
  refund: { commitment: '02'.repeat(32), mint: '', generation: 0 },
}

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
  const made = await onChain('deposit', ...rich(), USDC, usdc(600))
  note = /note +([0-9a-f]{64})/.exec(made.out)![1]!
}, 120_000)
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
  expectRefusal(await at(server.url.href, 'sync'), 3, 'does not answer as a Solana node does')
  await server.stop(true)
  const gone = server.url.href
  const deposit = ['deposit', USDC, usdc(1), ...rich()]
  const [read, write] = await Promise.all([
    wallet('exit', 'status', '--rpc', gone, '--program', site.program_id, ...file()),
    // Its own wallet: one command at a time.
    wallet(...deposit, '--rpc', gone, '--program', site.program_id, '--wallet', other('gone.json')),
  ])
  for (const refused of [read, write]) expectRefusal(refused, 3, `no answer from ${gone}: check --rpc`)
}, 120_000)

/** A wallet of the same seed in another file. */
function other(name: string): string {
  writeFileSync(path(name), readFileSync(path('wallet.json')), { mode: 0o600 })
  return path(name)
}

test('a payer without SOL or without tokens, another mint, an amount that is none', async () => {
  const before = deposits()
  const poor = site.payer('poor.json')
  const by = (key: string, mint: string, amount: string) =>
    onChain('deposit', '--payer', path(key), mint, amount)
  expectRefusal(await by('poor.json', USDC, usdc(1)), 1, `the payer ${poor} holds 0 lamports`)
  expectRefusal(await by('payer.json', USDC, usdc(100_000)), 1, 'holds 0.0004 tokens')
  expectRefusal(await by('payer.json', poor, '1'), 64, `there is no mint ${poor}`)
  expectRefusal(await by('payer.json', USDC, '0'), 64, 'AMOUNT is 0')
  expectRefusal(await by('payer.json', 'dollars', '1'), 64, 'TOKEN is not a Solana address')
  expectRefusal(await onChain('exit request', '--payer', path('poor.json'), '--note', note), 1, 'send it SOL')
  expect(deposits()).toBe(before)
}, 120_000)

test('a destination that could not be paid, a note that is not there', async () => {
  const ask = (...args: string[]) => onChain('exit request', ...rich(), ...args)
  await site.fund(payer, JTO, '5')
  const jto = await accountOf(JTO)
  expectRefusal(await ask('--note', note, '--destination', payer), 64, `is not a token account of ${USDC}`)
  expectRefusal(await ask('--note', note, '--destination', jto), 64, `holds ${JTO}, not ${USDC}`)
  const stranger = '1'.repeat(64)
  expectRefusal(await ask('--note', stranger), 64, "'sync' finds missing ones")
  expectRefusal(await ask('--note', 'mine'), 64, '--note is 64 lowercase hex digits')
  expect(loadWallet(path('wallet.json'))!.note(note)?.state).toBe('free')
}, 120_000)

async function accountOf(mint: string): Promise<string> {
  const { associatedTokenAddress } = await import('../../../sandbox/chain/faucet')
  return associatedTokenAddress(payer, mint)
}

test('another seed has no notes, and the message asks to check the seed', async () => {
  await wallet('create', '--seed-file', path('other'))
  const from = ['--seed-file', path('other'), '--wallet', path('empty.json')]
  const { code, out } = await wallet('recover', ...site.where, ...from, ...GAPS)
  expect([code, notesIn(out)]).toEqual([0, []])
  expect(out).toContain('is it the right one')
}, 120_000)

test('a file of a later version, or of another kind, is not touched', async () => {
  const content = JSON.parse(readFileSync(path('wallet.json'), 'utf8')) as { version: number }
  expect(content.version).toBe(1)
  const later = JSON.stringify({ ...content, version: 4 })
  writeFileSync(path('later.json'), later, { mode: 0o600 })
  expectRefusal(await wallet('notes', '--wallet', path('later.json')), 64, 'has version 4')
  expect(readFileSync(path('later.json'), 'utf8')).toBe(later)
  expectRefusal(await wallet('notes', '--wallet', path('seed')), 64, 'recover it from its seed')
}, 120_000)

test('two commands never work on one wallet or archive at a time, and a killed one holds up none', async () => {
  const lock = path('wallet.json.lock')
  const asked = Promise.withResolvers<void>()
  const silent = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => {
      asked.resolve()
      return new Promise<Response>(() => {})
    },
  })
  const at = ['--rpc', silent.url.href, '--program', site.program_id]
  const holder = site.start('sync', ...at, ...file(), ...GAPS)
  await asked.promise
  expectRefusal(await onChain('sync', ...GAPS), 64, `another program uses ${path('wallet.json')}`)
  // It changes no wallet, but extends the history next to it.
  expectRefusal(await onChain('exit pay', ...rich(), '--note', note), 64, 'another program uses')
  holder.kill('SIGKILL')
  await holder.exited
  expect(existsSync(lock)).toBe(true)
  expect(await onChain('sync', ...GAPS)).toMatchObject({ code: 0 })
  const archive = () => said(tacit('archive', ...site.where, '--out', path('public')))
  const archiver = tacit('archive', ...at, '--out', `${path('public')}/`)
  while (!existsSync(path('public.lock'))) await Bun.sleep(5)
  let second = await archive()
  while (second.code === 0) second = await archive()
  expectRefusal(second, 64, `another program uses ${path('public')}`)
  archiver.kill('SIGKILL')
  await archiver.exited
  expect(await archive()).toMatchObject({ code: 0, error: '' })
  await silent.stop(true)
}, 120_000)
const tacit = (...args: string[]) => {
  const main = join(import.meta.dir, '../../../client/cli/tacit.ts')
  return Bun.spawn([process.execPath, main, ...args], { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' })
}

test('a disk that takes no more is named, and leaves the wallet and its history as they were', async () => {
  const before = readFileSync(path('wallet.json'))
  const main = join(import.meta.dir, '../../../client/cli/tacit.ts')
  const limited = (...args: string[]) =>
    said(
      Bun.spawn(
        [
          'sh',
          '-c',
          'trap \'\' XFSZ; ulimit -f 1; exec "$@"',
          'sh',
          process.execPath,
          main,
          'wallet',
          ...args,
        ],
        {
          stdout: 'pipe',
          stderr: 'pipe',
          stdin: 'ignore',
        },
      ),
    )
  rmSync(path('wallet.json.history'), { recursive: true, force: true })
  const history = await limited('sync', ...site.where, ...file(), ...GAPS)
  expectRefusal(history, 74, '00000000.block cannot be written: EFBIG')
  const archived = [...site.where, '--archive', path('public')]
  const saved = await limited('sync', ...archived, ...file(), ...GAPS)
  expectRefusal(saved, 74, 'wallet.json cannot be written: EFBIG')
  expect(readFileSync(path('wallet.json')).equals(before)).toBe(true)
  expect(existsSync(path('wallet.json.new'))).toBe(false)
}, 120_000)

test('a damaged wallet is named by the place of its damage, and no damage is taken for a node', async () => {
  const whole = readFileSync(path('wallet.json'), 'utf8')
  const damages: [string, (state: WalletState) => void][] = [
    ['state.notes[0]', ({ notes }) => notes.splice(0, 1, null as never)],
    ['state.notes[0].amount', ({ notes }) => Object.assign(notes[0]!, { amount: 'abc' })],
    ['state.notes[0].amount', ({ notes }) => Object.assign(notes[0]!, { amount: String(2n ** 64n) })],
    ['state.notes[0].commitment', ({ notes }) => Object.assign(notes[0]!, { commitment: 'ff' })],
    ['state.notes[0].mint', ({ notes }) => Object.assign(notes[0]!, { mint: 'dollars' })],
    ['state.notes[0].state', ({ notes }) => Object.assign(notes[0]!, { state: 'Free' })],
    ['state.notes[0].leaf_index', ({ notes }) => Object.assign(notes[0]!, { leaf_index: -1 })],
    ['state.keys[0].deposits', ({ keys }) => Object.assign(keys[0]!, { deposits: '9' })],
    ['state.orders[0].consumed', ({ orders }) => orders.push({ ...ORDER, consumed: 1 as never })],
    ['state.orders[0].consumed[1]', ({ orders }) => orders.push({ ...ORDER, consumed: [note, 'x'] })],
    ['state.orders[0].open', ({ orders }) => orders.push({ ...ORDER, open: 'no' as never })],
    ['state.payments[0].refund.mint', ({ payments }) => payments.push(PAYMENT)],
    ['state.fees[0].amount', ({ fees }) => fees.push({ mint: USDC, amount: '-1' })],
    ['state.fees', (state) => Object.assign(state, { fees: {} })],
  ]
  for (const [place, damage] of damages) {
    const content = JSON.parse(whole) as { state: WalletState }
    damage(content.state)
    writeFileSync(path('damaged.json'), JSON.stringify(content), { mode: 0o600 })
    const refused = await wallet('notes', '--wallet', path('damaged.json'))
    expectRefusal(refused, 64, `damaged.json is damaged at ${place}: recover it from its seed`)
  }
}, 120_000)

test('a mistyped command is a usage error', async () => {
  expectRefusal(await wallet('notes', ...file(), ...file()), 64, '--wallet is given twice')
  const stray = await said(tacit('archive', ...site.where, '--out', path('stray'), 'stray'))
  expectRefusal(stray, 64, 'usage: tacit')
  expect(existsSync(path('stray'))).toBe(false)
  const inside = `${path('wallet.json')}/x`
  expectRefusal(await wallet('address', '--payer', inside), 64, 'the file of --payer cannot be read')
  const [bell, bare] = ['bell\u0007\u001b[2J.json', 'bell\\u0007\\u001b[2J.json']
  expectRefusal(await wallet('notes', '--wallet', bell), 64, bare)
}, 120_000)

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
  const pay = ['deposit', USDC]
  await interrupted(() => deposits() > before, ...pay, usdc(40))
  site.chain.faults.landing_delay_slots = 0
  const second = await wallet(...pay, usdc(7), ...site.where, ...file(), ...rich())
  expect(second).toMatchObject({ code: 0, error: '' })
  expect(deposits()).toBe(before + 2)
  site.chain.advance(120)
  const { out } = await onChain('sync', ...GAPS)
  const amounts = loadWallet(path('wallet.json'))!.state.notes.map(({ amount }) => amount)
  expect(amounts.filter((amount) => amount !== '40').sort()).toEqual(['600', '7'])
  // Whether the node had it already when Ctrl-C came is not ours to say; if it landed, it is found.
  expect(out).toContain(`${amounts.includes('40') ? 1 : 0} notes new`)
}, 120_000)

test('Ctrl-C while an exit is asked for: asked again, it is told to stand; refused, served or missed as any other', async () => {
  site.chain.faults.landing_delay_slots = 100
  const state = () => loadWallet(path('wallet.json'))!.note(note)!.state
  await interrupted(() => state() === 'pending', 'exit', 'request', '--note', note)
  site.chain.faults.landing_delay_slots = 0
  site.chain.advance(120)
  const again = await onChain('exit request', ...rich(), '--note', note)
  if (again.code !== 0) expectRefusal(again, 1, "'exit status' shows its deadline")
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
    "'exit status' lists what a frozen vault",
  )
  expectRefusal(await onChain('deposit', ...rich(), USDC, usdc(1)), 1, 'vault_frozen')
}, 120_000)

test('sync finds notes that the wallet file never had, in a frozen vault too', async () => {
  site.chain.advance(10)
  const known = loadWallet(path('wallet.json'))!.state.notes.length
  await wallet('create', '--seed-file', path('unused'), '--wallet', path('unused.json'))
  const state = { ...loadWallet(path('unused.json'))!.state }
  const seed = readFileSync(path('seed'), 'utf8').trim()
  writeFileSync(path('wallet.json'), JSON.stringify({ seed, state }), { mode: 0o600 })
  expect((await onChain('sync', ...GAPS)).out).toContain(`${known} notes new, 0 found spent`)
  // A copy that reused a blinding would show that both deposits are of one wallet.
  const { notes, keys } = loadWallet(path('wallet.json'))!.state
  const deposited = notes.filter(({ origin }) => origin === 'deposit').length
  expect(deposited).toBeGreaterThan(0)
  expect(keys[0]!.deposits).toBeGreaterThanOrEqual(deposited)
}, 120_000)
