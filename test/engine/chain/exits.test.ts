/** Exit requests reach the engine, vanish with a fork, and are served by an ordinary batch; a pause is reported. */
import { expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { ExitWatch } from '../../../engine/chain/watch/watch_exits'
import { LIMITS } from '../../../engine/limits'
import type { ExitRequest, SettlementPayload } from '../../../engine/ports'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { compareBytes, toHex } from '../../../protocol/bytes'
import { pauseInstruction, unpauseInstruction } from '../../../protocol/vault/admin'
import { instructionName } from '../../../protocol/vault/instruction'
import { USDC } from '../../../sandbox/environment'
import * as lies from '../../kit/chain/lying_endpoint'
import { LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { randomField, requestExitOf, VaultWorld } from '../../kit/chain/vault_world'

const mint = decodeBase58(USDC, 32)!

const BOND_LAMPORTS = 20_000_000n
const isOpen = (world: VaultWorld, account: Uint8Array): boolean =>
  world.chain.machine.accountAt(encodeBase58(account), 'finalized') !== undefined
const lamportsOf = (world: VaultWorld, key: Uint8Array): bigint =>
  world.chain.machine.accountAt(encodeBase58(key), 'finalized')!.lamports
const stages = (world: VaultWorld): string[] => world.sink.exits.map(({ stage }) => stage)

test('a request is reported at confirmed, again at finalized, a batch serves it, and its bond returns', async () => {
  // Deep enough that even on a busy machine a watcher reads the request before it is final.
  await using world = await VaultWorld.open({}, 40)
  await world.boot()
  const { nullifier, destination, refund_inner, account, owner } = await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  expect(stages(world)).toEqual(['confirmed', 'finalized'])
  const commitment = world.sink.told[0]!
  const told = { nullifier, commitment, mint, amount: 5_000n, destination, refund_inner }
  expect(world.sink.exits[0]).toMatchObject(told)
  const payout = world.payout({ kind: 'exit', mint, destination, amount: 5_000n, refund_inner, nullifier })
  const payload = world.nextPayload([payout])
  world.outbox.add({ ...payload, nullifiers: [...payload.nullifiers, nullifier].sort(compareBytes) })
  const before = lamportsOf(world, owner)
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'finalized')
  expect(world.outbox.payoutOf(1)!.outcome).toBe('paid')
  while (isOpen(world, account)) await new Promise((resolve) => setImmediate(resolve))
  expect(lamportsOf(world, owner)).toBeGreaterThanOrEqual(before + BOND_LAMPORTS)
  expect(stages(world)).toEqual(['confirmed', 'finalized'])
  const usdc = (await world.port.readMints()).find((one) => toHex(one.mint) === toHex(mint))!
  expect([usdc.balance, usdc.liabilities]).toEqual([0n, 0n])
})

/** A batch that spends the nullifier alone, hashed by the real worker. */
async function spending(
  world: VaultWorld,
  batch_id: number,
  nullifier: Uint8Array,
): Promise<SettlementPayload> {
  const result = await world.hash.hashBatch({ batch_id, inputs: [{ nullifier }], outputs: [], refunds: [] })
  return { batch_id, nullifiers: result.nullifiers, outputs: [], payouts: [], leaf_count_min: 1 }
}

test('a request for a note that is spent, or that an unlanded batch spends, is refused and its bond taken', async () => {
  await using world = await VaultWorld.open()
  await world.boot()
  const gone = (account: Uint8Array) => world.chain.machine.accountAt(encodeBase58(account), 'finalized')
  const { nullifier, account, send } = await requestExitOf(world, 5_000n)
  expect(gone(account)).toBeUndefined()
  await world.sink.until(() => stages(world).includes('finalized'))
  expect(gone(account)).toBeDefined()
  // Hashed after the request was seen, landed after that: the proof waits for its root.
  world.outbox.add(await spending(world, 1, nullifier))
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  while (gone(account) !== undefined) await new Promise((resolve) => setImmediate(resolve))
  await send()
  while (gone(account) === undefined) await new Promise((resolve) => setImmediate(resolve))
  while (gone(account) !== undefined) await new Promise((resolve) => setImmediate(resolve))
  expect(world.port.health().reasons).toEqual([])
})

test('a refusal lands while batch after batch makes the present root of the spent log an old one', async () => {
  await using world = await VaultWorld.open()
  await world.boot()
  const { nullifier, account } = await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  let batch_id = 1
  world.outbox.add(await spending(world, batch_id, nullifier))
  let busy = true
  const trading = (async () => {
    while (busy) {
      batch_id += 1
      world.outbox.add(await spending(world, batch_id, randomField()))
      await world.outbox.until(() => world.outbox.stageOf(Math.max(1, batch_id - 8)) !== undefined)
    }
  })()
  while (isOpen(world, account)) await new Promise((resolve) => setImmediate(resolve))
  busy = false
  await trading
  expect(world.sink.halts).toEqual([])
}, 120_000)

test.each([
  ['no proof', undefined],
  ['an error of the venue', new Error('no hashing')],
])(
  'a refusal that meets %s when it is built waits, and only an error is shown',
  async (_, error) => {
    await using world = await VaultWorld.open()
    await world.boot()
    const { nullifier, account } = await requestExitOf(world, 5_000n)
    await world.sink.until(() => stages(world).includes('finalized'))
    const prove = world.outbox.spentProof
    let found = 0
    const shown = new Set<string>()
    // Until the answer has passed through the loop, before the next success of any loop.
    const watch = async () => {
      for (let turns = 0; turns < 200; turns++) {
        await undefined
        for (const reason of world.port.health().reasons) shown.add(reason)
      }
    }
    world.outbox.spentProof = async (...args) => {
      const proof = await prove(...args)
      if (proof) found += 1
      // The first one judges the request.
      if (found !== 2 || !proof) return proof
      void watch()
      if (error) throw error
      return undefined
    }
    world.outbox.add(await spending(world, 1, nullifier))
    while (isOpen(world, account)) await new Promise((resolve) => setImmediate(resolve))
    expect(found).toBeGreaterThan(2)
    expect(shown.has('internal_error')).toBe(error !== undefined)
  },
  120_000,
)

test('half of the bound of the engine is reported at most, the rest waits', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  const [most, more] = [LIMITS.exits_open_max / 2, 3]
  const invented = Array.from({ length: most + more }, () =>
    lies.exitAccount(world.program, randomField(), mint),
  )
  let polls = 0
  endpoint.lies = {
    getProgramAccounts(result, { params }) {
      if (!lies.isExitRead(params)) return undefined
      polls += 1
      return { ...(result as object), value: invented }
    },
  }
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  await world.sink.until(() => world.sink.exits.length >= most)
  const from = polls
  while (polls < from + 4) await Bun.sleep(1)
  expect(world.sink.exits).toHaveLength(most)
  await world.close()
  await endpoint.stop()
}, 120_000)

