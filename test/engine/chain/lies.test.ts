/** One endpoint lies: what it says may delay or stop settlement; nothing is paid for it, and the truth goes on. */
import { expect, test } from 'bun:test'
import { chainAddresses } from '../../../engine/chain/client/chain_client'
import { readDeployment, VaultUnreadable } from '../../../engine/chain/client/read_vault'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { eventHistory } from '../../../engine/chain/client/vault_events'
import { encodeBase58 } from '../../../protocol/base58'
import { bendBatch, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { VaultWorld } from '../../kit/chain/vault_world'

const FAR_SLOT = 1_000_000_000

async function withLiar(use: (world: VaultWorld, liar: LyingEndpoint) => Promise<void>): Promise<void> {
  const world = await VaultWorld.open()
  const liar = new LyingEndpoint(world.chain.url)
  try {
    await world.deposit(1_000n)
    await use(world, liar)
    expect([...world.outbox.violations, ...world.sink.violations]).toEqual([])
    expect((await world.port.readConfig()).last_batch).toBe(world.outbox.payloads.size)
  } finally {
    await world.close()
    await liar.stop()
  }
}
const both = (world: VaultWorld, liar: LyingEndpoint) => ({
  connect: { rpc_urls: [liar.url, world.chain.url], rpc_timeout_ms: 2_000 },
})

test('a slot far ahead, claimed by a node that is silent ever after, makes no other node look late', async () => {
  await withLiar(async (world, liar) => {
    await world.boot(both(world, liar))
    const lied = Promise.withResolvers<void>()
    liar.lies = {
      getMultipleAccounts(result) {
        liar.silent = true
        lied.resolve()
        return { ...(result as object), context: { slot: FAR_SLOT } }
      },
    }
    await lied.promise
    world.outbox.add(world.nextPayload())
    await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
    expect(Math.max(...world.sink.slots)).toBeLessThanOrEqual(world.chain.slot())
  })
}, 20_000)

test('a blockhash that is invented and lives for ever is given up after as many slots as none lives', async () => {
  await withLiar(async (world, liar) => {
    await world.boot({ connect: { rpc_urls: [liar.url], rpc_timeout_ms: 2_000 } })
    // An honest node would not simulate it.
    const value = { err: null, logs: [], unitsConsumed: 900_000 }
    const simulateTransaction = () => ({ context: { slot: 1 }, value })
    const getLatestBlockhash = () => {
      liar.lies = { simulateTransaction }
      const blockhash = encodeBase58(crypto.getRandomValues(new Uint8Array(32)))
      return { context: { slot: 1 }, value: { blockhash, lastValidBlockHeight: FAR_SLOT } }
    }
    liar.lies = { getLatestBlockhash, simulateTransaction }
    world.outbox.onSigned = () => {
      if (world.outbox.signings.length === 0) setTimeout(() => world.chain.advance(310))
    }
    world.outbox.add(world.nextPayload())
    await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
    expect(world.outbox.signings.map(({ last_valid_block_height: last }) => last === FAR_SLOT)).toEqual([
      true,
      false,
    ])
  })
}, 20_000)

test('one simulated verdict among others that only say the chain moved stops nothing', async () => {
  await withLiar(async (world, liar) => {
    await world.boot({ connect: { rpc_urls: [liar.url], rpc_timeout_ms: 2_000 } })
    // unknown_state as often as a verdict would count, then insolvent once.
    const codes = [7053, 7053, 7053, 7053, 7053, 7061]
    liar.lies = {
      simulateTransaction(result) {
        const code = codes.shift()
        if (code === undefined) return undefined
        return {
          ...(result as object),
          value: { err: { InstructionError: [0, { Custom: code }] }, logs: [] },
        }
      },
    }
    world.outbox.add(world.nextPayload())
    await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
    expect(codes).toEqual([])
    expect(world.sink.halts).toEqual([])
  })
}, 20_000)

test.each([
  [
    'a batch nobody settled',
    'rolled_back',
    { getMultipleAccounts: (it: unknown) => bendBatch(it, (last) => last + 5) },
  ],
  [
    'a verdict of the program',
    'program_error',
    { getSignatureStatuses: (it: unknown) => statuses(it, 7061) },
  ],
  ['another instance', 'forked', { getSignatureStatuses: (it: unknown) => statuses(it, 7051) }],
] as const)(
  '%s, told once, stops with %s; with the truth every batch lands once',
  async (_, reason, lies) => {
    await withLiar(async (world, liar) => {
      await world.boot({ connect: { rpc_urls: [liar.url], rpc_timeout_ms: 2_000 } })
      world.outbox.add(world.nextPayload())
      await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
      liar.lies = { ...lies, sendTransaction: () => 'dropped' }
      world.outbox.add(world.nextPayload())
      world.outbox.add(world.nextPayload())
      await world.sink.until(() => world.sink.halts.length > 0)
      expect(world.sink.halts).toEqual([reason])
      await world.port.close()
      liar.lies = {}
      await world.boot({ connect: { rpc_urls: [liar.url], rpc_timeout_ms: 2_000 } })
      await world.outbox.until(() => world.outbox.stageOf(3) === 'finalized')
      expect(world.sink.halts).toEqual([reason])
      expect(world.outbox.stages.filter(({ stage }) => stage === 'finalized')).toHaveLength(3)
    })
  },
  20_000,
)

/** Every signature landed and the program refused it. */
function statuses(result: unknown, code: number): unknown {
  const { context, value } = result as { context: { slot: number }; value: unknown[] }
  const err = { InstructionError: [0, { Custom: code }] }
  const status = {
    slot: context.slot,
    confirmations: null,
    err,
    status: { Err: err },
    confirmationStatus: 'finalized',
  }
  return { context, value: value.map(() => status) }
}

test.each(['', '0OIl', '1'.repeat(31)])('the genesis hash %p is no name of a cluster', async (text) => {
  await withLiar(async (world, liar) => {
    await world.boot()
    liar.lies = { getGenesisHash: () => text }
    const refusal = await readDeployment([liar.url], world.program).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(VaultUnreadable)
  })
})

test('a listed signature of no 64 bytes ends the history like a transaction that is not served', async () => {
  await withLiar(async (world, liar) => {
    await world.boot()
    const rpc = new RpcPool([liar.url], 2_000)
    const { address } = chainAddresses(world.program)
    const read = () => Array.fromAsync(eventHistory({ rpc, address }, address.tree, 'confirmed'))
    expect(await read()).not.toEqual([])
    liar.lies = { getSignaturesForAddress: () => [{ signature: '0OIl', slot: 1, err: null, memo: null }] }
    expect(await read()).toEqual([])
    rpc.close()
  })
})
