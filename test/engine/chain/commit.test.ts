/**
 * Commits on the real program: the decision is that of the chain, for every withheld, delayed, repeated or false message of
 * the host.
 * TACIT_LAST_LOOK_ROUNDS sets the number of rounds, TACIT_LAST_LOOK_SEED replays them.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decideClosed } from '../../../engine/boot/check_chain'
import { Commits } from '../../../engine/chain/client/epoch'
import { ChainHealth } from '../../../engine/chain/client/health'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { SlotView } from '../../../engine/chain/client/slot_view'
import type { Journal } from '../../../engine/journal/contract'
import { LIMITS } from '../../../engine/limits'
import type { State } from '../../../engine/machine/state/state'
import type { BatchDecision, ClosePosition } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { farSlot, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { COMPOSE_HASH, VaultWorld } from '../../kit/chain/vault_world'
import { Random } from '../../kit/random'
import * as folder from '../journal/folder'

const ROUNDS = Number(process.env['TACIT_LAST_LOOK_ROUNDS'] ?? 25)
const SEED = Number(process.env['TACIT_LAST_LOOK_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
/** About 40 slots of the embedded chain. */
const COMMIT_MS = 400
const LONG_MS = 90_000

let world: VaultWorld
let dir: string
let journal: Journal
let closes = 0
async function open(finalized_depth: number): Promise<void> {
  world = await VaultWorld.open({}, finalized_depth)
  dir = mkdtempSync(join(tmpdir(), 'tacit-commit-'))
  journal = await folder.open(dir)
  world.outbox.head = () => journal.head()
  await world.boot()
}
async function close(): Promise<void> {
  await world.close()
  await journal.close()
  rmSync(dir, { recursive: true })
}
beforeEach(() => open(4), 120_000)
afterEach(close)

/** The close of another batch; its group is the newest of the journal. */
async function nextClose(): Promise<ClosePosition> {
  closes += 1
  await journal.append(folder.records(closes, 10))
  return { ...journal.head(), slot: world.port.view().slot }
}

/** The commit that the chain holds for good. */
async function finalCommit() {
  const { slot } = world.port.view()
  while ((await world.port.readConfig()).epoch < world.epoch || world.port.view().slot < slot + 6)
    await Bun.sleep(5)
  const { commit_seq, commit_head } = await world.port.readConfig()
  return { commit_seq, commit_head }
}

/** The decision of a boot from this disk, once its own epoch is open. */
async function decidedAtBoot(close: ClosePosition): Promise<BatchDecision['outcome']> {
  await world.port.close()
  await world.boot()
  const config = await world.port.readConfig()
  const state = { closed: { seq: close.seq } } as unknown as State
  const decision = await decideClosed(config, config.epoch, state, journal)
  if (typeof decision === 'string' || decision?.kind !== 'decided')
    throw new Error(`no decision: ${decision}`)
  return decision.outcome
}

test(`a host that withholds commits for any time, with and without restarts, has no last look: ${ROUNDS} rounds`, async () => {
  console.log(`TACIT_LAST_LOOK_SEED=${SEED} TACIT_LAST_LOOK_ROUNDS=${ROUNDS}`)
  const random = new Random(SEED)
  const counts = { committed: 0, void: 0, rolled_back: 0, restarts: 0 }
  for (let round = 0; round < ROUNDS; round++) {
    const close = await nextClose()
    const until_ms = performance.now() + random.between(0, 2 * COMMIT_MS)
    world.chain.faults.landing_delay_slots = random.chance(0.3) ? random.between(1, 20) : 0
    if (random.chance(0.7)) world.chain.faults.drop = () => performance.now() < until_ms
    const deciding = world.port.commit(close, COMMIT_MS)
    let outcome: BatchDecision['outcome']
    if (random.chance(0.25)) {
      await Bun.sleep(random.between(0, COMMIT_MS))
      world.chain.faults.drop = undefined
      counts.restarts += 1
      outcome = await decidedAtBoot(close)
    } else outcome = (await deciding)!.outcome
    world.chain.faults.drop = undefined
    counts[outcome] += 1
    const { commit_seq, commit_head } = await finalCommit()
    expect(outcome).toBe(commit_seq === close.seq ? 'committed' : 'void')
    if (outcome === 'committed') expect(equalBytes(commit_head, close.head)).toBe(true)
  }
  console.log(JSON.stringify(counts))
  expect(counts.committed).toBeGreaterThan(ROUNDS / 5)
  expect(counts.rolled_back).toBe(0)
}, 3_600_000)

