/** The error names a node whose answers have another form or are too long, deep or redirected; memory and calls stay bounded. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import {
  type ChainAccess,
  chainFailure,
  openChainAccess,
  openChainReader,
} from '../../../client/chain/chain_access'
import { readOpenClaims } from '../../../client/chain/claims'
import { readEventsFrom } from '../../../client/chain/current_history'
import { readVaultEvents } from '../../../client/chain/read_history'
import { readVaultState } from '../../../client/chain/read_vault'
import { requireLamports, sendInstructions } from '../../../client/chain/send_instructions'
import { createAssociatedAccount, ownAccount, tokenBalance } from '../../../client/chain/token_account'
import { judge } from '../../../client/cli/failures'
import { Wallet } from '../../../client/wallet/wallet'
import { decodeBase58 } from '../../../protocol/base58'
import { RPC_ANSWER_BYTES_MAX } from '../../../protocol/limits'
import { USDC } from '../../../sandbox/environment'
import { CliSite } from '../cli_site'
import { LyingNode } from '../lying_node'

let node: Bun.Server<undefined> | undefined
afterEach(() => node?.stop(true))

/** What a client says of a node that answers so. */
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

test('a refusal by a code that the library does not know is printed, without what rewrites a terminal', async () => {
  const error = { code: -32_099, message: 'over your plan\n\u001b[2Jok' }
  expect(await saidOf(() => Response.json({ jsonrpc: '2.0', id: 1, error }))).toBe(
    'the node at URL refuses: over your plan\\u000a\\u001b[2Jok (-32099)',
  )
}, 120_000)

test('nobody is sent elsewhere', async () => {
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
