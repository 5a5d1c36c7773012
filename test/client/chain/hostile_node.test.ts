/** The error names a node whose answers are too long, too deep, redirected or of unknown codes; memory and calls stay bounded. */
import { afterEach, expect, test } from 'bun:test'
import { chainFailure, openChainReader } from '../../../client/chain/chain_access'
import { RPC_ANSWER_BYTES_MAX } from '../../../protocol/limits'

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