test("a boot goes on from the engine's last report: an end that came meanwhile is reported, nothing twice", async () => {
  await using world = await VaultWorld.open()
  await world.boot()
  await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  await world.port.close()
  const known = world.sink.exits.at(-1)!
  const lost = {
    ...known,
    nullifier: randomField(),
    request_account: randomField(),
    stage: 'confirmed' as const,
  }
  world.exits_open = [known, lost]
  world.sink.exits.length = 0
  await world.boot()
  await world.sink.until(() => stages(world).length > 0)
  expect(world.sink.exits).toEqual([{ ...lost, stage: 'vanished' }])
})

test('a request that a fork takes back is reported as vanished', async () => {
  await using world = await VaultWorld.open({}, 40)
  await world.boot()
  await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('confirmed'))
  // The first report of it fails, as while the journal has no room.
  const { sink } = world
  let failed = 0
  const told = sink.exitRequested.bind(sink)
  sink.exitRequested = async (request) => {
    if (request.stage === 'vanished' && failed++ === 0) throw new Error('no room')
    return told(request)
  }
  world.chain.fork(35)
  await world.sink.until(() => stages(world).includes('vanished'))
  expect([stages(world), failed]).toEqual([['confirmed', 'vanished'], 2])
})

test('an exit is disproved once a quorum shows its request served, with other terms, or not at all', () => {
  const account = bytesOf(1)
  const terms = { nullifier: bytesOf(2), commitment: bytesOf(3), mint, destination: bytesOf(4) }
  const rest = { refund_inner: bytesOf(5), amount: 5n, deadline_unix_s: 9, request_account: account }
  const request: ExitRequest = { ...terms, ...rest, stage: 'finalized' }
  const watch = new ExitWatch(
    { rpc: { quorum: 2 }, health: { watch: () => undefined } } as never,
    {} as never,
    [],
  )
  const isDisproved = (...shown: (object | undefined)[]) => {
    const requests = shown.map((change) =>
      change === undefined ? new Map() : new Map([[encodeBase58(account), { ...request, ...change }]]),
    )
    Object.assign(watch, { shown: requests.map((one, at) => ({ at, value: { requests: one } })) })
    return watch.isDisproved(request)
  }
  const [open, served, bent] = [{ served: false }, { served: true }, { served: false, amount: 6n }]
  expect(isDisproved(open, open, served)).toBe(false)
  expect(isDisproved(open, served, served)).toBe(true)
  expect(isDisproved(open, bent, undefined)).toBe(true)
})
const bytesOf = (byte: number) => new Uint8Array(32).fill(byte)

