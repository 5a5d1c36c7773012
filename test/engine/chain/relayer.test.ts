/** Settlement batches reach finality in order, once each, while the chain drops, repeats and reverts transactions. */
import { expect, test } from 'bun:test'
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit'
import { RelayedBatch } from '../../../engine/chain/relayer/batch'
import { Relayer } from '../../../engine/chain/relayer/relayer'
import { decodeBase58 } from '../../../protocol/base58'
import { compareBytes, toHex } from '../../../protocol/bytes'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import { mintTo } from '../../kit/chain/chain_folder'
import { LyingEndpoint, lowerBatch } from '../../kit/chain/lying_endpoint'
import { expectLandedOnce, VaultWorld } from '../../kit/chain/vault_world'

/** Far enough back that a relayer on a busy machine still meets its batch before it is final. */
const FINALIZED_DEPTH = 40
const FORK_DEPTH_MAX = FINALIZED_DEPTH - 1

/** Lamports, from the limits in the message of a v1 transaction: the only value of 64 bits. */
function priorityFeeOf(transaction: Uint8Array): number {
  const { messageBytes } = getTransactionDecoder().decode(transaction)
  const message = getCompiledTransactionMessageDecoder().decode(messageBytes)
  if (message.version !== 1) throw new Error('the relayer signs v1 transactions')
  return Number(message.configValues.find(({ kind }) => kind === 'u64')!.value)
}

/** A small reproducible generator (mulberry32). */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let value = Math.imul(state ^ (state >>> 15), 1 | state)
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296
  }
}

test('healthy chain: a batch is journaled, submitted, confirmed and finalized, signed once', async () => {
  await using world = await VaultWorld.open()
  world.chain.faults.drop = (signature) => {
    // Only the relayer sends from here on: bytes must be in the journal before they can land.
    if (world.epoch > 0 && started && !world.outbox.wasRecorded(signature))
      world.outbox.violations.push('sent before journaled')
    return false
  }
  let started = false
  await world.deposit(5_000_000n)
  await world.boot()
  started = true
  world.outbox.add(world.nextPayload())
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(2) === 'finalized')
  expect(world.outbox.stages.filter((stage) => stage.batch_id === 1).map((stage) => stage.stage)).toEqual([
    'submitted',
    'confirmed',
    'finalized',
  ])
  expect(world.outbox.signings).toHaveLength(2)
  await world.sink.until(() => world.sink.told.length === 7)
  await expectLandedOnce(world, 2)
  const config = await world.port.readConfig()
  expect(config.last_batch).toBe(2)
  expect(toHex(world.hash.root().root)).toBe(toHex(config.note_root))
})

test('a final batch whose leaves the venue lacks is reported again, and later ones wait for it', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(5_000_000n)
  await world.boot()
  const { outbox } = world
  const record = outbox.recordStage.bind(outbox)
  let left = 3
  outbox.recordStage = async (stage) => {
    if (stage.stage !== 'finalized' || left === 0) return record(stage)
    expect(stage.batch_id).toBe(1)
    left -= 1
    return false
  }
  outbox.add(world.nextPayload())
  outbox.add(world.nextPayload())
  await outbox.until(() => outbox.stageOf(2) === 'finalized')
  expect([left, outbox.violations]).toEqual([0, []])
})

test('drops, forks, lost and repeated replies: every batch lands once, in order', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  console.log(`seed ${seed}`)
  const random = generator(seed)
  await using world = await VaultWorld.open({ blockhash_life: 24 }, FINALIZED_DEPTH)
  await world.deposit(5_000_000n, 1_000n, 2_000n)
  await world.boot()
  world.chain.faults.drop = () => random() < 0.4
  world.chain.faults.rpc = (method) => {
    const roll = random()
    if (roll < 0.05) return { status: roll < 0.02 ? 429 : 503 }
    if (method === 'sendTransaction' && roll < 0.3)
      return roll < 0.15 ? { reply_lost: true } : { twice: true }
    return undefined
  }
  const BATCHES = 10
  forkAfterConfirmed(world, [2, 5, 6, 9], random)
  for (let batch = 1; batch <= BATCHES; batch++) world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(BATCHES) === 'finalized')
  world.chain.faults.rpc = undefined
  await world.sink.until(() => world.sink.told.length === 3 + 3 * BATCHES)
  await expectLandedOnce(world, BATCHES)
  expect(world.sink.halts).toEqual([])
  expect(rewinds(world)).toBeGreaterThanOrEqual(3)
  const config = await world.port.readConfig()
  expect(toHex(world.hash.root().root)).toBe(toHex(config.note_root))
  expect(world.outbox.stages.filter((stage) => stage.stage === 'finalized')).toHaveLength(BATCHES)
}, 180_000)

