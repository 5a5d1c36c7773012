/** Nodes that answer in another form, too long, deep or late: the error names the node, and sent transactions are not lost. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import {
  type ChainAccess,
  chainFailure,
  openChainAccess,
  openChainReader,
  patientRead,
  payerKey,
  toInstruction,
} from '../../../client/chain/chain_access'
import { readEventsFrom } from '../../../client/chain/current_history'
import { airdrop, deposit, mintTo, searchDeposits } from '../../../client/chain/deposit'
import { readOpenClaims } from '../../../client/chain/exit_note'
import { readVaultEvents } from '../../../client/chain/read_history'
import {
  createAssociatedAccount,
  ownAccount,
  readVaultState,
  tokenBalance,
} from '../../../client/chain/read_vault'
import { requireLamports, sendInstructions, TransactionFailed } from '../../../client/chain/send_instructions'
import { judge } from '../../../client/cli/failures'
import { Wallet } from '../../../client/wallet/wallet'
import { decodeBase58 } from '../../../protocol/base58'
import { RPC_ANSWER_BYTES_MAX } from '../../../protocol/limits'
import { transferLamports } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import { CliSite } from '../cli_site'
import { LyingNode } from '../lying_node'

let node: Bun.Server<undefined> | undefined
afterEach(() => node?.stop(true))

/** The client's words about a node that answers so. */
async function saidOf(
  fetch: (request: Request) => Response | Promise<Response>,
): Promise<string | undefined> {
  node = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch })
  const { rpc, rpc_url } = openChainReader(node.url.href)
  const failure = await rpc
    .getSlot()
    .send()
    .catch((error: unknown) => error)
  return chainFailure(failure, rpc_url)?.replace(rpc_url, 'URL')
}

test('an answer without an end is read up to a bound', async () => {
  const CHUNK = new Uint8Array(1 << 20).fill(0x20)
  let sent = 0
  const said = await saidOf(() => {
    const body = new ReadableStream({
      pull(stream) {
        sent += CHUNK.length
        // An unbounded reader must end, too.
        if (sent > 16 * RPC_ANSWER_BYTES_MAX) stream.close()
        else stream.enqueue(CHUNK)
      },
    })
    return new Response(body)
  })
  expect(said).toBe('the node at URL answered too much')
  expect(sent).toBeLessThan(4 * RPC_ANSWER_BYTES_MAX)
}, 120_000)

test('nesting, text and other values are not an answer', async () => {
  const others = [
    '['.repeat(500_000),
    '7',
    'null',
    '[]',
    '{}',
    '{"error":{}}',
    '{"error":{"code":"x","message":"y"}}',
    '{"error":{"code":1.5,"message":"y"}}',
    '{"error":{"code":-32099,"message":7}}',
  ]
  for (const text of others)
    expect([text.slice(0, 40), await saidOf(() => new Response(text))]).toEqual([
      text.slice(0, 40),
      'URL does not answer as a Solana node does: check --rpc',
    ])
}, 120_000)

test('a refusal by a code that the library does not know is printed, without control characters', async () => {
  const error = { code: -32_099, message: 'over your plan\n\u001b[2Jok' }
  expect(await saidOf(() => Response.json({ jsonrpc: '2.0', id: 1, error }))).toBe(
    'the node at URL refuses: over your plan\\u000a\\u001b[2Jok (-32099)',
  )
}, 120_000)

test('a redirect is not followed', async () => {
  let elsewhere = 0
  for (const status of [302, 307])
    expect(
      await saidOf(({ url }) => {
        if (url.endsWith('/elsewhere')) elsewhere += 1
        const headers = { location: '/elsewhere' }
        return url.endsWith('/elsewhere')
          ? Response.json({ jsonrpc: '2.0', id: 1, result: 5 })
          : new Response('', { status, headers })
      }),
    ).toBe(`the node at URL answers HTTP ${status}: is it a Solana JSON-RPC endpoint?`)
  expect(elsewhere).toBe(0)
}, 120_000)

