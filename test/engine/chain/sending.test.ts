/**
 * Each transaction reaches every endpoint and pays more the longer it waits; providers that hang or read no v1 hold nothing up.
 */

import { expect, test } from 'bun:test'
import {
  createKeyPairSignerFromPrivateKeyBytes,
  decompileTransactionMessage,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  getTransactionMessagePriorityFeeLamports,
} from '@solana/kit'
import { ChainHealth } from '../../../engine/chain/client/health'
import { landInstruction } from '../../../engine/chain/client/land_instruction'
import { ChainUnavailable, RpcPool } from '../../../engine/chain/client/rpc_pool'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { epochOfSigned, RelayedBatch } from '../../../engine/chain/relayer/batch'
import { LIMITS } from '../../../engine/limits'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { RPC_ANSWER_BYTES_MAX } from '../../../protocol/limits'
import { type InstructionName, instructionName } from '../../../protocol/vault/instruction'
import { growQueueInstruction } from '../../../protocol/vault/settle'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import { fundedWallet, mintTo } from '../../kit/chain/chain_folder'
import { type Lie, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { randomField, VaultWorld } from '../../kit/chain/vault_world'

const wireOf = (params: unknown[]): Uint8Array => new Uint8Array(Buffer.from(params[0] as string, 'base64'))
const nameOf = (wire: Uint8Array): InstructionName =>
  instructionName(transactionInstructions(wire).at(-1)!.data)!
const withdrawal = (world: VaultWorld) =>
  world.payout({ mint: decodeBase58(USDC, 32)!, destination: randomField(), amount: 400n })

test('every transaction goes to every provider and to every send-only endpoint, which are asked nothing else', async () => {
  const world = await VaultWorld.open()
  await world.deposit(1_000_000n)
  const sent = new Map<string, Set<string>>()
  const endpoints = Array.from({ length: 4 }, () => new LyingEndpoint(world.chain.url))
  for (const endpoint of endpoints) {
    endpoint.lies = {
      sendTransaction(_, { params }) {
        const wire = params[0] as string
        sent.set(wire, (sent.get(wire) ?? new Set()).add(endpoint.host))
        return undefined
      },
    }
  }
  const [providers, senders] = [endpoints.slice(0, 2), endpoints.slice(2)]
  const urls = (some: LyingEndpoint[]) => some.map(({ url }) => url)
  await world.boot({ connect: { rpc_urls: urls(providers), rpc_send_urls: urls(senders) } })
  world.outbox.add(world.nextPayload([withdrawal(world)]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'finalized')
  const head = world.outbox.head()
  await world.port.anchor(head.seq, head)
  while ([...sent.values()].some((hosts) => hosts.size < endpoints.length)) await Bun.sleep(1)
  const names = [...sent.keys()].map((wire) => nameOf(wireOf([wire])))
  expect(new Set(names)).toEqual(new Set<InstructionName>(['open_attested_epoch', 'settle', 'pay', 'anchor']))
  for (const { asked } of senders) expect(asked).toEqual(new Set(['sendTransaction']))
  await world.close()
  await Promise.all(endpoints.map((endpoint) => endpoint.stop()))
}, 120_000)

test('the first transaction asks the first provider alone for its blockhash', async () => {
  const world = await VaultWorld.open()
  const endpoints = Array.from({ length: 2 }, () => new LyingEndpoint(world.chain.url))
  await world.boot({ connect: { rpc_urls: endpoints.map(({ url }) => url) } })
  expect(endpoints.map(({ asked }) => asked.has('getLatestBlockhash'))).toEqual([true, false])
  await world.close()
  await Promise.all(endpoints.map((endpoint) => endpoint.stop()))
}, 120_000)

test('the same bytes are sent again every four slots, no sooner', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000_000n)
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  await world.sink.until(() => world.sink.told.length === 1)
  world.chain.stall(true)
  const viewIs = async (slot: number) => {
    while (world.port.view().slot < slot) await Bun.sleep(1)
  }
  const start = world.chain.slot() - 1
  await viewIs(start)
  let steps = 0
  const sent: string[] = []
  endpoint.lies = {
    sendTransaction: (_, { params }) => `dropped ${sent.push(params[0] as string)}`,
    getSignatureStatuses() {
      steps += 1
    },
  }
  world.outbox.add(world.nextPayload())
  while (sent.length < 1) await Bun.sleep(1)
  for (let slots = 1; slots < LIMITS.rebroadcast_slots; slots++) {
    world.chain.advance(1)
    await viewIs(start + slots)
    // The second reading from here on belongs to a step that began at this slot.
    for (const from = steps; steps < from + 3; ) await Bun.sleep(1)
    expect(sent).toHaveLength(1)
  }
  world.chain.advance(1)
  while (sent.length < 2) await Bun.sleep(1)
  expect(new Set(sent).size).toBe(1)
  await world.close()
  await endpoint.stop()
}, 120_000)

