/** A transaction has expired only when its lifetime is over and no node knows it; a deposit may be final before one serves it. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import {
  type ChainAccess,
  chainFailure,
  openChainAccess,
  openChainReader,
  patientRead,
  payerKey,
  toInstruction,
} from '../../../client/chain/chain_access'
import { airdrop, deposit, mintTo, searchDeposits } from '../../../client/chain/deposit'
import { requireLamports, sendInstructions, TransactionFailed } from '../../../client/chain/send_instructions'
import { ownAccount, tokenBalance } from '../../../client/chain/token_account'
import { Wallet } from '../../../client/wallet/wallet'
import { transferLamports } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import { CliSite } from '../cli_site'
import { LyingNode } from '../lying_node'

const UNKNOWN = { context: { slot: 1 }, value: [null] }

let site: CliSite
let node: LyingNode
beforeAll(async () => {
  site = await CliSite.open()
  node = new LyingNode(site.chain.url)
}, 120_000)
beforeEach(() => {
  site.chain.faults.landing_delay_slots = 0
  node.lies = {}
})
afterAll(async () => {
  await node.stop()
  await site.close()
})

async function access(urls: string): Promise<ChainAccess> {
  const chain = await openChainAccess(urls, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(chain.payer.address, USDC, '1')
  return chain
}
function send(chain: ChainAccess): Promise<string> {
  const transfer = transferLamports(payerKey(chain), payerKey(chain), 1n)
  return sendInstructions(chain, [toInstruction(transfer, [chain.payer])], 'confirmed')
}

test('one that lands while the height is read has landed', async () => {
  const chain = await access(node.url)
  site.chain.faults.landing_delay_slots = 100
  node.lies = {
    getBlockHeight: () => {
      site.chain.advance(120)
      return 2 ** 40
    },
  }
  expect(await send(chain)).toBeString()
}, 120_000)

test('one that another node still has in its lifetime is waited for', async () => {
  const chain = await access(`${node.url},${site.chain.url}`)
  let asked = 0
  node.lies = {
    getBlockHeight: () => 2 ** 40,
    getSignatureStatuses: (told) => (asked++ < 3 ? UNKNOWN : told),
  }
  site.chain.faults.landing_delay_slots = 100
  const sent = send(chain)
  while (asked < 3) await Bun.sleep(5)
  site.chain.advance(120)
  expect(await sent).toBeString()
}, 120_000)

test('one that no node knows after its lifetime will never land', async () => {
  const chain = await access(node.url)
  node.lies = {
    sendTransaction: () => 'dropped',
    getBlockHeight: () => 2 ** 40,
    getSignatureStatuses: () => UNKNOWN,
  }
  const error = await send(chain).catch(({ message }: Error) => message)
  expect(error).toContain('expired before it landed')
}, 120_000)

test('one that a single node of two calls final has not landed', async () => {
  const chain = await access(`${node.url},${site.chain.url}`)
  const final = {
    context: { slot: 1 },
    value: [{ slot: 1, confirmations: null, err: null, confirmationStatus: 'finalized' }],
  }
  site.chain.faults.drop = () => true
  node.lies = { getSignatureStatuses: () => final }
  const sent = send(chain).catch(({ message }: Error) => message)
  const passes = setInterval(() => site.chain.advance(10), 5)
  expect(await sent).toMatch(/^nodes disagree on \w+: .+ shows it, .+ not\. Ask another node/)
  clearInterval(passes)
  site.chain.faults.drop = () => false
}, 180_000)

test('one that a single node of three calls failed has landed', async () => {
  const chain = await access(`${node.url},${site.chain.url},${site.chain.url}`)
  const failed = {
    context: { slot: 1 },
    value: [{ slot: 1, confirmations: null, err: 'AccountInUse', confirmationStatus: 'finalized' }],
  }
  node.lies = { getSignatureStatuses: () => failed }
  expect(await send(chain)).toBeString()
}, 120_000)

test('the text of a node is quoted as one printable line', async () => {
  const evil = 'no\u001b[2J\nlanded: all is well'
  const errors: Record<string, object> = {
    sendTransaction: { code: -32002, message: evil, data: { err: evil, logs: [], accounts: null } },
    getBlockHeight: { code: -32603, message: evil },
  }
  let failing = 'sendTransaction'
  const proxy = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const body = await request.text()
      const { id, method } = JSON.parse(body) as { id: number; method: string }
      if (method === failing) return Response.json({ jsonrpc: '2.0', id, error: errors[method] })
      return fetch(site.chain.url, { method: 'POST', headers: request.headers, body })
    },
  })
  const chain = await access(proxy.url.href)
  const failure = () => send(chain).catch((error: Error) => error)
  const refused = await failure()
  expect(refused).toBeInstanceOf(TransactionFailed)
  failing = 'getBlockHeight'
  for (const text of [(refused as Error).message, chainFailure(await failure(), 'it')]) {
    expect(text).toContain('no\\u001b[2J\\u000alanded')
    expect(text).toMatch(/^[\x20-\x7e]+$/)
  }
  await proxy.stop(true)
}, 120_000)

test('the faucet of a sandbox chain gives what is asked of it', async () => {
  const chain = await openChainAccess(node.url, crypto.getRandomValues(new Uint8Array(32)))
  await airdrop(chain, 7_000_000n)
  await mintTo(chain, USDC, 5n)
  const held = () => tokenBalance(chain, ownAccount(chain, USDC).bytes)
  while ((await held()) === 0n) await Bun.sleep(20)
  const { value } = await chain.rpc.getBalance(chain.payer.address, { commitment: 'confirmed' }).send()
  expect([value as bigint, await held()]).toEqual([7_000_000n, 5n])
}, 120_000)

test('a simulation names what the transaction takes, or why it fails, and sends nothing', async () => {
  const rehearsal = { lamports: 0n }
  const chain = { ...(await access(node.url)), rehearsal }
  let sent = 0
  const failure = () => send(chain).catch((error: Error) => error)
  node.lies = { sendTransaction: (told) => [told, sent++] }
  const lamports = await requireLamports(chain, [165])
  expect(lamports).toBeGreaterThan(10_000n)
  expect(await failure()).toMatchObject({ code: 'not_sent', facts: { lamports } })
  node.lies.simulateTransaction = (told) => {
    const { value, ...rest } = told as { value: object }
    return { ...rest, value: { ...value, err: 'AccountInUse' } }
  }
  expect(await failure()).toMatchObject({
    code: 'transaction_failed',
    message: 'the transaction fails in its simulation',
  })
  expect(sent).toBe(0)
}, 120_000)

test('a node that takes a request and never answers ends the wait, and is named', async () => {
  const silent = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Promise<Response>(() => {}) })
  const { rpc } = openChainReader(silent.url.href, 50)
  const failure = await patientRead(() => rpc.getSlot().send()).catch((error: unknown) => error)
  expect(chainFailure(failure, silent.url.href)).toStartWith(`no answer from ${silent.url.href}`)
  await silent.stop(true)
}, 120_000)

async function deposited(urls: string): Promise<Wallet> {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const chain = await openChainAccess(urls, seed)
  await site.fund(chain.payer.address, USDC, '5000000')
  const wallet = new Wallet(seed)
  const terms = { program_id: site.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  const { note } = await deposit(chain, wallet, terms)
  expect(wallet.freeNotes(USDC)).toEqual([note])
  return wallet
}

test('a deposit that was sent and may still land keeps its blinding; one that was never sent gives it back', async () => {
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const chain = await openChainAccess(node.url, wallet.seed)
  await site.fund(chain.payer.address, USDC, '5000000')
  const terms = { program_id: site.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  for (const [method, deposits] of [
    ['getMultipleAccounts', 0],
    ['getSignatureStatuses', 1],
  ] as const) {
    node.lies = { [method]: () => 'x' }
    expect(await deposit(chain, wallet, terms).catch((error: Error) => error)).toBeInstanceOf(Error)
    expect([method, wallet.counters(0).deposits]).toEqual([method, deposits])
  }
}, 120_000)

test('a node that serves the transaction late is asked again', async () => {
  let asked = 0
  node.lies = { getTransaction: (told) => (asked++ < 3 ? null : told) }
  expect((await deposited(node.url)).balance(USDC)).toBe(5_000_000n)
  expect(asked).toBe(4)
}, 120_000)

test('where one node never serves it, another is asked', async () => {
  node.lies = { getTransaction: () => null }
  expect((await deposited(`${node.url},${site.chain.url}`)).balance(USDC)).toBe(5_000_000n)
}, 120_000)

test('where none serves it, the refusal names the deposit, and the next takes a blinding of its own', async () => {
  node.lies = { getTransaction: () => null }
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const chain = await openChainAccess(node.url, seed)
  await site.fund(chain.payer.address, USDC, '5000000')
  const wallet = new Wallet(seed)
  const terms = { program_id: site.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  await expect(deposit(chain, wallet, terms)).rejects.toThrow(/^the deposit \w+ is final, but no node shows/)
  expect(wallet.counters(0).deposits).toBe(1)
  // As the next program does, which no longer knows the transaction.
  const look = searchDeposits(chain, wallet, site.program_id)
  await expect(look()).rejects.toThrow(/the node lists/)
  node.lies = {}
  expect(await look()).toEqual(wallet.freeNotes(USDC))
  expect([wallet.balance(USDC), await look()]).toEqual([5_000_000n, undefined])
  // Of a place that was taken, and a deposit that never landed.
  wallet.counters(0).deposits = 2
  expect(await searchDeposits(chain, wallet, site.program_id)()).toEqual([])
}, 120_000)