test('an amount that a double rounds is never read', async () => {
  node = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () =>
      new Response('{"jsonrpc":"2.0","id":1,"result":{"context":{"slot":1},"value":9007199254740993}}'),
  })
  const { rpc } = openChainReader(node.url.href)
  const read = rpc.getBalance('11111111111111111111111111111111' as never).send()
  expect(await read.catch((error: unknown) => error)).toBeInstanceOf(SyntaxError)
}, 120_000)

let site: CliSite
let answering: LyingNode
let chain: ChainAccess
beforeAll(async () => {
  site = await CliSite.open()
  await site.deposit(new Wallet(new Uint8Array(32).fill(7)), 1_000n, 2_000n)
  answering = new LyingNode(site.chain.url)
  chain = await openChainAccess(answering.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(chain.payer.address, USDC, '1')
}, 180_000)
afterAll(async () => {
  await answering.stop()
  await site.close()
})

const balance = () => tokenBalance(chain, ownAccount(chain, USDC).bytes)
/** Another transaction each time. */
const send = (access: ChainAccess) => {
  const owner = crypto.getRandomValues(new Uint8Array(32))
  return sendInstructions(
    access,
    [createAssociatedAccount(access, owner, decodeBase58(USDC, 32)!)],
    'confirmed',
  )
}
/** A caller of each method, and whether null is an answer of it. */
const READERS: Record<string, { read: () => Promise<unknown>; may_be_null?: true }> = {
  getMultipleAccounts: { read: () => readVaultState(chain, site.program_id) },
  getGenesisHash: { read: () => readEventsFrom(chain, site.program_id, {}) },
  getSignaturesForAddress: { read: () => readVaultEvents(chain, site.program_id) },
  getTransaction: { read: () => readVaultEvents(chain, site.program_id), may_be_null: true },
  getProgramAccounts: { read: () => readOpenClaims(chain, site.program_id) },
  getAccountInfo: { read: balance },
  getTokenAccountBalance: { read: balance },
  getMinimumBalanceForRentExemption: { read: () => requireLamports(chain, [165]) },
  getBalance: { read: () => requireLamports(chain, [165]) },
  getLatestBlockhash: { read: () => send(chain) },
  getSignatureStatuses: { read: () => send(chain) },
  getBlockHeight: { read: () => send(chain) },
  sendTransaction: { read: () => send(chain) },
  simulateTransaction: {
    read: () => send({ ...chain, rehearsal: { lamports: 0n } }).catch(({ code }) => code),
  },
}
const WRONG: readonly unknown[] = [null, 7, -1, 1.5, 'x', true, [], [null], {}, [[]]]

/** The places of a value, of lists the first element's. */
function placesOf(value: unknown, depth = 6): (string | number)[][] {
  if (typeof value !== 'object' || value === null || depth === 0) return [[]]
  const names = Array.isArray(value) ? [...value.keys()].slice(0, 1) : Object.keys(value)
  const inner = names.flatMap((name) =>
    placesOf((value as Record<string | number, unknown>)[name], depth - 1).map((place) => [name, ...place]),
  )
  return [[], ...inner]
}
function changedAt(value: unknown, [name, ...rest]: readonly (string | number)[], to: unknown): unknown {
  if (name === undefined) return to
  const copy: Record<string | number, unknown> = Array.isArray(value)
    ? ([...value] as never)
    : { ...(value as object) }
  copy[name] = changedAt(copy[name], rest, to)
  return copy
}

for (const [method, { read, may_be_null }] of Object.entries(READERS))
  test(`${method} of another type`, async () => {
    let truth: unknown
    answering.lies = {
      [method]: (result) => {
        truth = result
        return result
      },
    }
    await read()
    expect(truth).toBeDefined()
    const said: unknown[] = []
    for (const place of placesOf(truth))
      for (const to of WRONG) {
        answering.lies = { [method]: (result) => changedAt(result, place, to) }
        const error = await read().then(
          () => undefined,
          (thrown: Error) => thrown,
        )
        if (error === undefined) continue
        const { message = `${error.stack}` } = judge(error, 'URL') ?? {}
        const is_of_node = message === 'URL does not answer as a Solana node does: check --rpc'
        const is_root = place.length === 0 && !Array.isArray(truth) && !(may_be_null && to === null)
        const has_type = is_root && typeof to === typeof truth && typeof truth !== 'object'
        if (is_root && !has_type ? !is_of_node : /connection is lost|\n|undefined/.test(message))
          said.push([place.join('.'), to, message])
      }
    answering.lies = {}
    expect(said).toEqual([])
  }, 240_000)

const UNKNOWN = { context: { slot: 1 }, value: [null] }

let sending: CliSite
let liar: LyingNode
beforeAll(async () => {
  sending = await CliSite.open()
  liar = new LyingNode(sending.chain.url)
}, 120_000)
beforeEach(() => {
  sending.chain.faults.landing_delay_slots = 0
  liar.lies = {}
})
afterAll(async () => {
  await liar.stop()
  await sending.close()
})

async function access(urls: string): Promise<ChainAccess> {
  const chain = await openChainAccess(urls, crypto.getRandomValues(new Uint8Array(32)))
  await sending.fund(chain.payer.address, USDC, '1')
  return chain
}
function sendTransfer(chain: ChainAccess): Promise<string> {
  const transfer = transferLamports(payerKey(chain), payerKey(chain), 1n)
  return sendInstructions(chain, [toInstruction(transfer, [chain.payer])], 'confirmed')
}

test('one that lands while the height is read has landed', async () => {
  const chain = await access(liar.url)
  sending.chain.faults.landing_delay_slots = 100
  liar.lies = {
    getBlockHeight: () => {
      sending.chain.advance(120)
      return 2 ** 40
    },
  }
  expect(await sendTransfer(chain)).toBeString()
}, 120_000)

test('one that another node still has in its lifetime is waited for', async () => {
  const chain = await access(`${liar.url},${sending.chain.url}`)
  let asked = 0
  liar.lies = {
    getBlockHeight: () => 2 ** 40,
    getSignatureStatuses: (told) => (asked++ < 3 ? UNKNOWN : told),
  }
  sending.chain.faults.landing_delay_slots = 100
  const sent = sendTransfer(chain)
  while (asked < 3) await Bun.sleep(5)
  sending.chain.advance(120)
  expect(await sent).toBeString()
}, 120_000)

test('one that no node knows after its lifetime will never land', async () => {
  const chain = await access(liar.url)
  liar.lies = {
    sendTransaction: () => 'dropped',
    getBlockHeight: () => 2 ** 40,
    getSignatureStatuses: () => UNKNOWN,
  }
  const error = await sendTransfer(chain).catch(({ message }: Error) => message)
  expect(error).toContain('expired before it landed')
}, 120_000)

test('one that a single node of two calls final has not landed', async () => {
  const chain = await access(`${liar.url},${sending.chain.url}`)
  const final = {
    context: { slot: 1 },
    value: [{ slot: 1, confirmations: null, err: null, confirmationStatus: 'finalized' }],
  }
  sending.chain.faults.drop = () => true
  liar.lies = { getSignatureStatuses: () => final }
  const sent = sendTransfer(chain).catch(({ message }: Error) => message)
  const passes = setInterval(() => sending.chain.advance(10), 5)
  expect(await sent).toMatch(/^nodes disagree on \w+: .+ shows it, .+ not\. Ask another node/)
  clearInterval(passes)
  sending.chain.faults.drop = () => false
}, 180_000)

test('one that a single node of three calls failed has landed', async () => {
  const chain = await access(`${liar.url},${sending.chain.url},${sending.chain.url}`)
  const failed = {
    context: { slot: 1 },
    value: [{ slot: 1, confirmations: null, err: 'AccountInUse', confirmationStatus: 'finalized' }],
  }
  liar.lies = { getSignatureStatuses: () => failed }
  expect(await sendTransfer(chain)).toBeString()
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
      return fetch(sending.chain.url, { method: 'POST', headers: request.headers, body })
    },
  })
  const chain = await access(proxy.url.href)
  const failure = () => sendTransfer(chain).catch((error: Error) => error)
  const refused = await failure()
  expect(refused).toBeInstanceOf(TransactionFailed)
  failing = 'getBlockHeight'
  for (const text of [(refused as Error).message, chainFailure(await failure(), 'it')]) {
    expect(text).toContain('no\\u001b[2J\\u000alanded')
    expect(text).toMatch(/^[\x20-\x7e]+$/)
  }
  await proxy.stop(true)
}, 120_000)

