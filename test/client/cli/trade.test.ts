/** The trading verbs of `tacit` against a real venue: the first line of each, its exit code, and every wrong input. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openChainAccess } from '../../../client/chain/chain_access'
import { ownAccount } from '../../../client/chain/read_vault'
import { readConfig } from '../../../client/cli/config'
import { Wallet } from '../../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../../client/wallet/wallet_file'
import { lockFile } from '../../../client/whole_file'
import { USDC } from '../../../sandbox/environment'
import { fundTrader, openAccount } from '../../faults/kit/open_trader'
import { VenueProcess } from '../../faults/kit/venue_process'
import { run as runIn } from '../../kit/said'

const CLI = join(import.meta.dir, '../../../client/cli/tacit.ts')
const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-verbs-'))
const at = (name: string): string => join(folder, name)
const BUY = ['place', 'SOL-USDC', 'buy', '1', '@', '140']
let destination = ''

beforeAll(async () => {
  await venue.start()
  const { client, credentials } = await openAccount(venue, 'ada')
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const amounts = new Map([[USDC, 200_000_000n]])
  await fundTrader({ chain, wallet, client, keys: 1 } as never, venue.facts.program_id, amounts, 4)
  destination = ownAccount(chain, USDC).text
  saveWallet(at('wallet.json'), wallet)
  writeFileSync(at('login.json'), JSON.stringify(credentials), { mode: 0o600 })
  const { url, policy, collateral } = venue.facts
  const found = ['--url', url, '--policy', policy, '--collateral', collateral]
  const own = ['--login', 'login.json', '--account', credentials.account_id, '--wallet', 'wallet.json']
  expect(await tacit('init', ...found, ...own)).toMatchObject({ code: 0, error: '' })
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

async function tacit(...args: string[]) {
  return run([process.execPath, CLI, ...args])
}
async function run(command: string[]) {
  const ended = await runIn(command, { cwd: folder })
  return { ...ended, first: (ended.out || ended.error).split('\n')[0]! }
}
const idIn = (out: string): string => /[0-9a-f]{32}/.exec(out)![0]

test('doctor says of each part whether it is as it should be', async () => {
  const { rpc_url, program_id } = venue.facts
  const { code, out, error } = await tacit('doctor', '--rpc', rpc_url, '--program', program_id)
  expect({ code, error }).toEqual({ code: 0, error: '' })
  const parts = ['settings', 'policy', 'venue', 'clock', 'login', 'account', 'wallet', 'node', 'vault']
  const found = out.trimEnd().split('\n')
  expect(found.map((line) => line.split(/ +/).slice(0, 2))).toEqual([
    ...parts.map((part) => ['ok', part]),
    ['skipped', 'payer'],
  ])
  const elsewhere = await tacit('doctor', '--rpc', rpc_url, '--program', USDC)
  expect([elsewhere.code, elsewhere.out]).toEqual([1, expect.stringMatching(/^fault {4}vault /m)])
  const kept = JSON.parse(readFileSync(at('wallet.json'), 'utf8'))
  const later = { ...kept, state: { ...kept.state, generation: 1 } }
  writeFileSync(at('later.json'), JSON.stringify(later), { mode: 0o600 })
  const outdated = await tacit('doctor', '--wallet', 'later.json', '--rpc', rpc_url, '--program', program_id)
  expect([outdated.code, outdated.out]).toEqual([
    1,
    expect.stringMatching(/^fault {4}wallet .*tacit wallet sync/m),
  ])
}, 120_000)

test('every verb works as its help says', async () => {
  const placed = await tacit(...BUY)
  expect(placed).toMatchObject({ code: 0, error: '' })
  expect(placed.out).toMatch(/^accepted {2}[0-9a-f]{32}\nreceipt {3}seq \d+, verified\n$/)
  const id = idIn(placed.out)
  expect((await tacit('orders')).first).toBe(`${id}  SOL-USDC buy 1 of 1 @ 140  limit  accepted`)
  const changed = await tacit('modify', id, '1', '@', '139.5', '--json')
  const { id: next, receipt } = JSON.parse(changed.out)
  expect(receipt.seq).toBeGreaterThan(0)
  expect((await tacit('order', next)).first).toBe(`${next}  SOL-USDC buy 1 of 1 @ 139.5  limit  accepted`)
  expect((await tacit('cancel', next)).first).toStartWith('accepted  ')
  expect((await tacit('order', next)).first).toEndWith('limit  cancelled')
  const late = await tacit('cancel', next)
  expect([late.code, late.first]).toEqual([1, expect.stringMatching(/^refused {3}order_final: /)])

  const ioc = idIn((await tacit(...BUY, '--ioc', '--min-fill', '0.5')).out)
  const watched = await tacit('watch', '--until', ioc)
  expect(watched).toMatchObject({ code: 0, error: '' })
  expect((await tacit('order', ioc, '--json')).out).toContain('"ioc_remainder"')
  expect((await tacit('fills')).first).toBe('no fills')
  const events = (await tacit('events')).out.trim().split('\n')
  expect(events.map((line) => JSON.parse(line).seq)).toEqual(events.map((_, index) => index + 1))
}, 120_000)

test('orders of a key end together, by command or by the timer', async () => {
  expect((await tacit('dead-man', '100000')).first).toStartWith('accepted  ')
  expect((await tacit(...BUY)).code).toBe(0)
  expect((await tacit('cancel-all')).first).toStartWith('accepted  ')
  expect((await tacit('dead-man', '0')).first).toStartWith('accepted  ')
  expect((await tacit('orders')).first).toBe('no orders')
  expect((await tacit('settle')).first).toBe('no request is open')
}, 120_000)

test('notes are listed, split, merged and withdrawn', async () => {
  const free = async () => {
    for (;;) {
      const { notes } = JSON.parse((await tacit('notes', '--json')).out) as {
        notes: { commitment: string; state: string }[]
      }
      if (notes.every(({ state }) => state === 'free')) return notes.map(({ commitment }) => commitment)
    }
  }
  const before = await free()
  expect((await tacit('split', before[0]!, '1000000')).first).toStartWith('accepted  ')
  const split = await free()
  expect(split).toHaveLength(before.length + 1)
  const made = split.filter((note) => !before.includes(note))
  expect((await tacit('merge', ...made)).first).toStartWith('accepted  ')
  expect(await free()).toHaveLength(before.length)
  expect((await tacit('withdraw', 'USDC', '1.5', destination)).first).toStartWith('accepted  ')
}, 120_000)

test('a dry run shows fee, collateral and notes, and changes nothing', async () => {
  const before = loadWallet(at('wallet.json'))!.state
  const free = before.notes.find(({ state, amount }) => state === 'free' && BigInt(amount) > 1_000_000n)!
  const shown = JSON.parse((await tacit(...BUY, '--dry-run', '--json')).out)
  // 140 USDC, and 5 basis points of it.
  expect(shown).toMatchObject({
    ok: true,
    fee: { amount: '70000' },
    collateral: { mint: USDC, amount: '140070000' },
  })
  expect(shown.left.amount).toBe(String(BigInt(shown.takes[0].amount) - 140_070_000n))
  const withdrawal = await tacit('withdraw', USDC, '1.5', destination, '--dry-run')
  expect(withdrawal).toMatchObject({ code: 0, error: '' })
  expect(withdrawal.out).toMatch(/^pays {9}1.5 USDC to \w+\nfee {10}\S+ USDC\nnote {9}[0-9a-f]{64} .*\nleft/)
  expect(withdrawal.out).toEndWith('nothing was sent\n')
  expect((await tacit('split', free.commitment, '1000000', '--dry-run')).out).toContain('1000000 base units')
  const split = await tacit('split', free.commitment, '1000000', '--dry-run', '--json')
  expect(JSON.parse(split.out)).toMatchObject({ fee: 0 })
  expect((await tacit('cancel-all', '--dry-run')).out).toBe('fee          none\nnothing was sent\n')
  const after = loadWallet(at('wallet.json'))!.state
  expect([after.keys, after.requests, after.orders]).toEqual([before.keys, before.requests, before.orders])
}, 120_000)

test('events are forwarded in order until they are taken, and go on from there', async () => {
  const taken: number[] = []
  let refusals = 2
  const receiver = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      if (refusals-- > 0) return new Response('', { status: 503 })
      expect(request.headers.get('tacit-generation')).toBe('0')
      taken.push((await request.json()).seq)
      return new Response('')
    },
  })
  const ended = JSON.parse((await tacit('orders', '--status', 'all', '--json')).out)[0].order_id
  const forwarded = () => tacit('watch', '--until', ended, '--forward-to', receiver.url.href)
  const first = await forwarded()
  expect(first.code).toBe(0)
  expect(first.error).toMatch(/answers 503 to event 1: it is sent again/)
  const counted = () => {
    const [last = 0, generation] = readFileSync(at('wallet.json.forwarded'), 'utf8').split(' ').map(Number)
    expect(generation).toBe(0)
    expect(taken).toEqual(Array.from({ length: last }, (_, index) => index + 1))
    return last
  }
  const before = counted()
  // Each login is an event too.
  expect(await forwarded()).toMatchObject({ code: 0, error: '' })
  expect(counted()).toBeGreaterThanOrEqual(before)
  // Of a later generation, as after a sync with a node that lies: the events of this one are numbered from 1.
  writeFileSync(at('wallet.json.forwarded'), '99 1\n')
  taken.length = 0
  expect(await forwarded()).toMatchObject({ code: 0, error: '' })
  expect(counted()).toBeGreaterThanOrEqual(before)
  await receiver.stop(true)
}, 120_000)

test('a command that is stopped anywhere, and a copy of the wallet that is behind, lose nothing', async () => {
  copyFileSync(at('wallet.json'), at('behind.json'))
  for (const [signal, after_ms] of [
    ['SIGKILL', 400],
    ['SIGINT', 700],
    ['SIGKILL', 1_000],
    ['SIGTERM', 1_300],
    ['SIGKILL', 1_600],
  ] as const) {
    const child = Bun.spawn([process.execPath, CLI, ...BUY], {
      cwd: folder,
      stdout: 'ignore',
      stderr: 'ignore',
    })
    setTimeout(() => child.kill(signal), after_ms)
    await child.exited
    // Everything in the file is settled, and the venue has no order that the file lacks.
    expect(await tacit('settle')).toMatchObject({ code: 0, error: '' })
    const shown = JSON.parse((await tacit('orders', '--json')).out) as { order_id: string }[]
    const open = loadWallet(at('wallet.json'))!.state.orders.filter((order) => order.open)
    expect(shown.map(({ order_id }) => order_id).sort()).toEqual(open.map(({ order_id }) => order_id).sort())
    expect((await tacit('cancel-all')).code).toBe(0)
  }
  // Its nonces are stale: the venue's are taken before the first order.
  const placed = await tacit(...BUY, '--wallet', 'behind.json')
  expect(placed).toMatchObject({ code: 0, error: '' })
  expect((await tacit('cancel', idIn(placed.out), '--wallet', 'behind.json')).code).toBe(0)
  expect((await tacit('orders')).first).toBe('no orders')
}, 300_000)

test('Ctrl-C says how to find the outcome of a sent command', async () => {
  const asked = Promise.withResolvers<void>()
  const socket = { open: () => asked.resolve(), data: () => undefined }
  const silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket })
  const command = [process.execPath, CLI, ...BUY, '--url', `https://127.0.0.1:${silent.port}`]
  const child = Bun.spawn(command, { cwd: folder, stdout: 'ignore', stderr: 'pipe' })
  await asked.promise
  child.kill('SIGINT')
  const said = await new Response(child.stderr).text()
  expect([await child.exited, said]).toEqual([
    130,
    "stopped; 'tacit settle' asks for the outcome of what was sent already\n",
  ])
  silent.stop(true)
}, 120_000)

/** Input, exit code, and a part of the message. */
const WRONG: [string[], number, string][] = [
  [['place', 'SOL-USDC', 'buy', '900', '@', '140'], 1, 'no free notes of one key cover the amount'],
  [['place', 'NO-SUCH', 'buy', '1', '@', '140'], 1, 'the venue refuses: instrument_unknown'],
  [['place', 'SOL-USDC', 'buy', '1', '@', '140.00000001'], 64, 'at most 6 decimals'],
  [['place', 'SOL-USDC', 'buy', '1e3', '@', '140'], 64, 'a decimal number'],
  [
    ['place', 'SOL-USDC', 'hold', '1', '@', '140'],
    64,
    "the side is buy or sell, not 'hold'\n\nusage: tacit place",
  ],
  [['place', 'SOL-USDC', 'buy', '1', '140'], 64, 'usage: tacit place'],
  [['place', 'SOL-USDC', 'buy', '1', 'at', '140'], 64, "'@' is expected between amount and price, not 'at'"],
  [['modify', '00'.repeat(16), '1', 'at', '140'], 64, "'@' is expected between amount and price, not 'at'"],
  [['withdraw', 'EURC', '1', USDC], 64, 'TOKEN is neither a mint nor the name of a token'],
  [['watch', '--until', '00'], 64, '--until is the id of an order, 32 hex digits'],
  [[...BUY, '--ioc', '--fok'], 64, 'exclude each other'],
  [[...BUY, '--nonsense'], 64, "^Unknown option '--nonsense'\n\nusage: tacit place"],
  [['cancel', '00'.repeat(16)], 64, 'the wallet has no such order'],
  [['modify', '00'.repeat(16), '1', '@', '140'], 64, 'the wallet has no such order'],
  [['merge', '00'.repeat(32), '00'.repeat(32)], 64, 'the wallet has no such note'],
  [['dead-man', 'soon'], 64, 'SLOTS is a whole number'],
  [['order', '11'.repeat(16)], 1, 'the venue refuses: order_unknown'],
  [['orders', '--wallet', 'absent.json'], 64, 'there is no wallet at absent.json'],
  [['orders', '--login', 'tacit.json'], 64, 'tacit.json does not name its account'],
  [
    ['orders', '--url', 'https://localhost:1'],
    3,
    'nothing answers at https://localhost:1: is the venue running',
  ],
  [['orders', '--url', 'http://localhost:1'], 64, '--url is an https address'],
  [['orders', '--url', 'https://localhost:1,http://localhost:2'], 64, '--url is an https address'],
  [['orders', '--policy', 'other.json'], 4, 'nothing was sent: the venue is refused: compose_hash'],
  [['init', '--wallet', 'x'], 64, 'tacit.json exists'],
  [['init', '--config', 'absent.json', '--url', 'localhost:3000'], 64, '--url is an https address'],
  [['init', '--config', 'absent.json', '--rpc', 'mainnet'], 64, '--rpc'],
  [['init', '--config', 'absent.json', '--program', 'vault'], 64, '--program'],
]

