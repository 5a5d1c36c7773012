/** Exit requests reach the engine, vanish with a fork, and are served by an ordinary batch; a pause is told. */
import { expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { LIMITS } from '../../../engine/limits'
import type { SettlementPayload, SpentWitness } from '../../../engine/ports'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { compareBytes, toHex } from '../../../protocol/bytes'
import { pauseInstruction, unpauseInstruction } from '../../../protocol/vault/admin'
import { requestExitOf } from '../../kit/chain/request_exit_of'
import { randomField, USDC, VaultWorld } from '../../kit/chain/vault_world'

const mint = decodeBase58(USDC, 32)!

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1)
const stages = (world: VaultWorld): string[] => world.sink.exits.map(({ stage }) => stage)

test('a request is told at confirmed, again at finalized, and a batch serves it', async () => {
  const world = await VaultWorld.open()
  await world.boot()
  const { nullifier, destination, refund_inner } = await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  expect(stages(world)).toEqual(['confirmed', 'finalized'])
  const commitment = world.sink.told[0]!
  const told = { nullifier, commitment, mint, amount: 5_000n, destination, refund_inner }
  expect(world.sink.exits[0]).toMatchObject(told)
  const payout = {
    kind: 'exit' as const,
    mint,
    destination,
    amount: 5_000n,
    refund_inner,
    nullifier,
  }
  const payload = world.nextPayload([payout])
  world.outbox.add({ ...payload, nullifiers: [...payload.nullifiers, nullifier].sort(compareBytes) })
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(world.outbox.stages.at(-1)!.payouts).toEqual([{ outcome: 'paid' }])
  const usdc = (await world.port.readMints()).find((one) => toHex(one.mint) === toHex(mint))!
  expect([usdc.balance, usdc.liabilities]).toEqual([0n, 0n])
  await world.close()
})

/** A batch that spends the nullifier alone, hashed by the real worker. */
async function spending(
  world: VaultWorld,
  batch_id: number,
  nullifier: Uint8Array,
): Promise<SettlementPayload> {
  const result = await world.hash.hashBatch({ batch_id, inputs: [{ nullifier }], outputs: [], refunds: [] })
  const { nullifiers, spent_root, spent_count } = result
  return { batch_id, nullifiers, outputs: [], payouts: [], spent_root, spent_count, leaf_count_min: 1 }
}

test('a request for a note that is spent, or that an unlanded batch spends, is refused and its bond taken', async () => {
  const world = await VaultWorld.open()
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
  await world.close()
})

test('batches stop a little behind a proof against a request until it had its time, or they would outrun it', async () => {
  const world = await VaultWorld.open()
  await world.boot()
  const { nullifier, account } = await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  // A state that is kept can be cited ahead.
  world.chain.advance(20)
  await world.deposit(1_000n)
  await world.sink.until(() => world.sink.told.length === 2)
  world.chain.stall(true)
  const proven = Promise.withResolvers<SpentWitness>()
  const { hash } = world
  const witnessOf = hash.spentWitness
  hash.spentWitness = async (wanted) => {
    const witness = await witnessOf(wanted)
    if (witness.present) proven.resolve(witness)
    return witness
  }
  const first = await spending(world, 1, nullifier)
  expect((await proven.promise).last_batch_id).toBe(1)
  const count = 2 * LIMITS.batches_ahead_max
  world.outbox.add(first)
  for (let id = 2; id <= count; id++) world.outbox.add(await spending(world, id, randomField()))
  const last = 1 + LIMITS.batches_behind_refusal_max
  await world.outbox.until(() => world.outbox.signed(last) !== undefined)
  // Time enough for more than a look of the relayer: without the proof 33 would be under way.
  await Bun.sleep(300)
  expect(world.outbox.signings.map(({ batch_id }) => batch_id)).toEqual(upTo(last))
  world.chain.stall(false)
  await world.outbox.until(() => world.outbox.stageOf(count) === 'finalized')
  const gone = () => world.chain.machine.accountAt(encodeBase58(account), 'finalized') === undefined
  while (!gone()) await new Promise((resolve) => setImmediate(resolve))
  await world.close()
})

test('a boot goes on from what the engine was told: an end that came meanwhile is told, nothing is told twice', async () => {
  const world = await VaultWorld.open()
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
  await world.close()
})

test('a request that a fork takes back is told as vanished', async () => {
  const world = await VaultWorld.open({}, 40)
  await world.boot()
  await requestExitOf(world, 5_000n)
  await world.sink.until(() => stages(world).includes('confirmed'))
  world.chain.fork(35)
  await world.sink.until(() => stages(world).includes('vanished'))
  expect(stages(world)).toEqual(['confirmed', 'vanished'])
  await world.close()
})

test('a pause is told once, settles nothing, and batches go on after it', async () => {
  const world = await VaultWorld.open()
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
  await world.close()
})
