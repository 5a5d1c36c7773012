/** The Python package as a trader has it: installed from its wheel, held to the vectors of all clients, and traded with. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openChainAccess } from '../../client/chain/chain_access'
import { readPeer } from '../../client/verify/collect/pinned_transport'
import { preparePlace } from '../../client/wallet/prepare'
import { passwordKey, seal, unseal } from '../../client/wallet/sealed_text'
import { Wallet } from '../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../client/wallet/wallet_file'
import { fromHex, toHex } from '../../protocol/bytes'
import type { Order } from '../../protocol/wire/trading'
import { SOL, USDC } from '../../sandbox/environment'
import { fundTrader, openAccount } from '../faults/kit/open_trader'
import { VenueProcess } from '../faults/kit/venue_process'
import { installClient, PYTHON_CLIENT } from '../kit/python/installed_client'

const installed = await installClient()
const python = 'python' in installed ? installed.python : ''
const venue = new VenueProcess()
beforeAll(async () => {
  await venue.start()
}, 180_000)
afterAll(() => venue.remove())

const test_file = (name: string) => join(PYTHON_CLIENT, 'tests', name)
/** `-P`: the sources next to the script are not on the path, only the wheel is. */
const start = (script: string, ...args: string[]) =>
  Bun.spawn([python, '-P', script, ...args], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...process.env, PYTHONPATH: join(PYTHON_CLIENT, 'tests') },
  })

test.skipIf(python === '')('the wheel computes every vector of a trader', async () => {
  expect(await ended(start(test_file('test_vectors.py')))).toMatch(/Ran 9 tests in [0-9.]+s\n\nOK\n$/)
})

test.skipIf(python === '')(
  'a venue, a network and another program that lie are named errors and change nothing',
  async () => {
    expect(await ended(start(test_file('test_hostile.py')))).toMatch(/Ran 23 tests in [0-9.]+s\n\nOK\n$/)
    // Standard error also has the lying server's log of the sockets that are closed on it.
    expect(await ended(start(test_file('test_front.py')))).toMatch(/Ran 3 tests in [0-9.]+s\n\nOK\n$/)
    expect(await ended(start(test_file('test_stream.py')))).toMatch(/Ran 6 tests in [0-9.]+s\n\nOK\n$/)
    expect(await ended(start(test_file('test_wallet.py')))).toMatch(/Ran 1 test in [0-9.]+s\n\nOK\n$/)
  },
  180_000,
)

test.skipIf(python === '')('a wallet under a password is read and written by both clients', async () => {
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const path = join(mkdtempSync(join(tmpdir(), 'tacit-sealed-')), 'wallet.json')
  const password = 'Ünïcode e\u0301 passphrase'
  // As a page writes it: with the seed of the key that pays its fees.
  const page = { payer_seed: '5a'.repeat(32), seed: toHex(wallet.seed), state: wallet.state }
  const sealed = seal(JSON.stringify(page), passwordKey(password))
  writeFileSync(path, JSON.stringify({ version: 3, sealed }), { mode: 0o600 })
  const change = 'wallet.counters(0)["commands"] = 7; wallet.save(); wallet.close()'
  const script = `import sys; from tacit_client import Wallet; wallet = Wallet.load(*sys.argv[1:]); ${change}`
  expect(await ended(start('-c', script, path, password.normalize('NFC')))).toBe('')
  const kept = loadWallet(path, password)!
  expect([kept.seed, kept.state.keys]).toEqual([wallet.seed, [{ commands: 7, deposits: 0, cancels: 0 }]])
  const written = readFileSync(path, 'utf8')
  expect(written).not.toMatch(/commands|seed/)
  const text = unseal(JSON.parse(written).sealed, passwordKey(password, JSON.parse(written).sealed.salt))!
  expect(JSON.parse(text).payer_seed).toBe(page.payer_seed)
  const wrong = start('-c', script, path, 'another')
  expect(await new Response(wrong.stderr).text()).toContain('ValueError: the password is another one')
  const none = start('-c', script, path)
  expect(await new Response(none.stderr).text()).toContain('ValueError: the wallet is encrypted')
})

/** Standard error, when it has ended with 0. */
async function ended(child: Bun.Subprocess<'ignore', 'pipe', 'pipe'>): Promise<string> {
  const said = await new Response(child.stderr).text()
  expect({ said, code: await child.exited }).toMatchObject({ code: 0 })
  return said
}

async function openTrader(name: string, mint: string, amount: bigint) {
  const { client, credentials } = await openAccount(venue, name)
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const trader = { chain, wallet, client, keys: 1 } as never
  await fundTrader(trader, venue.facts.program_id, new Map([[mint, amount]]), 1)
  return { client, credentials, wallet }
}
type Said = { resting: string } & { signature: string; balances: Record<string, string>; free: number }

