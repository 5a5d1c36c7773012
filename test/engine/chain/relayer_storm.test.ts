/**
 * Everything at once: sends dropped, replies lost and doubled, blocks taken back, blockhashes that die young, a send-only
 * endpoint that is dead, a provider that dies and comes back, others that fail, and one that lies; calm spells
 * between, so that batches go ahead again. Every batch becomes final once and every payout is paid once.
 * TACIT_STORM_BATCHES sets how many batches.
 */
import { expect, test } from 'bun:test'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { readU64Le, toHex } from '../../../protocol/bytes'
import { decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import { mintTo } from '../../kit/chain/chain_folder'
import { delayingLies, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { fundedWallet } from '../../kit/chain/transfer'
import { VaultWorld } from '../../kit/chain/vault_world'
import { Random } from '../../kit/random'

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
