/** Every provider that answers soon counts; one that hangs, or reads no v1 transaction, holds nothing up. */

import { expect, test } from 'bun:test'
import { ChainUnavailable, RpcPool } from '../../../engine/chain/client/rpc_pool'
import { epochOfSigned, RelayedBatch } from '../../../engine/chain/relayer/batch'
import { LIMITS } from '../../../engine/limits'
import { RPC_ANSWER_BYTES_MAX } from '../../../protocol/limits'
import { VaultWorld } from '../../kit/chain/vault_world'

test('a provider that answers after the quorum, but soon, is heard each time', async () => {
  const urls = ['one', 'two', 'three'].map((name) => `http://${name}.example`)
  const pool = new RpcPool(urls, 1_000)
  const ask = async (_: unknown, at: number) => {
    if (at === 2) await Bun.sleep(20)
    return at
  }
  for (let time = 0; time < 3; time++) {
    const answers = await pool.all(ask)
    expect(answers.map(({ value }) => value)).toEqual([0, 1, 2])
  }
  pool.close()
})

test('a provider that takes requests and never answers holds up no question to the others', async () => {
  const ended = Promise.withResolvers<void>()
  let hung = 0
  const serve = (fetch: () => Response | Promise<Response>) =>
    Bun.serve({ hostname: '127.0.0.1', port: 0, fetch })
  const silent = serve(async () => {
    hung += 1
    await ended.promise
    return new Response('')
  })
  const honest = [1, 2].map(() => serve(() => Response.json({ jsonrpc: '2.0', id: '0', result: 7 })))
  const pool = new RpcPool(
    [silent, ...honest].map(({ port }) => `http://127.0.0.1:${port}`),
    60_000,
  )
  // The runtime has 256 requests under way at most, to all hosts together.
  for (let time = 0; time < 300; time++) {
    const answers = await pool.all((reader) =>
      reader.read((endpoint, abortSignal) => endpoint.getBlockHeight().send({ abortSignal })),
    )
    expect(answers.map(({ at }) => at).sort()).toEqual([1, 2])
  }
  expect(hung).toBe(LIMITS.rpc_pending_max)
  ended.resolve()
  pool.close()
  await Promise.all([silent, ...honest].map((one) => one.stop(true)))
}, 120_000)

test('an answer without an end is read up to a bound, and no provider sends the venue elsewhere', async () => {
  const CHUNK = new Uint8Array(1 << 20).fill(0x20)
  let [sent, elsewhere] = [0, 0]
  const endless = () =>
    new ReadableStream({
      pull(stream) {
        sent += CHUNK.length
        // An unbounded reader must end, too.
        if (sent > 16 * RPC_ANSWER_BYTES_MAX) stream.close()
        else stream.enqueue(CHUNK)
      },
    })
  const liar = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ url }) {
      const { pathname } = new URL(url)
      if (pathname === '/endless') return new Response(endless())
      if (pathname === '/redirect') return Response.redirect('/elsewhere', 307)
      elsewhere += 1
      return Response.json({ jsonrpc: '2.0', id: '0', result: 7 })
    },
  })
  const pool = new RpcPool(
    ['endless', 'redirect'].map((path) => liar.url.href + path),
    60_000,
  )
  for (const reader of pool.each) {
    const read = reader.read((endpoint, abortSignal) => endpoint.getBlockHeight().send({ abortSignal }))
    expect(await read.catch((error) => error)).toBeInstanceOf(ChainUnavailable)
  }
  expect(sent).toBeLessThan(4 * RPC_ANSWER_BYTES_MAX)
  expect(elsewhere).toBe(0)
  pool.close()
  await liar.stop(true)
}, 120_000)

type Call = { id: unknown; method: string }

/** Passes everything on but transactions, which it cannot read; counts those. */
function oldEndpoint(url: string): { url: string; refused: string[]; stop(): void } {
  const refused: string[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const body = await request.text()
      const { id, method } = JSON.parse(body) as Call
      if (method !== 'simulateTransaction' && method !== 'sendTransaction')
        return fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
      refused.push(method)
      const error = { code: -32602, message: 'failed to deserialize the transaction' }
      return Response.json({ jsonrpc: '2.0', id, error })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, refused, stop: () => void server.stop(true) }
}

test('batches land through the other provider, and nothing is degraded', async () => {
  const world = await VaultWorld.open()
  const old = oldEndpoint(world.chain.url)
  await world.deposit(5_000_000n)
  await world.boot({ connect: { rpc_urls: [old.url, world.chain.url] } })
  for (let batch = 1; batch <= 3; batch++) world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(3) === 'finalized')
  expect(old.refused).toContain('sendTransaction')
  expect(world.sink.halts).toEqual([])
  expect(world.port.health().reasons).toEqual([])
  await world.close()
  old.stop()
})

test('what every provider refuses for its form is told at once', async () => {
  const world = await VaultWorld.open()
  const old = [oldEndpoint(world.chain.url), oldEndpoint(world.chain.url)]
  await world.deposit(5_000_000n)
  const refusal = await world.boot({ connect: { rpc_urls: old.map(({ url }) => url) } }).then(
    () => 'opened',
    (error: Error) => error.message,
  )
  expect(refusal).toContain('failed to deserialize the transaction')
  expect(old.map(({ refused }) => refused)).toEqual([['sendTransaction'], ['sendTransaction']])
  await world.close()
  for (const { stop } of old) stop()
})

test('another run finds the epoch that a signed batch cites', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000n)
  await world.boot()
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  const [signed] = world.outbox.signings
  expect(epochOfSigned(signed!)).toBe(world.epoch)
  // What an earlier epoch signed is fenced: it is not sent again.
  expect(new RelayedBatch(1, signed, world.epoch).phase).toBe('live')
  expect(new RelayedBatch(1, signed, world.epoch + 1).phase).toBe('unsigned')
})