/** Takes blocks back right after each of these batches was reported confirmed, once per batch. */
function forkAfterConfirmed(world: VaultWorld, batches: number[], random: () => number): void {
  const left = new Set(batches)
  world.outbox.onStage = ({ batch_id, stage }) => {
    if (stage !== 'confirmed' || !left.delete(batch_id)) return
    const { slot } = world.outbox.stages.at(-1)!
    const depth = Math.min(world.chain.slot() - slot + 1 + Math.floor(random() * 2), FORK_DEPTH_MAX)
    world.chain.fork(depth)
  }
}

/** How often a batch that was confirmed went back to submitted. */
function rewinds(world: VaultWorld): number {
  const last = new Map<number, string>()
  let count = 0
  for (const { batch_id, stage } of world.outbox.stages) {
    if (stage === 'submitted' && last.get(batch_id) === 'confirmed') count += 1
    last.set(batch_id, stage)
  }
  return count
}

test('a transaction is signed again only when the earlier one can no longer land', async () => {
  await using world = await VaultWorld.open({ blockhash_life: 15 })
  await world.deposit(1_000n)
  await world.boot()
  world.chain.faults.drop = () => true
  const heights: number[] = []
  world.outbox.onSigned = () => {
    heights.push(world.chain.machine.height)
  }
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.signings.length === 2)
  world.chain.faults.drop = undefined
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(heights[1]!).toBeGreaterThan(world.outbox.signings[0]!.last_valid_block_height)
  await expectLandedOnce(world, 1)
})

test('the fee grows with the time that a batch waits, from 2 s on, up to the cap', async () => {
  await using world = await VaultWorld.open({ blockhash_life: 15, drop: () => false })
  await world.deposit(1_000n)
  let later_ms = 0
  const monotonicMs = () => performance.now() + later_ms
  const fees = { floor_lamports: 1_000n, cap_lamports: 40_000n }
  await world.boot({ connect: { monotonicMs, fees } })
  world.chain.faults.drop = () => true
  world.outbox.onSigned = () => {
    if (world.outbox.signings.length > 0) later_ms = 3_600_000
    else later_ms = 60_000
  }
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.signings.length === 3)
  world.chain.faults.drop = undefined
  const lamports = world.outbox.signings.map(({ transaction }) => priorityFeeOf(transaction))
  expect(lamports[0]).toBe(1_000)
  expect(lamports[1]).toBeGreaterThanOrEqual(30_000)
  expect(lamports[1]).toBeLessThan(40_000)
  expect(lamports[2]).toBe(40_000)
})

test('an idle relayer waits for the next payload and for no other', async () => {
  await using world = await VaultWorld.open()
  const waited = new Set<number>()
  const wait = world.outbox.waitForPayload.bind(world.outbox)
  world.outbox.waitForPayload = (batch_id) => {
    waited.add(batch_id)
    return wait(batch_id)
  }
  await world.deposit(1_000n)
  await world.boot()
  const idle = async (batch_id: number) => {
    while (!waited.has(batch_id)) await new Promise((resolve) => setImmediate(resolve))
  }
  await idle(1)
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  await idle(2)
  expect([...waited]).toEqual([1, 2])
}, 120_000)

test('nothing is sent before the journal has it', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000n)
  await world.boot()
  const [before, after]: number[][] = [[], []]
  let sent = 0
  world.chain.faults.rpc = (method) => {
    if (method === 'sendTransaction') sent += 1
    return undefined
  }
  world.outbox.onSigned = async () => {
    before!.push(sent)
    await Bun.sleep(100)
    after!.push(sent)
  }
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(after).toEqual(before!)
  expect(sent).toBeGreaterThan(0)
})