test.skipIf(python === '')(
  'it logs in, places, cancels, and streams to a finalized fill',
  async () => {
    const [own, other] = [
      await openTrader('python', USDC, 400_000_000n),
      await openTrader('other', SOL, 5_000_000_000n),
    ]
    const folder = mkdtempSync(join(tmpdir(), 'tacit-trade-'))
    const [login, path] = [join(folder, 'login.json'), join(folder, 'wallet.json')]
    writeFileSync(login, JSON.stringify(own.credentials))
    saveWallet(path, own.wallet)
    const child = start(test_file('trade.py'), venue.facts.url, venue.facts.certificate, login, path)
    const outcome = ended(child)
    const said = {} as Said
    const sell = async () => {
      const [instrument, { slot }] = await Promise.all([
        other.client.instrument('SOL-USDC'),
        other.client.time(),
      ])
      const [amount, price_limit] = [1_000_000_000n, 149_000_000n]
      const terms = { instrument, side: 'sell', amount, price_limit, expiry_slot: slot + 3_000 } as const
      const venue_id = fromHex((await other.client.info()).venue, 32)!
      await other.client.place(
        preparePlace(other.wallet, venue_id, terms, other.wallet.noteFor(SOL, amount)!),
      )
    }
    let rest = ''
    for await (const bytes of child.stdout) {
      const lines = `${rest}${new TextDecoder().decode(bytes)}`.split('\n')
      rest = lines.pop()!
      for (const line of lines) {
        const facts = JSON.parse(line)
        Object.assign(said, facts)
        if (facts.resting !== undefined) await sell()
      }
    }
    expect(await outcome).toBe('')

    // The venue's order, the TypeScript reading of the wallet, and the Python books agree to the unit.
    const { fills, status }: Order = await own.client.order(said.resting)
    expect(status).toBe('filled')
    expect(fills.at(-1)).toMatchObject({ stage: 'finalized', signature: said.signature })
    const sum = (name: 'amount' | 'quote_amount' | 'fee') =>
      fills.reduce((all, fill) => all + BigInt(fill[name]), 0n)
    const kept = loadWallet(path)!
    expect(said.balances).toEqual({
      [SOL]: String(sum('amount')),
      [USDC]: String(400_000_000n - sum('quote_amount') - sum('fee')),
    })
    for (const mint of [SOL, USDC]) expect(String(kept.balance(mint))).toBe(said.balances[mint]!)
    expect(kept.state.fees).toEqual([{ mint: USDC, amount: String(sum('fee')) }])
    expect(kept.state).toMatchObject({ requests: [], keys: [{ commands: 3, cancels: 5 }] })
    expect(said.free).toBe(2)
  },
  120_000,
)

test.skipIf(python === '')(
  'the README’s block places and cancels an order of the demo account',
  async () => {
    const { wallet } = await openTrader('reader', USDC, 200_000_000n)
    const folder = mkdtempSync(join(tmpdir(), 'tacit-readme-'))
    const [script, path] = [join(folder, 'readme.py'), join(folder, 'wallet.json')]
    saveWallet(path, wallet)
    const text = readFileSync(join(PYTHON_CLIENT, 'README.md'), 'utf8')
    const block = /```py\n(.*?)```/s.exec(text)![1]!
    writeFileSync(
      script,
      block.replace('"data"', `"${venue.data_dir}"`).replace('"wallet.json"', `"${path}"`),
    )
    expect(await ended(start(script))).toBe('')
    expect(loadWallet(path)!.state.orders.map(({ filled }) => filled)).toEqual(['0'])
    expect(loadWallet(path)!.state.keys).toMatchObject([{ commands: 1, cancels: 1 }])
  },
  120_000,
)

test('a client that trusts the certificate’s file alone meets no other key when a venue starts again', async () => {
  const port = new URL(venue.facts.url).port
  await venue.kill()
  const started = venue.launch({ TACIT_LISTEN: `127.0.0.1:${port}` })
  let serves = false
  void started.then(() => {
    serves = true
  })
  let seen = 0
  while (!serves || seen === 0) {
    const trusted = readFileSync(venue.facts.certificate, 'utf8')
    const shown = await readPeer(new URL(venue.facts.url), 1_000).catch(() => undefined)
    if (shown !== undefined) expect(shown.leaf_pem.trim()).toBe(trusted.trim())
    if (shown !== undefined) seen++
    await Bun.sleep(1)
  }
}, 120_000)
