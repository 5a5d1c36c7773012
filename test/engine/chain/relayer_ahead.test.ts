/** Batches sent before their predecessors landed, through drops, lost replies and forks, end as if sent one by one. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { readU64Le, toHex } from '../../../protocol/bytes'
import { decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import type * as wire from '../../../protocol/wire/trading'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { JTO, USDC } from '../../../sandbox/environment'
import { fundedWallet, mintTo } from '../../kit/chain/chain_folder'
import { delayingLies, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { expectLandedOnce, VaultWorld } from '../../kit/chain/vault_world'
import { Random } from '../../kit/random'
import { EmbeddedTrading, soon } from '../../kit/venue/embedded_site'

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
  // The failure halves the window; the chain does not move, so signed one by one they would not come.
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
    // Transactions on their way are dropped too.
    world.chain.advance(1)
    world.chain.faults.drop = undefined
    world.chain.advance(2)
    await world.boot({ same_epoch })
    await world.outbox.until(() => world.outbox.stageOf(5) === 'finalized')
    // Another epoch fences transactions of an earlier one; within one the journaled bytes go out again.
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

/** Slots: a busy machine has time to see a confirmed batch before it is final. */
const FINALIZED_DEPTH = 120

const world = new EmbeddedTrading()
const { site } = world
beforeAll(() => world.open({}, FINALIZED_DEPTH), 120_000)
afterAll(() => site.remove())

/** Abandons the block of a transaction and all after it. */
function forkAt(signature: string): void {
  const { chain } = site
  chain.fork(chain.slot() - chain.machine.store.transaction(signature)!.slot + 1)
}

async function accepted(destination: Uint8Array): Promise<string> {
  const deposit = await world.deposited(world.alice, USDC, 5_000_000n)
  const request = world.alice.withdrawal(deposit, 4_000_000n, destination)
  return (await site.venue.withdraw('alice', request)).withdrawal_id
}

async function until(id: string, holds: (one: wire.Withdrawal) => boolean): Promise<wire.Withdrawal> {
  for (;;) {
    const found = await site.venue.withdrawal('alice', id)
    if (holds(found)) return found
    await soon()
  }
}

/** Everything is final, paid once, and nothing is degraded. */
async function expectPaidOnce(id: string, destination: Uint8Array): Promise<void> {
  await until(id, ({ status }) => status === 'paid')
  expect(world.balance(destination)).toBe(4_000_001n)
  const { capacity, entries } = (await site.port.readConfig()).queue
  expect([capacity, entries]).toEqual([60, []])
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)
  while (site.venue.status().reasons.length > 0) await soon()
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  expect(site.fatal).toEqual([])
}

/** The kinds of the withdrawal's events, each with the stage of its payout. */
async function told(id: string): Promise<string[]> {
  const events = (await world.events('alice')).filter(({ kind }) => kind.startsWith('withdrawal.'))
  return events.flatMap(({ kind, data }) => {
    const { withdrawal_id, payout_stage } = data as wire.Withdrawal
    return withdrawal_id === id ? [`${kind.slice('withdrawal.'.length)} ${payout_stage ?? 'none'}`] : []
  })
}

test('a confirmed payment that is taken back is open again, and paid once', async () => {
  const destination = await world.payee(USDC)
  const id = await accepted(destination)
  const paid = await until(id, ({ payout_stage }) => payout_stage === 'confirmed')
  forkAt(paid.payout_signature!)
  await expectPaidOnce(id, destination)
  const stages = await told(id)
  const again = stages.slice(stages.findIndex((one) => one.endsWith(' confirmed')) + 1)
  // The same bytes landed again, and the batch stays where it is.
  expect((await site.venue.withdrawal('alice', id)).payout_signature).toBe(paid.payout_signature!)
  expect(again[0]).toMatch(/^(confirmed|finalized) submitted$/)
  expect(again.filter((one) => one.endsWith(' none'))).toEqual([])
  expect(stages.filter((one) => /^(paid|refunded)/.test(one))).toEqual(['paid finalized'])
}, 180_000)

