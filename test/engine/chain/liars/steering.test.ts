/**
 * Liars below the quorum choose at each read which view of the chain they show: an earlier one, one that another provider
 * cannot have yet, one bent to a decision, or none. The host delays honest answers and withholds transactions. With any choice,
 * each decision, lease, covered position, slot, time and halt is the chain's. TACIT_STEER_ROUNDS sets the number of rounds,
 * TACIT_STEER_SEED replays them.
 */
import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chainAddresses } from '../../../../engine/chain/client/chain_client'
import { readConfigAndClock, type VaultReader } from '../../../../engine/chain/client/read_vault'
import { RpcPool } from '../../../../engine/chain/client/rpc_pool'
import type { Journal } from '../../../../engine/journal/contract'
import type { ChainPort, ClosePosition } from '../../../../engine/ports'
import { equalBytes, u64Le } from '../../../../protocol/bytes'
import { CONFIG } from '../../../../protocol/vault/accounts'
import { bendConfig, delayingLies, type Lie, LyingEndpoint } from '../../../kit/chain/lying_endpoint'
import { COMPOSE_HASH, expectLandedOnce, VaultWorld } from '../../../kit/chain/vault_world'
import { Random } from '../../../kit/random'
import * as folder from '../../journal/folder'

const ROUNDS = Number(process.env['TACIT_STEER_ROUNDS'] ?? 6)
const SEED = Number(process.env['TACIT_STEER_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
/** About 120 slots of the embedded chain. */
const COMMIT_MS = 1_200
const FAR_SLOTS = 1_000_000
const CLOCK_BYTES = 40
const CLOCK_UNIX_AT = 32
/** The chain's clock has whole seconds. */
const CLOCK_SLACK_MS = 3_000

type Accounts = { context: { slot: number }; value: { data: [string, string] }[] }

let world: VaultWorld
let dir: string
let journal: Journal
let observer: ChainPort
let truth: VaultReader
let liars: LyingEndpoint[]
let honest: LyingEndpoint[]

/** The liars' present aim. */
const aim: { close: ClosePosition | undefined } = { close: undefined }

async function open(liar_count: number, honest_count: number, random: Random): Promise<void> {
  world = await VaultWorld.open()
  dir = mkdtempSync(join(tmpdir(), 'tacit-steering-'))
  journal = await folder.open(dir)
  world.outbox.head = () => journal.head()
  const endpoints = (count: number) => Array.from({ length: count }, () => new LyingEndpoint(world.chain.url))
  liars = endpoints(liar_count)
  honest = endpoints(honest_count)
  await world.deposit(1_000n)
  await world.boot({ connect: { rpc_urls: urls(random) } })
  observer = await world.connect({}, true)
  truth = { rpc: new RpcPool([world.chain.url], 10_000), ...chainAddresses(world.program) }
}

/** In an order that the seed chooses: ties are broken by place. */
const urls = (random: Random) =>
  [...liars, ...honest]
    .map(({ url }) => ({ url, at: random.next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ url }) => url)

afterEach(async () => {
  await observer.close()
  await world.close()
  await journal.close()
  await Promise.all([...liars, ...honest].map((one) => one.stop()))
  rmSync(dir, { recursive: true })
})

const set = (
  data: Buffer,
  field: Parameters<typeof CONFIG.offsetOf>[0],
  value: number | Uint8Array | boolean,
) => {
  const bytes =
    typeof value === 'number' ? u64Le(value) : typeof value === 'boolean' ? [value ? 1 : 0] : value
  data.set(bytes, CONFIG.offsetOf(field))
}

/** Views of config, each of which would change a decision if it were believed. */
const BENT: Record<string, (data: Buffer, random: Random) => void> = {
  'landed already': (data) => {
    if (aim.close === undefined) return
    set(data, 'commit_seq', aim.close.seq)
    set(data, 'commit_head', aim.close.head)
  },
  'another close in its place': (data, random) => {
    set(data, 'commit_seq', (aim.close?.seq ?? 0) + random.between(0, 3))
    set(data, 'commit_head', random.bytes(32))
  },
  'no commit': (data) => set(data, 'commit_seq', 0),
  'a later epoch': (data, random) => {
    set(data, 'epoch', world.epoch + 1)
    set(data, 'boot_nonce', random.bytes(16))
  },
  'still the own epoch': (data) => {
    set(data, 'epoch', world.epoch)
    set(data, 'boot_nonce', world.boot_nonces.at(-1)!)
  },
  'all covered': (data) => {
    const { seq, head } = journal.head()
    set(data, 'journal_seq', seq)
    set(data, 'journal_head', head)
  },
  'a position ahead': (data) => set(data, 'journal_seq', journal.head().seq + 1),
  'a batch more': (data) => set(data, 'last_batch', world.outbox.payloads.size + 1),
  frozen: (data) => set(data, 'frozen', true),
  paused: (data) => set(data, 'paused', true),
}

/** Chooses a view for each answer about accounts. */
function steer(random: Random): Lie {
  const earlier = new Map<string, Accounts[]>()
  return async (result, { params }) => {
    const answer = result as Accounts
    const name = JSON.stringify(params[0]) + (params[1] as { commitment: string }).commitment
    const known = earlier.get(name) ?? []
    earlier.set(name, [...known, structuredClone(answer)].slice(-60))
    if (random.chance(0.2)) await Bun.sleep(random.between(1, 40))
    let shown = random.chance(0.25) && known.length > 0 ? structuredClone(random.pick(known)) : answer
    if (random.chance(0.5)) shown = { ...shown, context: answer.context }
    if (random.chance(0.5)) bendConfig(shown, (data) => random.pick(Object.values(BENT))(data, random))
    for (const account of shown.value) {
      const clock = account && Buffer.from(account.data[0], 'base64')
      if (clock?.length !== CLOCK_BYTES || random.chance(0.5)) continue
      const moved = Number(clock.readBigInt64LE(CLOCK_UNIX_AT)) + random.between(-1, 1) * 1_000_000
      clock.set(u64Le(moved), CLOCK_UNIX_AT)
      account!.data[0] = clock.toString('base64')
    }
    const slot = shown.context.slot + (random.chance(0.3) ? random.between(1, FAR_SLOTS) : 0)
    return { ...shown, context: { slot } }
  }
}

function arm(random: Random): void {
  for (const liar of liars) {
    const lies = delayingLies(liar, random)
    liar.lies = {
      ...lies,
      getMultipleAccounts: steer(random),
      isBlockhashValid: (result) => ({ ...(result as object), value: random.chance(0.5) }),
    }
  }
  // The host delays answers that it cannot change.
  const delay: Lie = () =>
    random.chance(0.1) ? Bun.sleep(random.between(1, 60)).then(() => undefined) : undefined
  for (const one of honest)
    one.lies = { getMultipleAccounts: delay, getEpochInfo: delay, getSignatureStatuses: delay }
}

/** True at any time, checked against providers that are not steered. */
async function expectTrue(): Promise<void> {
  const { port, chain, sink } = world
  const [{ covered_seq }, { slot, unix_ms }] = [port.lease(), port.view()]
  expect(slot).toBeLessThanOrEqual(chain.slot())
  const { config } = await readConfigAndClock(truth, 'processed')
  expect(covered_seq).toBeLessThanOrEqual(config.journal_seq)
  expect(Math.abs(unix_ms - observer.view().unix_ms)).toBeLessThan(CLOCK_SLACK_MS)
  expect(sink.halts).toEqual([])
}

async function commitRound(random: Random, counts: Record<string, number>): Promise<void> {
  const { port, chain } = world
  await journal.append(folder.records(random.between(1, 900), random.between(1, 5)))
  const close = { ...journal.head(), slot: port.view().slot }
  aim.close = close
  const until_ms = performance.now() + random.between(0, 1.5 * COMMIT_MS)
  chain.faults.landing_delay_slots = random.chance(0.3) ? random.between(1, 20) : 0
  if (random.chance(0.5)) chain.faults.drop = () => performance.now() < until_ms
  const deciding = port.commit(close, COMMIT_MS)
  await expectTrue()
  const decision = (await deciding)!
  chain.faults.drop = undefined
  aim.close = undefined
  const { slot } = port.view()
  while (port.view().slot < slot + 12) await Bun.sleep(5)
  const { commit_seq, commit_head } = await observer.readConfig()
  expect(decision.outcome).toBe(commit_seq === close.seq ? 'committed' : 'void')
  if (decision.outcome === 'committed') expect(equalBytes(commit_head, close.head)).toBe(true)
  expect(decision.slot).toBeLessThanOrEqual(chain.slot())
  expect(decision.epoch).toBe(world.epoch)
  expect(decision.commit_seq).toBeLessThanOrEqual(close.seq)
  counts[decision.outcome] = (counts[decision.outcome] ?? 0) + 1
  await expectTrue()
}

/** Another instance opens an epoch: no lease is from after that, even while the liars go on. */
async function overtake(): Promise<void> {
  const other = await world.connect()
  const { epoch, spent_root } = await observer.readConfig()
  const position = {
    ...world.outbox.head(),
    restore: false,
    passes: async () => true,
    spentRoot: async () => spent_root,
  }
  await other.openEpoch(
    { epoch: epoch + 1, boot_nonce: new Uint8Array(16).fill(9), compose_hash: COMPOSE_HASH, ...position },
    async () => {},
  )
  await other.close()
  const final_ms = performance.now()
  for (let looks = 0; looks < 60; looks++) {
    const { age_ms } = world.port.lease()
    expect(performance.now() - age_ms).toBeLessThan(final_ms)
    await Bun.sleep(10)
  }
  expect(world.sink.halts).toEqual(['forked'])
}

test.each([
  [1, 2],
  [2, 3],
])(
  `%i liars beside %i honest providers steer nothing: ${ROUNDS} rounds`,
  async (liar_count, honest_count) => {
    console.log(`TACIT_STEER_SEED=${SEED} TACIT_STEER_ROUNDS=${ROUNDS}`)
    const random = new Random(SEED)
    await open(liar_count, honest_count, random)
    arm(random)
    const counts: Record<string, number> = {}
    for (let round = 0; round < ROUNDS; round++) {
      await commitRound(random, counts)
      world.outbox.add(world.nextPayload())
      if (random.chance(0.2)) {
        await world.outbox.until(() => world.outbox.stageOf(world.outbox.payloads.size) === 'finalized')
        await expectTrue()
      }
    }
    await world.outbox.until(() => world.outbox.stageOf(world.outbox.payloads.size) === 'finalized')
    await expectLandedOnce(world, world.outbox.payloads.size)
    console.log(JSON.stringify({ ...counts, lied: liars.map(({ lied }) => lied) }))
    expect([...world.outbox.violations, ...world.sink.violations]).toEqual([])
    await overtake()
  },
  3_600_000,
)
