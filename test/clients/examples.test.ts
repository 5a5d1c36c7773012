/** The examples trade against each other, in both languages, and their books equal the venue's. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { VenueClient } from '../../client/api/venue_client'
import { openChainAccess } from '../../client/chain/chain_access'
import { airdrop, mintTo } from '../../client/chain/deposit'
import { ownAccount, tokenBalance } from '../../client/chain/read_vault'
import { Wallet } from '../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../client/wallet/wallet_file'
import type { Fill } from '../../protocol/wire/trading'
import { SOL, USDC } from '../../sandbox/environment'
import { onceServed } from '../faults/kit/load_trader'
import { DEPOSITED, fundTrader, openAccount } from '../faults/kit/open_trader'
import { VenueProcess } from '../faults/kit/venue_process'
import { installClient } from '../kit/python/installed_client'
import { said } from '../kit/said'

const EXAMPLES = join(import.meta.dir, '../../examples')
const installed = await installClient()
const python = 'python' in installed ? installed.python : ''
const folder = mkdtempSync(join(tmpdir(), 'tacit-examples-'))

/** The same after a restart, as a deployed venue's are. */
function freePort(): number {
  using taken = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  return taken.port
}
const venue = new VenueProcess({ TACIT_LISTEN: `127.0.0.1:${freePort()}` })
beforeAll(() => venue.start(), 180_000)
afterAll(() => venue.remove())

type Shown = { fills: number; base: string; quote: string; fees: string; balances: Record<string, string> }
type Trader = { client: VenueClient; wallet: string; child: ReturnType<typeof start> }

const start = (script: string, ...args: string[]) =>
  Bun.spawn([script.endsWith('.py') ? python : process.execPath, join(EXAMPLES, script), ...args], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })

/** An account with a funded wallet, and the files that an example is given. */
async function open(name: string, notes: number) {
  const { client, credentials } = await openAccount(venue, name)
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  await fundTrader({ chain, wallet, client, keys: 1 } as never, venue.facts.program_id, DEPOSITED, notes)
  const [path, login] = [join(folder, `${name}.wallet`), join(folder, `${name}.login`)]
  saveWallet(path, wallet)
  writeFileSync(login, JSON.stringify(credentials))
  return { client, wallet: path, login }
}

async function run(script: string, seconds: number): Promise<Trader> {
  const { client, wallet, login } = await open(`${script}-${seconds}`, 1)
  return { client, wallet, child: start(script, venue.data_dir, wallet, login, String(seconds)) }
}

/** Its output, once it ended without an error. */
async function outputOf(child: ReturnType<typeof start>): Promise<string> {
  const { out, ...ended } = await said(child)
  expect(ended).toEqual({ error: '', code: 0 })
  return out
}

async function fillsOf(client: VenueClient): Promise<Fill[]> {
  const fills: Fill[] = []
  for (let after: number | null = 0; after !== null; ) {
    const from: number = after
    const page = await onceServed(() => client.fills({ after: from, limit: 100 }))
    fills.push(...page.items)
    after = page.next_after
  }
  return fills
}

/** Own books, the wallet's notes and the venue's fills, which it returns, say the same to the unit. */
async function settleBooks({ client, wallet, child }: Trader): Promise<Fill[]> {
  const shown: Shown = JSON.parse(await outputOf(child))
  let [base, quote, fees] = [0n, 0n, 0n]
  const fills = await fillsOf(client)
  for (const { side, amount, quote_amount, fee } of fills) {
    const sign = side === 'buy' ? 1n : -1n
    base += sign * BigInt(amount)
    quote -= sign * BigInt(quote_amount) + BigInt(fee)
    fees += BigInt(fee)
  }
  const balances: Record<string, string> = {
    [SOL]: String(DEPOSITED.get(SOL)! + base),
    [USDC]: String(DEPOSITED.get(USDC)! + quote),
  }
  const expected = { fills: fills.length, base: String(base), quote: String(quote), fees: String(fees) }
  console.log(`books ${JSON.stringify(shown)}`)
  expect(shown).toEqual({ ...expected, balances })
  const kept = loadWallet(wallet)!
  for (const mint of [SOL, USDC]) expect(String(kept.balance(mint))).toBe(balances[mint]!)
  expect(kept.state.notes.filter(({ state }) => state === 'pending')).toEqual([])
  return fills
}

