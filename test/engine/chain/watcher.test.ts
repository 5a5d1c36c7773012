/** The engine receives finalized leaves without gaps, and stops when the chain contradicts its journal. */
import { expect, test } from 'bun:test'
import { MemoryOutbox } from '../../../bench/settling/memory_outbox'
import { openHashing } from '../../../engine/hashing/open_hashing'
import { LIMITS } from '../../../engine/limits'
import { EpochTaken } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { chainFolder } from '../../kit/chain/chain_folder'
import * as lies from '../../kit/chain/lying_endpoint'
import { LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { COMPOSE_HASH, MemorySink, randomField, VaultWorld } from '../../kit/chain/vault_world'

test('deposits arrive once, in leaf order, and only up to a root the own tree reproduces', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1n, 2n, 3n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 3)
  await world.deposit(4n, 5n)
  await world.sink.until(() => world.sink.told.length === 5)
  const config = await world.port.readConfig()
  expect(config.leaf_count).toBe(5)
  expect(toHex(config.note_root)).toBe(toHex(world.hash.root().root))
  expect((await world.hash.leaves(0, 5)).map(toHex)).toEqual(world.sink.told.map(toHex))
  expect(world.sink.violations).toEqual([])
})

test('leaves wait until the earlier ones are durable', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1n)
  const durable = Promise.withResolvers<void>()
  const firsts: number[] = []
  const pass = world.sink.leaves.bind(world.sink)
  world.sink.leaves = async (first_index, leaves) => {
    firsts.push(first_index)
    await durable.promise
    await pass(first_index, leaves)
  }
  await world.boot()
  while (firsts.length === 0) await Bun.sleep(1)
  await world.deposit(2n)
  const { slot } = world.port.view()
  while (world.port.view().slot < slot + 40) await Bun.sleep(1)
  expect(firsts).toEqual([0])
  durable.resolve()
  await world.sink.until(() => world.sink.told.length === 2)
  expect(firsts).toEqual([0, 1])
}, 120_000)

test('after a restart the leaves go on where the journal ended', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1n, 2n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 2)
  await world.port.close()
  await world.deposit(3n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 3)
  expect(world.sink.violations).toEqual([])
})

test('a cached tree ahead of the journal gives the journal its leaves again', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1n, 2n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 2)
  await world.port.close()
  // The journal lost its newest record, the tree's cache did not.
  world.sink = new MemorySink()
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 2)
  expect(world.sink.violations).toEqual([])
})

test('a deposit that a fork takes back is never reported', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 1)
  await world.deposit(2n)
  world.chain.fork(3)
  await world.deposit(3n)
  await world.sink.until(() => world.sink.told.length === 2)
  const config = await world.port.readConfig()
  expect(config.leaf_count).toBe(2)
  expect(toHex(config.note_root)).toBe(toHex(world.hash.root().root))
})

test('leaves that do not give the root on chain are passed on by no event', async () => {
  const world = await VaultWorld.open()
  const liar = new LyingEndpoint(world.chain.url)
  liar.lies = lies.forgedLeaves()
  await world.boot({ connect: { rpc_urls: [liar.url] } })
  await world.deposit(1n)
  await world.sink.until(() => world.sink.halts.length > 0)
  expect(world.sink.halts).toEqual(['root_mismatch'])
  expect(world.sink.told).toEqual([])
  await world.close()
  await liar.stop()
}, 120_000)

test('a tree that differs from the chain stops settlement with root_mismatch', async () => {
  const world = await VaultWorld.open()
  await world.deposit(1n)
  const folder = chainFolder()
  const foreign = await openHashing({ dir: folder.dir, key: new Uint8Array(32) })
  await foreign.appendLeaves(0, [randomField()])
  const own = world.hash
  world.hash = foreign
  await world.boot()
  world.outbox.add(world.nextPayload())
  await world.sink.until(() => world.sink.halts.length > 0)
  expect(world.sink.halts).toEqual(['root_mismatch'])
  expect(world.sink.told).toEqual([])
  expect(world.outbox.signings).toEqual([])
  expect(world.port.health().reasons).toContain('root_mismatch')
  await foreign.close()
  world.hash = own
  await world.close()
  folder.remove()
})

