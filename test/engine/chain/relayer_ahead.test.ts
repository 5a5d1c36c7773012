/** Batches signed and sent before their predecessors landed: order, payloads and payouts are what they would be one by one. */
import { expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import { mintTo } from '../../kit/chain/chain_folder'
import { LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { expectLandedOnce, VaultWorld } from '../../kit/chain/vault_world'

const FULL = LIMITS.batches_ahead_max + 1

/** A running relayer that may cite a kept state; the chain makes no slot until it is released. */
async function stalledWorld(finalized_depth?: number): Promise<VaultWorld> {
  const world = await VaultWorld.open({}, finalized_depth)
  await world.deposit(1_000_000n)
  world.chain.advance(20)
  await world.deposit(1_000n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 2)
  world.chain.stall(true)
  return world
}

async function sendAhead(world: VaultWorld, batches: number): Promise<void> {
  for (let batch = 1; batch <= batches; batch++) world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(batches) === 'submitted')
}

/** Notes for each signature which batch was the last to be confirmed. Time stops at the first. */
function confirmedAtSigning(world: VaultWorld): [batch_id: number, confirmed: number][] {
  const noted: [number, number][] = []
  const { config } = vaultAddresses(world.program)
  world.outbox.onSigned = ({ batch_id }) => {
    if (noted.length === 0) world.chain.stall(true)
    const { data } = world.chain.machine.accountAt(encodeBase58(config), 'confirmed')!
    noted.push([batch_id, decodeConfig(data)!.last_batch])
  }
  return noted
}

const signedIds = (world: VaultWorld): number[] => world.outbox.signings.map(({ batch_id }) => batch_id)
const signatureOf = (world: VaultWorld, batch_id: number): string =>
  encodeBase58(world.outbox.signed(batch_id)!.signature)
const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1)

test('a full pipeline lands in one slot, in order, each batch signed once', async () => {
  await using world = await stalledWorld()
  await sendAhead(world, FULL)
  world.outbox.add(world.nextPayload())
  world.chain.stall(false)
  await world.outbox.until(() => world.outbox.stageOf(FULL + 1) === 'finalized')
  const landed = world.outbox.stages.filter(
    ({ batch_id, stage }) => stage === 'finalized' && batch_id <= FULL,
  )
  expect(new Set(landed.map(({ slot }) => slot)).size).toBe(1)
  expect(signedIds(world)).toEqual(upTo(FULL + 1))
  await expectLandedOnce(world, FULL + 1)
}, 120_000)

test('without a kept state to cite only the next batch is signed, and none fails', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000_000n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 1)
  world.chain.stall(true)
  for (let batch = 1; batch <= 3; batch++) world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(1) === 'submitted')
  // Time for more than one step of the relayer.
  await Bun.sleep(200)
  expect(signedIds(world)).toEqual([1])
  world.chain.stall(false)
  await world.outbox.until(() => world.outbox.stageOf(3) === 'finalized')
  expect(signedIds(world)).toEqual([1, 2, 3])
  await expectLandedOnce(world, 3)
}, 120_000)

test('behind a lost batch all fail once; it is sent again at once and they follow in its wake, not one by one', async () => {
  await using world = await stalledWorld()
  await sendAhead(world, FULL)
  const lost = new Set([signatureOf(world, 2)])
  const again = confirmedAtSigning(world)
  world.chain.faults.drop = (signature) => lost.delete(signature)
  world.chain.stall(false)
  // The failure halves the window; the chain stands still, so signed one by one they would not come.
  const wake = LIMITS.batches_ahead_max / 2
  while (again.length < wake) await Bun.sleep(1)
  expect(again.slice(0, wake).map(([batch_id]) => batch_id)).toEqual(upTo(wake).map((at) => at + 2))
  for (const [, confirmed] of again) expect(confirmed).toBeLessThanOrEqual(2)
  world.chain.stall(false)
  await world.outbox.until(() => world.outbox.stageOf(FULL) === 'finalized')
  expect(lost.size).toBe(0)
  const times = upTo(FULL).map((id) => signedIds(world).filter((one) => one === id).length)
  expect(times.slice(0, 2)).toEqual([1, 1])
  for (const count of times.slice(2)) {
    expect(count).toBeGreaterThan(1)
    expect(count).toBeLessThanOrEqual(LIMITS.batch_signings_ahead_max)
  }
  expect(world.sink.halts).toEqual([])
  await expectLandedOnce(world, FULL)
}, 120_000)