test('a void batch never lands: its commit, sent again after the decision, stores nothing', async () => {
  world.chain.faults.drop = () => true
  const close = await nextClose()
  expect(await world.port.commit(close, COMMIT_MS)).toMatchObject({ outcome: 'void', commit_seq: 0 })
  world.chain.faults.drop = undefined
  expect((await finalCommit()).commit_seq).toBe(0)
  const next = await nextClose()
  expect(await world.port.commit(next, LONG_MS)).toMatchObject({
    outcome: 'committed',
    commit_seq: next.seq,
  })
}, 180_000)

test('after a halt of the cluster longer than the clock allows, a commit that was held back is void', async () => {
  world.chain.faults.drop = () => true
  const close = await nextClose()
  const deciding = world.port.commit(close, COMMIT_MS)
  await Bun.sleep(50)
  world.chain.stall(true)
  world.chain.warpTime(3_600)
  world.chain.faults.drop = undefined
  await Bun.sleep(200)
  world.chain.stall(false)
  expect(await deciding).toMatchObject({ outcome: 'void' })
  expect((await finalCommit()).commit_seq).toBe(0)
}, 180_000)

test('one provider of three that claims to be a billion slots ahead, or that repeats old answers, decides nothing', async () => {
  const liar = new LyingEndpoint(world.chain.url)
  const honest = new LyingEndpoint(world.chain.url)
  await world.port.close()
  await world.boot({ connect: { rpc_urls: [world.chain.url, honest.url, liar.url] } })
  liar.lies = farSlot()
  world.chain.faults.landing_delay_slots = 15
  expect(await world.port.commit(await nextClose(), LONG_MS)).toMatchObject({ outcome: 'committed' })
  world.chain.faults.landing_delay_slots = 0
  const frozen = new Map<string, unknown>()
  liar.lies = {
    getMultipleAccounts: (result, { params }) => {
      const name = JSON.stringify(params)
      if (!frozen.has(name)) frozen.set(name, structuredClone(result))
      return frozen.get(name)
    },
  }
  expect(await world.port.commit(await nextClose(), LONG_MS)).toMatchObject({ outcome: 'committed' })
  await Promise.all([liar.stop(), honest.stop()])
}, 180_000)

test('one provider of three that takes a request for a blockhash and never answers voids no batch', async () => {
  const silent = new LyingEndpoint(world.chain.url)
  const honest = new LyingEndpoint(world.chain.url)
  await world.port.close()
  await world.boot({ connect: { rpc_urls: [silent.url, honest.url, world.chain.url] } })
  const ended = Promise.withResolvers<undefined>()
  silent.lies = { getLatestBlockhash: () => ended.promise }
  // Shorter than the deadline of a request.
  expect(await world.port.commit(await nextClose(), LIMITS.commit_ms)).toMatchObject({ outcome: 'committed' })
  expect(silent.asked).toContain('getLatestBlockhash')
  ended.resolve(undefined)
  await Promise.all([silent.stop(), honest.stop()])
}, 180_000)

test('nothing is signed with a blockhash that one provider of three invents', async () => {
  const liar = new LyingEndpoint(world.chain.url)
  const honest = new LyingEndpoint(world.chain.url)
  const invented: Buffer[] = []
  liar.lies = {
    getLatestBlockhash(result) {
      invented.push(Buffer.from(crypto.getRandomValues(new Uint8Array(32))))
      const { context, value } = result as { context: object; value: object }
      return { context, value: { ...value, blockhash: encodeBase58(invented.at(-1)!) } }
    },
  }
  const sent: Buffer[] = []
  honest.lies = {
    sendTransaction: (_, { params }) => void sent.push(Buffer.from(params[0] as string, 'base64')),
  }
  await world.port.close()
  await world.boot({ connect: { rpc_urls: [liar.url, honest.url, world.chain.url] } })
  expect(await world.port.commit(await nextClose(), LONG_MS)).toMatchObject({ outcome: 'committed' })
  expect(invented.length).toBeGreaterThan(1)
  expect(sent.length).toBeGreaterThan(1)
  for (const one of invented) expect(sent.some((bytes) => bytes.includes(one))).toBe(false)
  await Promise.all([liar.stop(), honest.stop()])
}, 180_000)