test('a payment that no block holds is sent again every four slots, no sooner', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000_000n)
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  let sent = 0
  let steps = 0
  endpoint.lies = {
    sendTransaction: (_, { params }) => (nameOf(wireOf(params)) === 'pay' ? `dropped ${++sent}` : undefined),
    getSignatureStatuses() {
      steps += 1
    },
  }
  world.outbox.add(world.nextPayload([withdrawal(world)]))
  while (sent === 0) await Bun.sleep(1)
  world.chain.stall(true)
  const settled = async () => {
    for (const from = steps; steps < from + 4; ) await Bun.sleep(1)
    return sent
  }
  while (world.port.view().slot < world.chain.slot() - 1) await Bun.sleep(1)
  const before = await settled()
  world.chain.advance(LIMITS.rebroadcast_slots)
  while (sent === before) await Bun.sleep(1)
  expect(await settled()).toBe(before + 1)
  await world.close()
  await endpoint.stop()
}, 120_000)

test('a transaction that lands while its status is asked for is not made again', async () => {
  const world = await VaultWorld.open({ blockhash_life: 15 })
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  world.chain.stall(true)
  const sent = new Set<string>()
  let lands = true
  endpoint.lies = {
    sendTransaction: (_, { params }) => `dropped ${sent.add(params[0] as string).size}`,
    async getSignatureStatuses() {
      const [wire] = sent
      if (wire === undefined || !lands) return
      lands = false
      world.chain.advance(11)
      const params = [wire, { encoding: 'base64', skipPreflight: true }]
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'sendTransaction', params })
      await fetch(world.chain.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      // It lands, and then it could not any more; the answer, that no node knows it, is from before.
      world.chain.advance(5)
      while (world.port.view().slot < world.chain.slot() - 1) await Bun.sleep(1)
    },
  }
  const anchored = world.port.anchor(50, { seq: 50, head: new Uint8Array(32).fill(5) })
  while (lands) await Bun.sleep(1)
  await Bun.sleep(1_000)
  world.chain.stall(false)
  await anchored
  expect(sent.size).toBe(1)
  await world.close()
  await endpoint.stop()
}, 120_000)

function priorityFeeOf(wire: Uint8Array): bigint {
  const { messageBytes } = getTransactionDecoder().decode(wire)
  const message = decompileTransactionMessage(getCompiledTransactionMessageDecoder().decode(messageBytes))
  if (message.version !== 1) throw new Error('no v1 transaction')
  return getTransactionMessagePriorityFeeLamports(message)!
}

/** Fees of the first three transactions of a kind, none of which lands: signed at once, after 20 s and after 50 s. */
async function feesOf(kind: InstructionName, use: (world: VaultWorld) => unknown): Promise<bigint[]> {
  const world = await VaultWorld.open({ blockhash_life: 15 })
  await world.deposit(1_000_000n)
  const endpoint = new LyingEndpoint(world.chain.url)
  let later_ms = 0
  const seen = new Map<string, bigint>()
  const enough = Promise.withResolvers<void>()
  endpoint.lies = {
    sendTransaction(_, { params }) {
      const wire = wireOf(params)
      if (nameOf(wire) !== kind) return undefined
      seen.set(wire.toHex(), priorityFeeOf(wire))
      later_ms = seen.size === 1 ? 20_000 : 50_000
      if (seen.size === 3) enough.resolve()
      return 'dropped'
    },
  }
  const monotonicMs = () => performance.now() + later_ms
  const fees = { floor_lamports: 1_000n, cap_lamports: 22_000n }
  await world.boot({ connect: { rpc_urls: [endpoint.url], monotonicMs, fees } })
  use(world)
  await enough.promise
  await world.close()
  await endpoint.stop()
  return [...seen.values()]
}

test.each([
  ['a payment', 'pay', (world: VaultWorld) => world.outbox.add(world.nextPayload([withdrawal(world)]))],
  [
    'an anchor',
    'anchor',
    (world: VaultWorld) => {
      const { seq, head } = world.outbox.head()
      world.port.anchor(seq + 1, { seq: seq + 1, head }).catch(() => 'closed')
    },
  ],
] as const)(
  'the fee of %s grows with the time that it waits, from 2 s on, up to the cap',
  async (_, kind, use) => {
    const [first, second, third] = await feesOf(kind, use)
    expect([first, third]).toEqual([1_000n, 22_000n])
    expect(second).toBeGreaterThanOrEqual((1_000n * 20_000n) / BigInt(LIMITS.fee_growth_after_ms))
    expect(second).toBeLessThan(22_000n)
  },
  120_000,
)