test('a lost batch is sent again once a later one failed, before the next rebroadcast is due', async () => {
  await using world = await stalledWorld()
  await sendAhead(world, 3)
  const lost = new Set([signatureOf(world, 2)])
  world.chain.faults.drop = (signature) => lost.delete(signature)
  let sent = 0
  world.chain.faults.rpc = (method) => {
    if (method === 'sendTransaction') sent += 1
    return undefined
  }
  // Time stops again before the rebroadcast.
  world.chain.advance(LIMITS.rebroadcast_slots - 1)
  while (sent === 0) await Bun.sleep(1)
  expect(lost.size).toBe(0)
  world.chain.stall(false)
  await world.outbox.until(() => world.outbox.stageOf(3) === 'finalized')
  await expectLandedOnce(world, 3)
}, 120_000)

test('a fork in the middle of a pipeline: the same bytes land again, in order', async () => {
  await using world = await stalledWorld(40)
  await sendAhead(world, FULL)
  let forks = 0
  world.outbox.onStage = ({ batch_id, stage, slot }) => {
    if (batch_id !== 5 || stage !== 'confirmed' || forks > 0) return
    forks += 1
    world.chain.fork(world.chain.slot() - slot + 1)
  }
  world.chain.stall(false)
  await world.outbox.until(() => world.outbox.stageOf(FULL) === 'finalized')
  expect(forks).toBe(1)
  const first = world.outbox.stages.filter(({ batch_id }) => batch_id === 1).map(({ stage }) => stage)
  expect(first).toEqual(['submitted', 'confirmed', 'submitted', 'confirmed', 'finalized'])
  expect(signedIds(world)).toEqual(upTo(FULL))
  await expectLandedOnce(world, FULL)
}, 120_000)

test.each([false, true])(
  'a restart in the middle of a pipeline, in the same epoch: %p',
  async (same_epoch) => {
    await using world = await stalledWorld()
    await sendAhead(world, 5)
    const landing = [signatureOf(world, 1), signatureOf(world, 2)]
    world.chain.faults.drop = (signature) => !landing.includes(signature)
    world.chain.stall(false)
    await world.outbox.until(() => world.outbox.stageOf(2) === 'confirmed')
    await world.port.close()
    // What is on its way is dropped too.
    world.chain.advance(1)
    world.chain.faults.drop = undefined
    world.chain.advance(2)
    await world.boot({ same_epoch })
    await world.outbox.until(() => world.outbox.stageOf(5) === 'finalized')
    // Another epoch fences what an earlier one signed; within one the journaled bytes go out again.
    expect(signedIds(world)).toEqual(same_epoch ? [1, 2, 3, 4, 5] : [1, 2, 3, 4, 5, 3, 4, 5])
    await expectLandedOnce(world, 5)
  },
  120_000,
)

test('batches behind one whose transaction no provider serves yet are not reported before it', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000_000n)
  world.chain.advance(20)
  await world.deposit(1_000n)
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  await world.sink.until(() => world.sink.told.length === 2)
  world.chain.stall(true)
  await sendAhead(world, FULL)
  const hidden = signatureOf(world, 2)
  let asked = 0
  endpoint.lies = {
    getTransaction(_, { params }) {
      if (params[0] !== hidden) return undefined
      asked += 1
      return null
    },
  }
  world.chain.stall(false)
  while (asked < 20) await Bun.sleep(1)
  expect(
    world.outbox.stages.filter(({ stage }) => stage !== 'submitted').map(({ batch_id }) => batch_id),
  ).toEqual(world.outbox.stageOf(1) === 'finalized' ? [1, 1] : [1])
  endpoint.lies = {}
  await world.outbox.until(() => world.outbox.stageOf(FULL) === 'finalized')
  await expectLandedOnce(world, FULL)
  await world.close()
  await endpoint.stop()
}, 120_000)

test('a batch with payouts goes ahead like any other, and its payout is paid once', async () => {
  await using world = await stalledWorld()
  const noted = confirmedAtSigning(world)
  const owner = (await world.settlementSigner()).address
  world.chain.stall(false)
  await mintTo(world.chain, USDC, owner, 1n)
  const destination = decodeBase58(await associatedTokenAddress(owner, USDC), 32)!
  const mint = decodeBase58(USDC, 32)!
  const payout = world.payout({ mint, destination, amount: 400n })
  world.chain.stall(true)
  world.outbox.add(world.nextPayload())
  world.outbox.add(world.nextPayload([payout]))
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(3) === 'submitted')
  expect(noted).toEqual([1, 2, 3].map((batch_id) => [batch_id, 0]))
  world.chain.stall(false)
  await world.outbox.until(() => world.outbox.stageOf(3) === 'finalized')
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'finalized')
  expect(world.outbox.payoutOf(1)!.outcome).toBe('paid')
  await expectLandedOnce(world, 3)
}, 120_000)