test('an undecidable batch makes the venue not ready while its lease is fresh, until it is decided', async () => {
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.port.close()
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const ended = Promise.withResolvers<undefined>()
  // Config, tree and known states, which decide; the lease asks for config and clock.
  endpoint.lies = {
    getMultipleAccounts: (_, { params }) =>
      (params[0] as string[]).length === 3 ? ended.promise : undefined,
  }
  const deciding = world.port.commit(await nextClose(), COMMIT_MS)
  while (!world.port.health().reasons.includes('commit_undecided')) await Bun.sleep(5)
  expect(world.port.health().overdue).toBe(true)
  ended.resolve(undefined)
  await deciding
  expect(world.port.health().reasons).not.toContain('commit_undecided')
  await endpoint.stop()
}, 120_000)

const reorged = () => world.port.health().reasons.includes('commit_reorged')

/** A decided commit that is not final, whose signatures were sent; `back` takes it from the chain. */
async function droppableCommit(commit_ms = 60_000) {
  const { machine } = world.chain
  const sent: string[] = []
  world.chain.faults.drop = (signature) => {
    sent.push(signature)
    return false
  }
  const landedSlot = () => Math.min(...sent.flatMap((one) => machine.store.transaction(one)?.slot ?? []))
  // A commit that is final before its decision is known here cannot be dropped: the next one is.
  let commit: ClosePosition
  do {
    sent.length = 0
    commit = await nextClose()
    expect(await world.port.commit(commit, commit_ms)).toMatchObject({ outcome: 'committed' })
  } while (landedSlot() <= machine.slotAt('finalized'))
  world.port.matched(commit.seq + 1)
  return { commit, sent, back: () => world.chain.fork(machine.tip - landedSlot() + 1) }
}

test('a decided commit that a reorganization drops raises the alarm and is sent until it is back', async () => {
  await close()
  await open(32)
  const { commit, sent, back } = await droppableCommit()
  const resent: string[] = []
  world.chain.faults.drop = (signature) => resent.push(signature) > 0
  back()
  while (!reorged()) await Bun.sleep(5)
  expect(world.port.health().overdue).toBe(true)
  // The blockhash of the bytes before may be of the fork that lost; until there is a newer one, signing gives the same bytes.
  while (resent.every((one) => sent.includes(one))) await Bun.sleep(5)
  world.chain.faults.drop = undefined
  while (reorged()) await Bun.sleep(5)
  while ((await world.port.readConfig()).commit_seq !== commit.seq) await Bun.sleep(20)
}, 180_000)

test('the watch over a commit goes on while a report waits for what it ends', async () => {
  await close()
  await open(32)
  const reported = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const { sink } = world
  const leaves = sink.leaves.bind(sink)
  // As the engine holds it: nothing is durable for others while a decided commit is not on chain.
  sink.leaves = async (...told) => {
    reported.resolve()
    await released.promise
    return leaves(...told)
  }
  await world.deposit(1_000n)
  await reported.promise
  const { back } = await droppableCommit()
  world.chain.faults.drop = () => true
  back()
  while (!reorged()) await Bun.sleep(5)
  world.chain.faults.drop = undefined
  while (reorged()) await Bun.sleep(5)
  released.resolve()
  await sink.until(() => sink.told.length === 1)
}, 180_000)

test('a foreign epoch is noticed while the anchor of a commit that was taken back is on its way, and nothing is reported or sent from then on', async () => {
  await close()
  await open(32)
  const { commit, back } = await droppableCommit(COMMIT_MS)
  const of_others = new Set<string>()
  let sent = 0
  world.chain.faults.drop = (signature) => {
    if (of_others.has(signature)) return false
    sent += 1
    return true
  }
  back()
  while (!reorged()) await Bun.sleep(5)
  // Then the commit can land no more, and the anchor that takes its place does not.
  const { slot } = world.port.view()
  while (world.port.view().slot < slot + 60) await Bun.sleep(5)
  expect(sent).toBeGreaterThan(0)
  const other = await world.connect()
  const { boot_nonce, spent_root } = await other.readConfig('confirmed')
  const { seq, head } = commit
  const terms = {
    compose_hash: COMPOSE_HASH,
    seq: seq + 5,
    head,
    restore: false,
    level: 'confirmed' as const,
  }
  const reads = { passes: async () => true, spentRoot: async () => spent_root }
  const opening = { epoch: world.epoch + 1, boot_nonce: boot_nonce.toReversed(), ...terms, ...reads }
  await other.openEpoch(opening, async (signature) => void of_others.add(encodeBase58(signature)))
  const from = world.port.view().slot
  while (!world.sink.halts.includes('forked')) await Bun.sleep(5)
  expect(world.port.view().slot - from).toBeLessThan(300)
  world.sink.leaves = async () => {
    throw new Error('the engine takes nothing more')
  }
  const disowned = world.port.view().slot
  while (world.port.view().slot < disowned + 10) await Bun.sleep(5)
  sent = 0
  while (world.port.view().slot < disowned + 200) await Bun.sleep(5)
  expect(sent).toBe(0)
  world.chain.faults.drop = undefined
  await world.deposit(1_000n)
  await Bun.sleep(1_000)
  expect(world.port.health().reasons).not.toContain('internal_error')
  await other.close()
}, 180_000)