test('a confirmed settlement that is taken back with its payment is submitted again, then both land', async () => {
  const destination = await world.payee(USDC)
  const id = await accepted(destination)
  const { signature, settlement_batch } = await until(id, ({ payout_stage }) => payout_stage === 'confirmed')
  forkAt(signature!)
  await expectPaidOnce(id, destination)
  const stages = await told(id)
  const again = stages.slice(stages.findIndex((one) => one.endsWith(' confirmed')) + 1)
  // Bytes whose blockhash was of the lost fork expire, and others are submitted.
  const steps = again.filter((stage, at) => stage !== again[at - 1])
  expect(steps.slice(0, 2)).toEqual(['submitted none', 'confirmed none'])
  expect(stages.filter((one) => /^(paid|refunded)/.test(one))).toEqual(['paid finalized'])
  expect(await site.venue.withdrawal('alice', id)).toMatchObject({ settlement_batch: settlement_batch! })
}, 180_000)

test('confirmed fills that are taken back are submitted again and become final once, with notes that can be spent', async () => {
  const { order_id } = await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.confirmed')
  const { last_batch } = site.venue.settlementHealth()
  const [fill] = (await site.venue.order('alice', order_id)).fills
  forkAt(fill!.signature!)
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  const fills = (await world.events('alice'))
    .map(({ kind }) => kind)
    .filter((kind) => kind.startsWith('fill.'))
    .filter((kind, at, all) => kind !== all[at - 1])
  expect(fills.slice(0, 5)).toEqual([
    'fill.matched',
    'fill.submitted',
    'fill.confirmed',
    'fill.submitted',
    'fill.confirmed',
  ])
  expect(fills.filter((kind) => kind === 'fill.finalized')).toHaveLength(1)
  expect(site.venue.settlementHealth().last_batch).toBe(last_batch)
  expect((await site.port.readConfig()).last_batch).toBe(last_batch)
  const { proceeds_commitment } = (await site.venue.order('alice', order_id)).fills[0]!
  const destination = await world.payee(JTO)
  const proceeds = { commitment: proceeds_commitment } as Parameters<typeof world.alice.withdrawal>[0]
  const request = world.alice.withdrawal(proceeds, 1_000_000n, destination)
  const { withdrawal_id } = await site.venue.withdraw('alice', request)
  await until(withdrawal_id, ({ status }) => status === 'paid')
  expect(world.balance(destination)).toBe(1_000_001n)
}, 180_000)

/**
 * Everything at once: sends dropped, replies lost and doubled, blocks taken back, blockhashes that die young, a send-only
 * endpoint that is dead, a provider that dies and comes back, others that fail, and one that lies; calm spells
 * between, so that batches go ahead again. Every batch becomes final once and every payout is paid once.
 * TACIT_STORM_BATCHES sets how many batches.
 */

