/** The only provider lies at random for a while, then shows the truth: the venue runs again, and every mint conserves. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { decodeBase58 } from '../../protocol/base58'
import { fromHex, u64Le } from '../../protocol/bytes'
import { nullifierOf } from '../../protocol/notes/notes'
import { JTO, USDC } from '../../sandbox/environment'
import * as lies from '../kit/chain/lying_endpoint'
import { bendAccounts, bendConfig, bendTree, type Lie, LyingEndpoint } from '../kit/chain/lying_endpoint'
import { Random } from '../kit/random'
import { EmbeddedTrading, soon } from '../kit/venue/embedded_site'
import { type Deposit, element } from '../kit/venue/trader'

const FIRST = Number(process.env['TACIT_LIAR_SEED'] ?? 1)
const SEEDS = Number(process.env['TACIT_LIAR_SEEDS'] ?? 3)
const LIES_MAX = 3
const RESTARTS_MAX = 3
/** A venue that has not recovered by itself so long after the truth is restarted, as an operator would. */
const STOPPED_MS = 4_000

const world = new EmbeddedTrading()
const { site } = world
let liar: LyingEndpoint
beforeAll(async () => {
  await site.openChain()
  liar = new LyingEndpoint(site.chain.url)
  site.rpc_urls = [liar.url]
  await site.openVenue()
  for (const id of ['alice', 'bob']) await site.issue(id)
  world.alice = world.trader('alice')
  world.bob = world.trader('bob')
}, 120_000)
afterAll(async () => {
  await site.remove()
  await liar.stop()
})

/** Offsets in accounts: protocol/vault/accounts.ts. */
const config = (change: (data: Buffer) => void): Record<string, Lie> => ({
  getMultipleAccounts: (result) => bendConfig(result, change),
})
const more = (at: number, by: bigint) => (data: Buffer) => data.set(u64Le(data.readBigUInt64LE(at) + by), at)
const nullifierFor = ({ commitment, opening }: Deposit) =>
  nullifierOf(fromHex(commitment, 32)!, fromHex(opening.blinding, 32)!)

function kindsOf(random: Random, note: Deposit): Record<string, () => Record<string, Lie>> {
  const mint = decodeBase58(USDC, 32)!
  const program = site.chain.program_id!
  const invented = (count: number, commitment: () => Uint8Array, nullifier: () => Uint8Array) =>
    lies.inventedExits(
      Array.from({ length: count }, () =>
        lies.exitAccount(program, commitment(), mint, { nullifier: nullifier(), amount: 200_000_000n }),
      ),
    )
  return {
    frozen: lies.frozen,
    paused: () => config((data) => data.set([1], 3)),
    'another admin': () => config((data) => data.set(random.bytes(32), 80)),
    'another instance': () => config((data) => data.set(random.bytes(16), 144)),
    'epoch ahead': () => config(more(16, 1n)),
    'batch ahead': () => config(more(24, BigInt(random.between(1, 3)))),
    'batch behind': lies.lowerBatch,
    'journal ahead': lies.advancedHead,
    'commit ahead': () => config(more(200, 1_000n)),
    'leaves ahead': lies.inventedLeaves,
    'another root': lies.forgedRoot,
    'another spent root': () => ({
      getMultipleAccounts: (result) => bendTree(result, (data) => data.set(random.bytes(32), 1_328)),
    }),
    'queue ahead': () => ({ getMultipleAccounts: (result) => bendAccounts(result, 7, more(8, 5n)) }),
    'all failed': () => lies.forgedError(),
    'nothing found': lies.notFound,
    'false leaves': lies.forgedLeaves,
    'exits hidden': lies.hiddenExits,
    'exits of strangers': () => invented(random.between(1, 20), element, element),
    'an exit of a note': () =>
      invented(
        1,
        () => fromHex(note.commitment, 32)!,
        () => nullifierFor(note),
      ),
    'an exit of a nullifier': () => invented(1, element, () => nullifierFor(note)),
  }
}

/** Lies about one method one after the other. */
function joined(some: readonly Record<string, Lie>[]): Record<string, Lie> {
  const methods = new Set(some.flatMap((one) => Object.keys(one)))
  const all = (method: string): Lie => {
    return (result, call) => {
      const after = some.reduce((before, one) => one[method]?.(before, call) ?? before, result)
      return after === result && result === undefined ? undefined : after
    }
  }
  return Object.fromEntries([...methods].map((method) => [method, all(method)]))
}

/** Restarts as often as the process ends, also while it comes to rest, or an operator has to. */
async function recover(): Promise<void> {
  let restarts = 0
  let ready_ms = performance.now()
  for (let rested = 0; rested < 20; await Bun.sleep(10)) {
    const rests = isAtRest().catch(() => false)
    rested = (await Promise.race([rests, Bun.sleep(STOPPED_MS)])) ? rested + 1 : 0
    if (site.venue.status().ready) ready_ms = performance.now()
    if (site.fatal.length === 0 && performance.now() - ready_ms < STOPPED_MS) continue
    restarts += 1
    expect(restarts).toBeLessThanOrEqual(RESTARTS_MAX)
    site.fatal.splice(0)
    await site.venue.close()
    await site.openVenue()
    ready_ms = performance.now()
  }
}

/** Ends all orders. True once exits were read and everything packed has landed and is paid: deposits know their leaves then. */
async function isAtRest(): Promise<boolean> {
  for (const id of ['alice', 'bob'] as const) await site.venue.cancelAll(id, [world[id].cancelAll()])
  const { last_batch, leaf_count, queue } = await site.port.readConfig()
  const landed = last_batch === site.hash.spent().batch_count && queue.entries.length === 0
  const read = liar.asked.has('getProgramAccounts') && leaf_count === site.hash.root().leaf_count
  return landed && read && site.venue.status().ready
}

async function newestEvent(): Promise<number> {
  let after = 0
  for (;;) {
    const newest = (await world.events('alice', after)).at(-1)
    if (newest === undefined) return after
    after = newest.seq
  }
}

async function episode(random: Random): Promise<void> {
  const money = await world.deposited(world.alice, USDC, 200_000_000n)
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  const expiry_slot = site.venue.time().slot + 5_000
  const bought = world.alice.place(money, { expiry_slot })
  await site.venue.place('alice', bought)
  const kinds = kindsOf(random, money)
  const names = Array.from({ length: random.between(1, LIES_MAX) }, () => random.pick(Object.keys(kinds)))
  liar.lies = joined(names.map((name) => kinds[name]!()))
  await Bun.sleep(random.between(0, 1_200))
  const sold = site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await Promise.race([sold.catch(() => undefined), Bun.sleep(500)])
  await Bun.sleep(random.between(0, 1_200))
  liar.lies = {}
  liar.asked.clear()
  await recover()
  const after = await newestEvent()
  await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized', after)
  for (; !(await isAtRest().catch(() => false)); await soon()) expect(site.fatal).toEqual([])
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)
  expect((await site.port.readConfig()).spent_root).toEqual(site.hash.spent().root)
  expect(site.fatal).toEqual([])
}

for (let seed = FIRST; seed < FIRST + SEEDS; seed++)
  test(`seed ${seed}`, () => episode(new Random(seed)), 120_000)