test('a wrong input is named, sends nothing and loses nothing', async () => {
  const policy = JSON.parse(readFileSync(venue.facts.policy, 'utf8'))
  writeFileSync(at('other.json'), JSON.stringify({ ...policy, compose_hashes: ['00'.repeat(32)] }))
  const before = loadWallet(at('wallet.json'))!.state
  const said: unknown[] = []
  for (const [args, , message] of WRONG) {
    const { code: ended, out, error } = await tacit(...args)
    said.push([args.join(' '), ended, out, new RegExp(message).test(error) ? message : error])
  }
  expect(said).toEqual(WRONG.map(([args, code, message]) => [args.join(' '), code, '', message]))
  const { keys, orders } = loadWallet(at('wallet.json'))!.state
  expect({ keys, orders }).toEqual({ keys: before.keys, orders: before.orders })
  expect(existsSync(at('absent.json.lock'))).toBe(false)
}, 600_000)

test('without settings the venue of this machine is found by its data', async () => {
  writeFileSync(at('empty.json'), '{}')
  const { code, error } = await tacit('transparency', '--config', 'empty.json', '--data', venue.data_dir)
  expect({ code, error }).toEqual({ code: 0, error: '' })
}, 120_000)

test('of the addresses of several nodes, the one that answers serves', async () => {
  const url = `https://localhost:1,${venue.facts.url}`
  expect(await tacit('orders', '--url', url)).toMatchObject({ code: 0, error: '' })
})