test('payments in one transaction pay the fee of the one that waits longest', async () => {
  const world = await VaultWorld.open()
  await world.deposit(1_000_000n)
  const endpoint = new LyingEndpoint(world.chain.url)
  let later_ms = 0
  let held = 0
  let fee: bigint | undefined
  const lies: Record<string, Lie> = {
    sendTransaction(_, { params }) {
      const wire = wireOf(params)
      if (nameOf(wire) === 'pay') fee ??= priorityFeeOf(wire)
      return undefined
    },
  }
  // The sizes of destinations are read before payments are signed.
  const isSizes = (params: unknown[]) => 'dataSlice' in (params[1] as object)
  endpoint.lies = {
    ...lies,
    getMultipleAccounts(result, { params }) {
      if (!isSizes(params)) return undefined
      held = (params[0] as string[]).length
      return { ...(result as object), value: null }
    },
  }
  const monotonicMs = () => performance.now() + later_ms
  const fees = { floor_lamports: 1_000n, cap_lamports: 1_000_000n }
  await world.boot({ connect: { rpc_urls: [endpoint.url], monotonicMs, fees } })
  const wallet = await fundedWallet(world.chain)
  await mintTo(world.chain, USDC, wallet.address, 1n)
  const destination = decodeBase58(await associatedTokenAddress(wallet.address, USDC), 32)!
  const payout = () => world.payout({ mint: decodeBase58(USDC, 32)!, destination, amount: 400n })
  world.outbox.add(world.nextPayload([payout()]))
  while (held < 1) await Bun.sleep(1)
  later_ms = 20_000
  world.outbox.add(world.nextPayload([payout()]))
  while (held < 2) await Bun.sleep(1)
  endpoint.lies = lies
  await world.outbox.until(() => world.outbox.openPayouts().length === 0 && world.outbox.payouts.length > 0)
  expect(fee).toBeGreaterThanOrEqual((1_000n * 20_000n) / BigInt(LIMITS.fee_growth_after_ms))
  await world.close()
  await endpoint.stop()
}, 120_000)

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

test('a transaction that every provider refuses for its form is reported at once', async () => {
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
  // A transaction of an earlier epoch is fenced: it is not sent again.
  expect(new RelayedBatch(1, signed, world.epoch).phase).toBe('live')
  expect(new RelayedBatch(1, signed, world.epoch + 1).phase).toBe('unsigned')
})

/** Lands an instruction of which each look in turn shows one status, 10 ms apart; undefined is no answer. */
async function landingOf(looks: (object | 'unknown' | undefined)[], deadline_ms = Number.POSITIVE_INFINITY) {
  const [signer, payer, authority] = await Promise.all(
    [1, 2, 3].map((byte) => createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(byte))),
  )
  let now_ms = 0
  const reasons: string[][] = []
  const rpc = Object.assign(new RpcPool(['http://one.example'], 1_000), {
    each: [{ read: async () => undefined }],
    read: async () => ({ blockhash: encodeBase58(new Uint8Array(32)), lastValidBlockHeight: 150n }),
    async all() {
      const shown = looks[now_ms / 10]
      if (shown === undefined) throw new ChainUnavailable('no answer')
      return [{ at: 0, value: [shown === 'unknown' ? undefined : shown] }]
    },
    async sleep() {
      reasons.push(health.reasons())
      now_ms += 10
    },
  })
  const monotonicMs = () => now_ms
  const health = new ChainHealth(rpc, monotonicMs, 20)
  const view = { options: { monotonicMs }, agreed: () => 0, now: () => ({ slot: 1, slot_ms: 10 }) }
  const fees = { floor_lamports: 1n, cap_lamports: 1n, percentile: 50 }
  const instruction = growQueueInstruction(new Uint8Array(32), decodeBase58(payer!.address, 32)!)
  const client = { rpc, view, health, signer, payer, authority, fees } as never
  const landed = landInstruction(client, { prepare: async () => instruction, deadline_ms })
  return { landed: await landed.catch(String), reasons, left: health.reasons() }
}

test('a landing that a fork took back is confirmed from when it is seen again, also in the same slot', async () => {
  const executed = { slot: 5, level: 'confirmed', error: null }
  const { landed } = await landingOf([executed, 'unknown', { ...executed, level: 'finalized' }])
  expect(landed).toMatchObject({ slot: 5, confirmed_ms: 20 })
})

test('a landing that ends at its deadline leaves no reason behind', async () => {
  const { landed, reasons, left } = await landingOf([], 20)
  expect([String(landed), reasons[0], left]).toEqual([
    expect.stringContaining('the deadline passed'),
    ['rpc_unreachable'],
    [],
  ])
})