test('an exit that is not served in time makes the venue not ready, until a batch serves it', async () => {
  await using world = await VaultWorld.open()
  let later_ms = 0
  await world.boot({ connect: { monotonicMs: () => performance.now() + later_ms } })
  const { nullifier, destination, refund_inner } = await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  expect(world.port.health()).toMatchObject({ overdue: false, reasons: [] })
  later_ms = 20_000
  while (world.port.health().reasons.join() !== 'exit_overdue') await Bun.sleep(1)
  expect(world.port.health()).toMatchObject({ settlement: 'degraded', overdue: true })
  const payout = world.payout({ kind: 'exit', mint, destination, amount: 5_000n, refund_inner, nullifier })
  const payload = world.nextPayload([payout])
  world.outbox.add({ ...payload, nullifiers: [...payload.nullifiers, nullifier].sort(compareBytes) })
  while (world.port.health().reasons.length > 0) await Bun.sleep(1)
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
}, 120_000)

test('attempts to close a request that goes on to be shown are spaced twice as far each time', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  const sent = new Map<string, number>()
  let served: unknown
  endpoint.lies = {
    getProgramAccounts(result, { params }) {
      if (!lies.isExitRead(params)) return undefined
      if (sent.size === 0) served = (result as { value: unknown }).value
      return { ...(result as object), value: served }
    },
    sendTransaction(_, { params }) {
      const [wire] = params as [string]
      const { data } = transactionInstructions(Buffer.from(wire, 'base64')).at(-1)!
      if (instructionName(data) === 'close_exit' && !sent.has(wire)) sent.set(wire, world.chain.slot())
      return undefined
    },
  }
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const { nullifier, destination, refund_inner } = await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  const payout = world.payout({ kind: 'exit', mint, destination, amount: 5_000n, refund_inner, nullifier })
  const payload = world.nextPayload([payout])
  world.outbox.add({ ...payload, nullifiers: [...payload.nullifiers, nullifier].sort(compareBytes) })
  while (sent.size < 4) await Bun.sleep(1)
  const slots = [...sent.values()]
  for (const failures of [1, 2, 3])
    expect(slots[failures]! - slots[failures - 1]!).toBeGreaterThanOrEqual(
      LIMITS.exits_look_slots * 2 ** failures,
    )
  expect(world.sink.halts).toEqual([])
  await world.close()
  await endpoint.stop()
}, 120_000)

test('a pause that is not final yet already settles nothing', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  let reads = 0
  endpoint.lies = { getMultipleAccounts: () => void reads++ }
  const untilReads = async (count: number) => {
    reads = 0
    while (reads < count) await Bun.sleep(1)
  }
  await world.deposit(5_000n)
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const admin = await createKeyPairSignerFromPrivateKeyBytes(world.chain.admin_seed)
  const fields = { program: world.program, admin: decodeBase58(admin.address, 32)! }
  world.chain.stall(true)
  await world.send(admin, toInstruction(pauseInstruction(fields), [admin]))
  world.chain.advance(1)
  await untilReads(20)
  world.outbox.add(world.nextPayload())
  await untilReads(20)
  expect([world.outbox.signings, world.sink.halts]).toEqual([[], []])
  await world.send(admin, toInstruction(unpauseInstruction(fields), [admin]))
  world.chain.stall(false)
  // The pause may be final before its end is; then it halts for so long.
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(world.sink.halts.filter((reason) => reason !== 'vault_paused')).toEqual([])
  await world.close()
  await endpoint.stop()
}, 120_000)

test('a pause is reported once, settles nothing, and batches go on after it', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(5_000n)
  await world.boot()
  const admin = await createKeyPairSignerFromPrivateKeyBytes(world.chain.admin_seed)
  const fields = { program: world.program, admin: decodeBase58(admin.address, 32)! }
  await world.send(admin, toInstruction(pauseInstruction(fields), [admin]))
  await world.sink.until(() => world.sink.halts.length > 0)
  expect(world.sink.halts).toEqual(['vault_paused'])
  expect(world.port.health().reasons).toContain('vault_paused')
  world.outbox.add(world.nextPayload())
  await world.send(admin, toInstruction(unpauseInstruction(fields), [admin]))
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(world.sink.halts).toEqual(['vault_paused'])
  expect(world.port.health().reasons).toEqual([])
})