test.skipIf(python === '').each(['treasury.ts', 'treasury.py'])(
  '%s merges, splits and withdraws, and its wallet has the rest',
  async (script) => {
    const trader = await open(script, 3)
    const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
    await airdrop(chain, 1_000_000_000n)
    await mintTo(chain, USDC, 1n)
    const { bytes, text } = ownAccount(chain, USDC)
    const child = start(script, venue.data_dir, trader.wallet, trader.login, USDC, '123.45', text)
    const shown = JSON.parse(await outputOf(child))
    const deposited = 3n * DEPOSITED.get(USDC)!
    const after = deposited - 123_450_000n - BigInt(shown.fee)
    expect(shown).toMatchObject({ before: String(deposited), after: String(after), withdrawal: 'paid' })
    expect(shown.notes).toBeGreaterThanOrEqual(3)
    expect(await tokenBalance(chain, bytes)).toBe(123_450_001n)
    const kept = loadWallet(trader.wallet)!
    expect(kept.balance(USDC)).toBe(after)
    expect(kept.state).toMatchObject({ requests: [], payments: [{ inputs: { length: 3 } }, {}, {}] })
    expect(kept.state.fees).toEqual([{ mint: USDC, amount: shown.fee }])
  },
  120_000,
)

test('the auditors find nothing to say against the venue', async () => {
  const { login } = await open('auditor', 1)
  const shown = JSON.parse(await outputOf(start('auditor.ts', venue.data_dir, login)))
  expect(shown).toMatchObject({ faults: [], history: 'agrees', compose_hash: venue.facts.compose_hash })
  const published =
    python === '' ? undefined : JSON.parse(await outputOf(start('auditor.py', venue.data_dir, login)))
  expect(published ?? shown).toMatchObject({ faults: [], compose_hash: venue.facts.compose_hash })
  for (const { balance, owed } of shown.reserves) expect(BigInt(balance)).toBeGreaterThanOrEqual(BigInt(owed))
  expect(shown.reserves.some(({ owed }: { owed: string }) => owed !== '0')).toBe(true)
}, 120_000)

test('a missing word and a login of another account end an example in one line', async () => {
  for (const script of ['maker.ts', 'taker.ts', 'treasury.ts', 'auditor.ts']) {
    const { code, out, error } = await said(start(script))
    expect([code, out, error]).toEqual([1, '', expect.stringMatching(/^usage: bun examples\/\S+ DATA .+\n$/)])
    expect(error).toContain(` examples/${script} `)
  }
  const { wallet, login } = await open('mistaken', 1)
  const credentials = { ...JSON.parse(readFileSync(login, 'utf8')), account_id: '07'.repeat(32) }
  writeFileSync(login, JSON.stringify(credentials))
  const { code, error } = await said(start('maker.ts', venue.data_dir, wallet, login, '1'))
  expect([code, error]).toEqual([
    1,
    expect.stringMatching(/^the venue logs this credential in to another .*\n$/),
  ])
}, 120_000)

/** A port that another program has until it is disposed of. */
const holdPort = (url: string) =>
  Bun.listen({ hostname: '127.0.0.1', port: Number(new URL(url).port), socket: { data() {} } })
/** Seconds; without them the traders are interrupted once both traded on. */
const { TACIT_EXAMPLES_S } = process.env
const LENGTH_S = Number(TACIT_EXAMPLES_S ?? 300)

/** Waits until each trader has a fill of a later slot. */
async function filled(traders: readonly Trader[], slot: number): Promise<void> {
  for (const { client, child } of traders)
    while (!(await fillsOf(client)).some((fill) => fill.slot > slot)) {
      if (child.exitCode !== null) throw new Error(`a trader ended before a fill: ${await outputOf(child)}`)
      await Bun.sleep(100)
    }
}

test.skipIf(python === '').each([
  ['maker.py', 'taker.ts'],
  ['maker.ts', 'taker.py'],
] as const)(
  '%s and %s trade on after a kill of the venue, whose chain then serves at another port',
  async (maker, taker) => {
    const traders = [await run(maker, LENGTH_S), await run(taker, LENGTH_S)]
    await filled(traders, -1)
    if (TACIT_EXAMPLES_S !== undefined) await Bun.sleep((LENGTH_S / 2 - 10) * 1_000)
    const { slot } = await traders[0]!.client.time()
    const { rpc_url } = venue.facts
    await venue.kill()
    using _taken = holdPort(rpc_url)
    await venue.start()
    expect(venue.facts.rpc_url).not.toBe(rpc_url)
    await filled(traders, slot)
    if (TACIT_EXAMPLES_S === undefined) for (const { child } of traders) child.kill('SIGINT')
    for (const trader of traders) {
      const slots = (await settleBooks(trader)).map((fill) => fill.slot > slot)
      expect(slots).toContain(true)
      expect(slots).toContain(false)
    }
  },
  LENGTH_S * 1_000 + 600_000,
)