test('an epoch opened by another instance of the app means forked', async () => {
  await using world = await VaultWorld.open()
  await world.boot()
  const other = await world.connect()
  const opening = {
    epoch: 2,
    boot_nonce: crypto.getRandomValues(new Uint8Array(16)),
    compose_hash: COMPOSE_HASH,
    seq: 100,
    head: new Uint8Array(32).fill(9),
    restore: false,
    passes: async () => true,
    spentRoot: async () => (await other.readConfig()).spent_root,
  }
  await other.openEpoch(opening, async () => {})
  await other.close()
  await world.sink.until(() => world.sink.halts.length > 0)
  expect(world.sink.halts).toEqual(['forked'])
  // Nothing is signed for an epoch that is gone, although the journal has every batch.
  const recorded: Uint8Array[] = []
  const refused = await world.port
    .openEpoch(
      {
        epoch: 2,
        boot_nonce: crypto.getRandomValues(new Uint8Array(16)),
        compose_hash: COMPOSE_HASH,
        seq: 1,
        head: new Uint8Array(32),
        restore: false,
        passes: async () => true,
        spentRoot: async () => (await world.port.readConfig()).spent_root,
      },
      async (signature) => void recorded.push(signature),
    )
    .catch((error: unknown) => error)
  expect(refused).toEqual(new EpochTaken('the chain is at epoch 2'))
  expect(recorded).toEqual([])
})

test('an epoch opens only where the batches on chain are those of the journal', async () => {
  const world = await VaultWorld.open()
  await world.deposit(1n)
  await world.boot()
  const port = await world.connect()
  const open = (spentRoot: () => Promise<Uint8Array | undefined>, passes = async () => true) =>
    port
      .openEpoch(
        {
          epoch: world.epoch + 1,
          boot_nonce: crypto.getRandomValues(new Uint8Array(16)),
          compose_hash: COMPOSE_HASH,
          ...world.outbox.head(),
          restore: false,
          passes,
          spentRoot,
        },
        async () => {},
      )
      .then(
        () => 'opened',
        (error: Error) => `${error.name}: ${error.message}`,
      )
  expect(await open(async () => new Uint8Array(32).fill(7))).toContain('spent_root_mismatch')
  expect(await open(async () => undefined)).toContain('EpochTaken')
  const own = async () => (await world.port.readConfig()).spent_root
  expect(await open(own, async () => false)).toContain('EpochTaken')
  expect(await open(own)).toBe('opened')
  await port.close()
  await world.close()
})

test('an epoch that this boot has opened already is not opened again', async () => {
  const world = await VaultWorld.open()
  const port = await world.connect()
  const opening = {
    epoch: 1,
    boot_nonce: crypto.getRandomValues(new Uint8Array(16)),
    compose_hash: COMPOSE_HASH,
    ...world.outbox.head(),
    restore: false,
    passes: async () => true,
    spentRoot: async () => (await port.readConfig()).spent_root,
  }
  const recorded: string[] = []
  const open = () => port.openEpoch(opening, async (signature) => void recorded.push(encodeBase58(signature)))
  const first = await open()
  expect(recorded).toEqual([encodeBase58(first.signature)])
  const second = await open()
  expect(recorded).toHaveLength(1)
  expect(second).toEqual({
    slot: first.slot,
    signature: new Uint8Array(64),
    confirmed_ms: expect.any(Number),
  })
  await port.close()
  await world.close()
}, 120_000)

test('an opening whose provider falls silent is shown as unreachable, and goes on with it', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  endpoint.lies = {
    sendTransaction() {
      endpoint.silent = true
      return undefined
    },
  }
  const booted = world.boot({ connect: { rpc_urls: [endpoint.url] } })
  while (!world.port?.health().reasons.includes('rpc_unreachable')) await Bun.sleep(1)
  endpoint.lies = {}
  endpoint.silent = false
  await booted
  expect(world.port.health().reasons).not.toContain('rpc_unreachable')
  await world.close()
  await endpoint.stop()
}, 120_000)

test('settled batches are read no further back than asked for', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  const read = new Set<unknown>()
  await world.deposit(...Array.from({ length: 12 }, () => 1n))
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  for (let batch = 1; batch <= 3; batch++) world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(3) === 'finalized')
  await world.port.close()
  const port = await world.connect({ rpc_urls: [endpoint.url] })
  endpoint.lies = { getTransaction: (_, { params }) => void read.add(params[0]) }
  const settled = async (after: number) =>
    (await Array.fromAsync(port.readSettled(after))).flat().map(({ batch_id }) => batch_id)
  expect([await settled(0), await settled(1), await settled(3)]).toEqual([[1, 2, 3], [2, 3], []])
  read.clear()
  expect(await settled(2)).toEqual([3])
  // One page of transactions read in parallel, out of more than twelve.
  expect(read.size).toBeLessThanOrEqual(8)
  await port.close()
  await world.close()
  await endpoint.stop()
}, 120_000)