test('a crash between journal and send, and one between send and answer, are healed from the journal', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000n)
  await world.boot()
  const crashed = Promise.withResolvers<void>()
  world.outbox.onSigned = () => {
    crashed.resolve()
    // The process dies here: nothing after the journal write happens in this instance.
    return new Promise(() => {})
  }
  world.outbox.add(world.nextPayload())
  await crashed.promise
  world.outbox.onSigned = () => {}
  world.port.close()
  await world.boot()
  await world.outbox.until(() => world.outbox.stageOf(1) !== undefined)
  // The second instance dies after sending; the batch lands without it.
  await world.port.close()
  await world.boot()
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  await expectLandedOnce(world, 1)
  expect(world.epoch).toBe(4)
})

test('payouts: a usable destination is paid, an unusable one comes back as a note', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000_000n)
  await world.boot()
  const { mint, destination } = await payee(world)
  const paid = world.payout({ mint, destination, amount: 400n })
  const missing = world.payout({
    mint,
    destination: crypto.getRandomValues(new Uint8Array(32)),
    amount: 300n,
  })
  world.outbox.add(world.nextPayload([paid, missing]))
  await world.outbox.until(() =>
    [1, 2].every((number) => world.outbox.payoutOf(number)?.stage === 'finalized'),
  )
  const payouts = [world.outbox.payoutOf(1)!, world.outbox.payoutOf(2)!]
  expect(payouts.map((payout) => payout.outcome)).toEqual(['paid', 'refunded'])
  await world.sink.until(() => world.sink.told.length === 5)
  expect(payouts[1]!.refund_leaf_index).toBe(4)
  expect(compareBytes(payouts[1]!.refund_commitment!, world.sink.told[4]!)).toBe(0)
  const usdc = (await world.port.readMints()).find((one) => toHex(one.mint) === toHex(mint))!
  expect(usdc.balance).toBe(999_600n)
  expect(usdc.liabilities).toBe(999_600n)
})

async function payee(world: VaultWorld): Promise<{ mint: Uint8Array; destination: Uint8Array }> {
  const owner = (await world.settlementSigner()).address
  await mintTo(world.chain, USDC, owner, 1n)
  return {
    mint: decodeBase58(USDC, 32)!,
    destination: decodeBase58(await associatedTokenAddress(owner, USDC), 32)!,
  }
}

test("a payout above the vault's debts stops the relayer with program_error", async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000n)
  await world.boot()
  const { mint, destination } = await payee(world)
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 1_001n })]))
  await world.sink.until(() => world.sink.halts.length > 0)
  expect(world.sink.halts).toEqual(['program_error'])
  expect(world.port.health()).toMatchObject({ settlement: 'degraded', reasons: ['program_error'] })
  expect((await world.port.readConfig()).last_batch).toBe(0)
})

test('a batch of 28 orders, two outputs each, fits one transaction', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000n)
  await world.boot()
  world.outbox.add(world.nextPayload([], 28, 56))
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(world.outbox.signings[0]!.transaction.length).toBeLessThanOrEqual(4_096)
  await world.sink.until(() => world.sink.told.length === 57)
  await expectLandedOnce(world, 1)
})

test('a batch that was recorded as final is not recorded again when a quorum shows fewer batches', async () => {
  const world = await VaultWorld.open()
  const liar = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000n)
  await world.boot({ connect: { rpc_urls: [liar.url] } })
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  liar.lies = lowerBatch()
  while (liar.lied < 20) await new Promise((resolve) => setImmediate(resolve))
  liar.lies = {}
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(2) === 'finalized')
  expect(world.outbox.violations).toEqual([])
  await world.close()
  await liar.stop()
})

const relayerOf = (args: object) =>
  new Relayer({ health: { watch: () => undefined } } as never, { epoch: 1, ...args } as never)

test('a stage that the journal did not take is not reported', async () => {
  const batch = new RelayedBatch(1, undefined, 1)
  const stage = { batch_id: 1, stage: 'confirmed', signature: new Uint8Array(64), slot: 5 } as const
  const relayer = relayerOf({ outbox: { recordStage: async () => false } })
  expect([await relayer['record'](batch, stage), batch.isConfirmed]).toEqual([false, false])
})

test('a rejection stops settlement once it is final, not before', async () => {
  const said: unknown[][] = []
  const relayer = relayerOf({ verdicts: { standing: (...one: unknown[]) => said.push(one) } })
  const failure = { kind: 'program', name: 'payout_mismatch' } as never
  for (const final of [false, true]) {
    await relayer['refused'](new RelayedBatch(1, undefined, 1), { kind: 'failed', final, failure })
    expect(said).toEqual(final ? [['program_error', true]] : [])
  }
})