test('an answer that was under way while a commit was decided is no reorganization', async () => {
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.port.close()
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const held = Promise.withResolvers<void>()
  const decided = Promise.withResolvers<void>()
  let looks = 0
  const later: string[][] = []
  endpoint.lies = {
    async getMultipleAccounts(_, { params }) {
      const [addresses, { commitment }] = params as [string[], { commitment: string }]
      // Config, tree and known states at confirmed are asked for by the watcher alone while nothing is being decided.
      if (addresses.length !== 3 || commitment !== 'confirmed') return undefined
      looks += 1
      if (looks > 1) return void later.push(world.port.health().reasons)
      held.resolve()
      return void (await decided.promise)
    },
  }
  await held.promise
  const commit = await nextClose()
  expect(await world.port.commit(commit, LONG_MS)).toMatchObject({ outcome: 'committed' })
  world.port.matched(commit.seq + 1)
  later.length = 0
  decided.resolve()
  while (later.length < 2) await Bun.sleep(5)
  expect(later.flat()).not.toContain('commit_reorged')
  await endpoint.stop()
}, 180_000)

test('the anchor of a commit that only seemed to be taken back is sent no more once the chain shows the commit', async () => {
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.port.close()
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  let before: unknown
  let is_behind = false
  endpoint.lies = {
    getMultipleAccounts(answer, { params }) {
      const [addresses, { commitment }] = params as [string[], { commitment: string }]
      if (addresses.length !== 3 || commitment !== 'confirmed') return undefined
      const { context, value } = answer as { context: object; value: unknown }
      before ??= structuredClone(value)
      return is_behind ? { context, value: before } : undefined
    },
  }
  while (before === undefined) await Bun.sleep(5)
  expect(await world.port.commit(await nextClose(), COMMIT_MS)).toMatchObject({ outcome: 'committed' })
  world.port.matched((await nextClose()).seq)
  let sent = 0
  world.chain.faults.drop = () => {
    sent += 1
    return true
  }
  is_behind = true
  while (!reorged()) await Bun.sleep(5)
  // Then the commit can land no more.
  const { slot } = world.port.view()
  while (world.port.view().slot < slot + 60) await Bun.sleep(5)
  sent = 0
  while (sent === 0) await Bun.sleep(5)
  is_behind = false
  while (reorged()) await Bun.sleep(5)
  const shown = world.port.view().slot
  while (world.port.view().slot < shown + 10) await Bun.sleep(5)
  sent = 0
  while (world.port.view().slot < shown + 200) await Bun.sleep(5)
  expect(sent).toBe(0)
  await endpoint.stop()
}, 180_000)

test('a commit that is newer than the close is of another journal', async () => {
  const close = await nextClose()
  expect(await world.port.commit(await nextClose(), LONG_MS)).toMatchObject({ outcome: 'committed' })
  expect(await world.port.commit(close, COMMIT_MS)).toMatchObject({ outcome: 'rolled_back' })
}, 180_000)

test('the watch over a commit counts its own answers, however new those are that decide the next one', async () => {
  const shown = (slot: number, commit_seq: number) => {
    const config = { commit_seq, commit_head: new Uint8Array(32), journal_seq: 0, epoch: 1 }
    return [{ at: 0, value: { slot, config } }]
  }
  let answer = shown(10, 5)
  const rpc = Object.assign(new RpcPool(['http://one.example'], 1_000), { all: async () => answer })
  const monotonicMs = () => 0
  const health = new ChainHealth(rpc, monotonicMs, 20)
  const view = new SlotView(rpc, health, { monotonicMs, slot_ms: 20, stall_ms: 5_000 })
  const commits = new Commits({ rpc, health, view } as never, 1, () => world.outbox.head())
  const close = (seq: number) => ({ seq, slot: 10, head: new Uint8Array(32) })
  expect(await commits.decide(close(5), COMMIT_MS)).toMatchObject({ outcome: 'committed' })
  commits.matched(6)
  answer = shown(20, 7)
  expect(await commits.decide(close(7), COMMIT_MS)).toMatchObject({ outcome: 'committed' })
  commits.guard(shown(19, 0) as never, [])
  expect(health.reasons()).toContain('commit_reorged')
})