test('a wallet that is locked, encrypted or on a full disk sends nothing', async () => {
  const unlock = lockFile(at('wallet.json'))
  expect(await tacit(...BUY)).toMatchObject({
    code: 64,
    out: '',
    error: `another program uses wallet.json: wait for it to end\n`.replace('wallet.json', at('wallet.json')),
  })
  unlock()
  const limited = `trap '' XFSZ; ulimit -f 1; exec "$0" "$@"`
  const full = await run(['bash', '-c', limited, process.execPath, CLI, ...BUY])
  expect([full.code, full.out]).toEqual([74, ''])
  expect(full.error).toContain('wallet.json cannot be written: EFBIG')
  writeFileSync(at('password'), 'p', { mode: 0o600 })
  const wallet = loadWallet(at('wallet.json'))!
  saveWallet(at('wallet.json'), wallet, { password: 'p' })
  expect(await tacit(...BUY)).toMatchObject({ code: 64, out: '' })
  const placed = await tacit(...BUY, '--password-file', 'password')
  expect(placed.code).toBe(0)
  expect((await tacit('cancel', idIn(placed.out), '--password-file', 'password')).code).toBe(0)
}, 120_000)

test('a file’s name in tacit.json may have a comma; manifests are several', () => {
  const folder = mkdtempSync(join(tmpdir(), 'a, b-'))
  const config = join(folder, 'tacit.json')
  const names = { url: 'https://a,https://b', wallet: 'w,1.json', manifest: 'a.json,b.json' }
  writeFileSync(config, JSON.stringify(names))
  const { url, wallet, manifest } = readConfig((name) => (name === 'config' ? config : undefined))
  expect([url, wallet]).toEqual([names.url, join(folder, names.wallet)])
  expect(manifest).toBe(`${join(folder, 'a.json')},${join(folder, 'b.json')}`)
  rmSync(folder, { recursive: true })
})