test('the faucet of a sandbox chain gives the requested amount', async () => {
  const chain = await openChainAccess(liar.url, crypto.getRandomValues(new Uint8Array(32)))
  await airdrop(chain, 7_000_000n)
  await mintTo(chain, USDC, 5n)
  const held = () => tokenBalance(chain, ownAccount(chain, USDC).bytes)
  while ((await held()) === 0n) await Bun.sleep(20)
  const { value } = await chain.rpc.getBalance(chain.payer.address, { commitment: 'confirmed' }).send()
  expect([value as bigint, await held()]).toEqual([7_000_000n, 5n])
}, 120_000)

test("a simulation names the transaction's cost, or why it fails, and sends nothing", async () => {
  const rehearsal = { lamports: 0n }
  const chain = { ...(await access(liar.url)), rehearsal }
  let sent = 0
  const failure = () => sendTransfer(chain).catch((error: Error) => error)
  liar.lies = { sendTransaction: (told) => [told, sent++] }
  const lamports = await requireLamports(chain, [165])
  expect(lamports).toBeGreaterThan(10_000n)
  expect(await failure()).toMatchObject({ code: 'not_sent', facts: { lamports } })
  liar.lies.simulateTransaction = (told) => {
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
  await sending.fund(chain.payer.address, USDC, '5000000')
  const wallet = new Wallet(seed)
  const terms = { program_id: sending.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  const { note } = await deposit(chain, wallet, terms)
  expect(wallet.freeNotes(USDC)).toEqual([note])
  return wallet
}

test('a deposit that was sent and may still land keeps its blinding; one that was never sent gives it back', async () => {
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const chain = await openChainAccess(liar.url, wallet.seed)
  await sending.fund(chain.payer.address, USDC, '5000000')
  const terms = { program_id: sending.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  for (const [method, deposits] of [
    ['getMultipleAccounts', 0],
    ['getSignatureStatuses', 1],
  ] as const) {
    liar.lies = { [method]: () => 'x' }
    expect(await deposit(chain, wallet, terms).catch((error: Error) => error)).toBeInstanceOf(Error)
    expect([method, wallet.counters(0).deposits]).toEqual([method, deposits])
  }
}, 120_000)

test('a node that serves the transaction late is asked again', async () => {
  let asked = 0
  liar.lies = { getTransaction: (told) => (asked++ < 3 ? null : told) }
  expect((await deposited(liar.url)).balance(USDC)).toBe(5_000_000n)
  expect(asked).toBe(4)
}, 120_000)

test('where one node never serves it, another is asked', async () => {
  liar.lies = { getTransaction: () => null }
  expect((await deposited(`${liar.url},${sending.chain.url}`)).balance(USDC)).toBe(5_000_000n)
}, 120_000)

test('where none serves it, the refusal names the deposit, and the next takes another blinding', async () => {
  liar.lies = { getTransaction: () => null }
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const chain = await openChainAccess(liar.url, seed)
  await sending.fund(chain.payer.address, USDC, '5000000')
  const wallet = new Wallet(seed)
  const terms = { program_id: sending.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  await expect(deposit(chain, wallet, terms)).rejects.toThrow(/^the deposit \w+ is final, but no node shows/)
  expect(wallet.counters(0).deposits).toBe(1)
  // As the next program does, which no longer knows the transaction.
  const look = searchDeposits(chain, wallet, sending.program_id)
  await expect(look()).rejects.toThrow(/the node lists/)
  liar.lies = {}
  expect(await look()).toEqual(wallet.freeNotes(USDC))
  expect([wallet.balance(USDC), await look()]).toEqual([5_000_000n, undefined])
  // Of a place that was taken, and a deposit that never landed.
  wallet.counters(0).deposits = 2
  expect(await searchDeposits(chain, wallet, sending.program_id)()).toEqual([])
}, 120_000)