const BATCHES = Number(process.env['TACIT_STORM_BATCHES'] ?? 14)
const SEED = Number(process.env['TACIT_STORM_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const PAID = 7n
/** Batches under way or waiting at a time. */
const AHEAD = 12
/** Batches of a spell of one weather. */
const SPELL = 20
/** An outage of two of the three nodes. */
const BOTH_DOWN_MS = 300

test(`${BATCHES} batches through a storm: each final once, nothing paid twice`, async () => {
  console.log(`TACIT_STORM_SEED=${SEED} TACIT_STORM_BATCHES=${BATCHES}`)
  const random = new Random(SEED)
  const world = await VaultWorld.open({ blockhash_life: 24 })
  const dead = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('', { status: 500 }) })
  const { chain } = world
  await world.deposit(10_000_000n)
  chain.advance(20)
  await world.deposit(1_000n)
  const wallet = await fundedWallet(chain)
  await mintTo(chain, USDC, wallet.address, 1n)
  const destination = decodeBase58(await associatedTokenAddress(wallet.address, USDC), 32)!
  const liar = new LyingEndpoint(chain.url)
  const mortal = new LyingEndpoint(chain.url)
  const rpc_urls = [liar.url, mortal.url, chain.url]
  const rpc_send_urls = [`http://127.0.0.1:${dead.port}`]
  await dead.stop(true)
  await world.boot({ connect: { rpc_urls, rpc_send_urls, rpc_timeout_ms: 2_000 } })
  liar.lies = delayingLies(liar, random)
  watchTruth(world)
  const storm = startStorm(world, random)
  let paid = 0n
  const mint = decodeBase58(USDC, 32)!
  for (let batch = 1; batch <= BATCHES; batch++) {
    storm.raging = Math.floor(batch / SPELL) % 2 === 0
    const payouts = random.chance(0.3) ? [world.payout({ mint, destination, amount: PAID })] : []
    paid += PAID * BigInt(payouts.length)
    mortal.silent = random.chance(0.2)
    liar.silent = random.chance(0.1)
    // One node alone proves nothing: with both down the relayer waits, so this weather ends by itself.
    if (mortal.silent && liar.silent) setTimeout(() => (mortal.silent = false), BOTH_DOWN_MS)
    world.outbox.add(world.nextPayload(payouts, 2, 2))
    const behind = batch - AHEAD
    if (behind > 0) await world.outbox.until(() => world.outbox.stageOf(behind) === 'finalized')
  }
  await world.outbox.until(() => world.outbox.stageOf(BATCHES) === 'finalized')
  await world.outbox.until(() => world.outbox.openPayouts().length === 0)
  const finals = world.outbox.stages.filter(({ stage }) => stage === 'finalized')
  expect(finals.map(({ batch_id }) => batch_id)).toEqual(Array.from({ length: BATCHES }, (_, at) => at + 1))
  expect([...world.outbox.violations, ...world.sink.violations, ...world.sink.halts]).toEqual([])
  const held = chain.machine.accountAt(encodeBase58(destination), 'finalized')!
  expect(readU64Le(held.data, 64)).toBe(1n + paid)
  chain.faults.rpc = undefined
  liar.lies = {}
  await world.sink.until(() => world.sink.told.length === 2 + 2 * BATCHES)
  const config = await world.port.readConfig()
  expect(config.last_batch).toBe(BATCHES)
  expect(toHex(world.hash.root().root)).toBe(toHex(config.note_root))
  const { signings } = world.outbox
  console.log(
    JSON.stringify({
      forks: storm.forks,
      signings: signings.length,
      ahead: storm.ahead,
      slots: chain.slot(),
    }),
  )
  console.log(JSON.stringify(Object.fromEntries(liar.told)))
  await world.close()
  await Promise.all([liar.stop(), mortal.stop()])
}, 3_600_000)

/**
 * Drops sends, fails calls and forks the chain. `raging`: sends are dropped often; `forks`: number so far; `ahead`: batches
 * signed while an earlier one was not confirmed.
 */
function startStorm({ chain, outbox, program }: VaultWorld, random: Random) {
  const storm = { raging: true, forks: 0, ahead: 0 }
  const config = encodeBase58(vaultAddresses(program).config)
  chain.faults.drop = () => random.chance(storm.raging ? 0.3 : 0.01)
  chain.faults.rpc = (method) => {
    const roll = random.next()
    if (roll < 0.05) return { status: roll < 0.02 ? 429 : 503 }
    if (method === 'sendTransaction' && roll < 0.35)
      return roll < 0.2 ? { reply_lost: true } : { twice: true }
    return undefined
  }
  outbox.onSigned = ({ batch_id }) => {
    const { data } = chain.machine.accountAt(config, 'confirmed')!
    if (decodeConfig(data)!.last_batch < batch_id - 1) storm.ahead += 1
  }
  outbox.onStage = ({ stage }) => {
    if (stage !== 'confirmed' || !random.chance(0.2)) return
    const { machine } = chain
    const deepest = Math.min(6, machine.tip - machine.slotAt('finalized'))
    if (deepest < 1) return
    storm.forks += 1
    chain.fork(random.between(1, deepest))
  }
  return storm
}

/** The slots and finalized batches that reach the venue never exceed the chain's. */
function watchTruth(world: VaultWorld): void {
  const { chain, sink, outbox, program } = world
  const { config } = vaultAddresses(program)
  const tell = sink.slot.bind(sink)
  sink.slot = (slot) => {
    if (slot > chain.slot()) sink.violations.push(`slot ${slot} is told at ${chain.slot()}`)
    tell(slot)
  }
  const record = outbox.recordStage.bind(outbox)
  outbox.recordStage = (stage) => {
    const { data } = chain.machine.accountAt(encodeBase58(config), 'finalized')!
    const { last_batch } = decodeConfig(data)!
    if (stage.stage === 'finalized' && stage.batch_id > last_batch)
      outbox.violations.push(`batch ${stage.batch_id} is final before the chain says so`)
    return record(stage)
  }
}
