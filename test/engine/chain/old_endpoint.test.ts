/** Providers that read no v1 transaction: one of several holds nothing up, and only where all are no epoch opens. */
import { expect, test } from 'bun:test'
import { epochOfSigned, RelayedBatch } from '../../../engine/chain/relayer/batch'
import { VaultWorld } from '../../kit/chain/vault_world'

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
  const world = await VaultWorld.open()
  await world.deposit(1_000n)
  await world.boot()
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  const [signed] = world.outbox.signings
  expect(epochOfSigned(signed!)).toBe(world.epoch)
  // What an earlier epoch signed is fenced: it is not sent again.
  expect(new RelayedBatch(1, signed, world.epoch).phase).toBe('live')
  expect(new RelayedBatch(1, signed, world.epoch + 1).phase).toBe('unsigned')
  await world.close()
})