test('exits, the dearest read, wait for the slots between two looks', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  let [reads, looks] = [0, 0]
  endpoint.lies = { getMultipleAccounts: () => void reads++, getProgramAccounts: () => void looks++ }
  await world.deposit(1n)
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  while (looks < 6) await Bun.sleep(1)
  world.chain.stall(true)
  looks = reads = 0
  while (reads < 200) await Bun.sleep(1)
  // Of both levels: one look under way, one in the slots that the view had not seen yet.
  expect(looks).toBeLessThanOrEqual(4)
  await world.close()
  await endpoint.stop()
}, 120_000)

test('loops whose reads fail report an unreachable chain until they succeed', async () => {
  await using world = await VaultWorld.open()
  await world.boot()
  const isReported = () => world.port.health().reasons.includes('rpc_unreachable')
  world.chain.faults.rpc = (method) => (method === 'getMultipleAccounts' ? { status: 503 } : undefined)
  while (!isReported()) await Bun.sleep(1)
  world.chain.faults.rpc = undefined
  while (isReported()) await Bun.sleep(1)
}, 120_000)

test('a loop that fails is reported while others succeed', async () => {
  await using world = await VaultWorld.open()
  await world.boot()
  const isReported = () => world.port.health().reasons.includes('rpc_unreachable')
  // Exits alone are read so; the other loops go on.
  world.chain.faults.rpc = (method) => (method === 'getProgramAccounts' ? { status: 503 } : undefined)
  while (!isReported()) await Bun.sleep(1)
  const slot = world.port.view().slot
  while (world.port.view().slot < slot + 20) {
    await Bun.sleep(1)
    expect(isReported()).toBe(true)
  }
  world.chain.faults.rpc = undefined
  while (isReported()) await Bun.sleep(1)
}, 120_000)

test('without a new slot for five seconds the chain counts as stalled, however short its slots are', async () => {
  let now_ms = 0
  await using world = await VaultWorld.open()
  await world.boot({ connect: { monotonicMs: () => now_ms } })
  world.chain.stall(true)
  now_ms = LIMITS.chain_stall_min_ms
  expect(world.port.health().reasons).not.toContain('slot_stalled')
  now_ms += 1
  expect(world.port.health().reasons).toContain('slot_stalled')
  world.chain.stall(false)
  while (world.port.health().reasons.length > 0) await Bun.sleep(1)
}, 120_000)

test('a batch on chain that the journal lacks means rolled_back, and every loop but slot view and lease ends', async () => {
  const world = await VaultWorld.open()
  await world.deposit(1n)
  await world.boot()
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  await world.port.close()
  // An older disk: its journal knows the epochs, not the batch.
  const { sink } = world
  world.sink = new MemorySink()
  const endpoint = new LyingEndpoint(world.chain.url)
  let [slots, accounts] = [0, 0]
  endpoint.lies = {
    getEpochInfo() {
      slots += 1
    },
    getMultipleAccounts(_, { params }) {
      // The lease and the clock are read as long as the port is open.
      if ((params[0] as string[]).length !== 2) accounts += 1
    },
  }
  const port = await world.connect({ rpc_urls: [endpoint.url] })
  port.start({
    sink: world.sink,
    outbox: new MemoryOutbox(),
    leaf_count: sink.told.length,
    last_batch: 0,
    epoch: world.epoch,
    own_boot_nonces: world.boot_nonces,
    exits_open: [],
  })
  await world.sink.until(() => world.sink.halts.length > 0)
  expect(world.sink.halts).toEqual(['rolled_back'])
  // Requests under way end.
  const pass = async () => {
    for (const from = slots; slots < from + 30; ) await Bun.sleep(1)
    return accounts
  }
  expect(await pass()).toBe(await pass())
  await port.close()
  await world.close()
  await endpoint.stop()
}, 120_000)

test('an anchored head is on chain, and an older one is no error', async () => {
  await using world = await VaultWorld.open()
  await world.boot()
  await world.port.anchor(50, { seq: 50, head: new Uint8Array(32).fill(5) })
  expect((await world.port.readConfig()).journal_seq).toBe(50)
  await world.port.anchor(49, { seq: 49, head: new Uint8Array(32).fill(4) })
  expect((await world.port.readConfig()).journal_seq).toBe(50)
})
