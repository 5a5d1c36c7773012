/** Derived public facts and `/transparency`: kept over restarts, old rather than wrong, never believed when tampered with. */

import { Database } from 'bun:sqlite'
import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Command } from '../../../engine/commands'
import { LIMITS } from '../../../engine/limits'
import type { HashPort } from '../../../engine/ports'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { MarketReads, TreeReads } from '../../../engine/reads/public_reads'
import { SealedRows } from '../../../engine/reads/sealed_rows'
import { TransparencyReads } from '../../../engine/reads/transparency'
import { toHex } from '../../../protocol/bytes'
import { AccountEvent, Fill, Order, page, Reshape, Withdrawal } from '../../../protocol/wire/trading'
import { type TSchema, t } from '../../../protocol/wire/values'
import { seeded, World } from '../../kit/venue/machine_world'
import { TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'
import { pointAt } from '../history/account_events'

const KEY = new Uint8Array(32).fill(5)
const CLOSED = { kind: 'closed' as const, unix_ms: 0, seq: 1, capacity: 1, due: [] }
const site = new TestSite()
const folders: string[] = []
afterEach(async () => {
  await site.remove()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'tacit-facts-'))
  folders.push(made)
  return made
}

test('closes and their outcomes count from the first opening on, each once, also after a restart', () => {
  const dir = folder()
  const opened = { kind: 'epoch_opened', unix_ms: 0, epoch: 1, slot: 70, signature: KEY } as const
  const decided = { kind: 'decided', unix_ms: 0, seq: 1, slot: 1, epoch: 1, commit_seq: 1 } as const
  let facts = new PublicFacts(dir, KEY)
  const commands: Command[] = [
    opened,
    CLOSED,
    { ...decided, outcome: 'void' },
    { ...opened, slot: 90 },
    CLOSED,
    { ...decided, outcome: 'committed' },
    CLOSED,
  ]
  const record = () => {
    for (const [at, command] of commands.entries()) {
      facts.record(at + 1, command, [], undefined)
      facts.seal(pointAt(at + 1))
    }
  }
  record()
  const counted = { closed: 3, matched: 1, void: 1, since_slot: 70 }
  expect(facts.batches()).toEqual(counted)
  facts.close()
  facts = new PublicFacts(dir, KEY)
  record()
  expect(facts.batches()).toEqual(counted)
  facts.close()
})

test('epochs, and the time from the first signature of a batch to its finality, are kept over restarts, the last 64', () => {
  const dir = folder()
  const signature = KEY
  const signed = { batch_id: 1, signature, transaction: KEY, last_valid_block_height: 1 }
  const stage = { batch_id: 1, signature, slot: 90 }
  const commands: Command[] = [
    { kind: 'epoch_opened', unix_ms: 0, epoch: 4, slot: 70, signature },
    { kind: 'batch_signed', unix_ms: 1_000, signed },
    { kind: 'batch_stage', unix_ms: 1_200, stage: { ...stage, stage: 'confirmed' } },
    { kind: 'batch_signed', unix_ms: 1_500, signed },
    { kind: 'batch_stage', unix_ms: 2_750, stage: { ...stage, stage: 'finalized' } },
    // Never signed by this venue, as after a restore.
    { kind: 'batch_stage', unix_ms: 2_800, stage: { ...stage, batch_id: 2, stage: 'finalized' } },
  ]
  let facts = new PublicFacts(dir, KEY)
  let seq = 0
  const record = (command: Command) => {
    facts.record(++seq, command, [], undefined)
    facts.seal(pointAt(seq))
  }
  for (const command of commands) record(command)
  facts.close()
  facts = new PublicFacts(dir, KEY)
  expect(facts.course.epochs()).toEqual([{ epoch: 4, from_slot: 70 }])
  expect(facts.course.finality()).toEqual([{ batch: 1, slot: 90, ms: 1_750 }])
  for (let batch_id = 3; batch_id < 80; batch_id++) {
    record({ kind: 'batch_signed', unix_ms: 5_000, signed: { ...signed, batch_id } })
    const final = { ...stage, batch_id, stage: 'finalized' } as const
    record({ kind: 'batch_stage', unix_ms: 5_000 + batch_id, stage: final })
  }
  const kept = facts.course.finality()
  expect([kept.length, kept.at(-1)]).toEqual([64, { batch: 79, slot: 90, ms: 79 }])
  facts.close()
})

test('a snapshot of an earlier record does not make later facts count again', async () => {
  const dir = folder()
  const count = (facts: PublicFacts) => {
    facts.record(9, CLOSED, [], undefined)
    facts.seal(pointAt(9))
    return facts.batches().closed
  }
  let facts = new PublicFacts(dir, KEY)
  expect(count(facts)).toBe(1)
  await facts.mark(pointAt(8))
  expect(facts.watermark()).toBe(9)
  facts.close()
  facts = new PublicFacts(dir, KEY)
  expect(count(facts)).toBe(1)
  facts.close()
})

test('rows that someone else wrote are lost, not believed', async () => {
  const dir = folder()
  const facts = new PublicFacts(dir, KEY)
  const signature = new Uint8Array(64).fill(1)
  const stage = { batch_id: 1, stage: 'finalized', signature, slot: 9 } as const
  facts.record(7, { kind: 'batch_stage', stage, unix_ms: 0 }, [], undefined)
  facts.seal(pointAt(7))
  expect(facts.landed.last()).toMatchObject({ batch: 1, slot: 9 })
  await facts.mark(pointAt(8))
  facts.close()
  const disk = new Database(join(dir, 'facts.sqlite'))
  expect(disk.query('SELECT * FROM facts').all()).toHaveLength(3)
  disk.run('UPDATE facts SET value = (SELECT value FROM facts ORDER BY name LIMIT 1)')
  disk.close()
  const again = new PublicFacts(dir, KEY)
  const believed = [again.landed.batch(1), again.landed.last(), again.watermark() || undefined]
  expect(believed.filter((one) => one !== undefined).length).toBeLessThanOrEqual(1)
  again.close()
})

test('the root of the tree names the newest final batch, also where that changes alone', () => {
  const root = new Uint8Array(32)
  const finalized = { leaf_count: 3, slot: 7, batch_id: 1 }
  const hash = { root: () => ({ leaf_count: 3, root }) } as unknown as HashPort
  const tree = new TreeReads(
    hash,
    () => finalized,
    () => undefined,
  )
  const first = tree.root()
  expect(tree.root()).toBe(first)
  finalized.batch_id = 2
  expect(tree.root()).toEqual({ ...first, batch_id: 2 })
})

test('a batch that a fork dropped is on chain no more, and the one before it is the last', () => {
  const facts = new PublicFacts(folder(), KEY)
  const record = (seq: number, batch_id: number, stage: 'confirmed' | 'submitted') => {
    const at = { batch_id, stage, signature: new Uint8Array(64), slot: batch_id }
    facts.record(seq, { kind: 'batch_stage', stage: at, unix_ms: 0 }, [], undefined)
    facts.seal(pointAt(seq))
  }
  record(1, 1, 'confirmed')
  record(2, 2, 'confirmed')
  record(3, 2, 'submitted')
  expect([facts.landed.batch(2), facts.landed.last()?.batch]).toEqual([undefined, 1])
  facts.close()
})

test('a row is read from the disk once, until it is written or a write of it fails', () => {
  const dir = folder()
  const rows = new SealedRows(dir, KEY)
  expect(rows.get('day')).toBeUndefined()
  rows.set('day', { fills: 1 })
  expect(rows.get('day')).toEqual({ fills: 1 })
  const disk = new Database(join(dir, 'facts.sqlite'))
  disk.run('DELETE FROM facts')
  expect(rows.get('day')).toEqual({ fills: 1 })
  const failing = () =>
    rows.together(() => {
      rows.set('day', { fills: 2 })
      expect(rows.get('day')).toEqual({ fills: 2 })
      throw new Error('in the middle')
    })
  expect(failing).toThrow('in the middle')
  expect(rows.get('day')).toBeUndefined()
  rows.set('day', { fills: 3 })
  rows.delete('day')
  expect(rows.get('day')).toBeUndefined()
  disk.close()
  rows.close()
})

test('rows in memory are bounded by their characters: the one that was read longest ago is read from the disk again', () => {
  const dir = folder()
  const rows = new SealedRows(dir, KEY)
  const text = 'x'.repeat(0.45 * LIMITS.facts_characters_max)
  const names = ['first', 'second', 'third']
  for (const name of names) rows.set(name, text)
  expect(names.map((name) => rows.get(name))).toEqual([text, text, text])
  const disk = new Database(join(dir, 'facts.sqlite'))
  disk.run('DELETE FROM facts')
  expect(names.toReversed().map((name) => rows.get(name))).toEqual([text, text, undefined])
  disk.close()
  rows.close()
})

test('builds are listed with the slot from which each ran', async () => {
  const first = await site.open()
  await first.close()
  const second = await site.open()
  await second.close()
  site.ledger.slot = 500
  const third = await site.open({ compose_hash: 'cd'.repeat(32) })
  const { builds } = await third.venue.transparency()
  expect(builds).toEqual([
    { compose_hash: 'ab'.repeat(32), tacit_version: '0.1.0', from_slot: 100 },
    { compose_hash: 'cd'.repeat(32), tacit_version: '0.1.0', from_slot: 500 },
  ])
})

test('facts that were lost are rebuilt from the journal, also beside a snapshot', async () => {
  const first = await site.open()
  await first.venue.drain()
  const before = await first.venue.transparency()
  await first.close()
  rmSync(`${site.dir}/facts`, { recursive: true })
  const second = await site.open()
  expect((await second.venue.transparency()).builds).toEqual(before.builds)
})

function fits(schema: TSchema, text: string): void {
  expect([...TypeCompiler.Compile(schema).Errors(JSON.parse(text))]).toEqual([])
}

test('every event, order, fill, withdrawal and reshape of a trading day fits the document', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const money = alice.deposit('quote', 400_000_000n)
  const more = alice.deposit('quote', 400_000_000n)
  const kept = alice.deposit('base', 5_000_000n)
  const split = alice.deposit('base', 5_000_000n)
  const goods = bob.deposit('base', 2_000_000_000n)
  await open.chain.finalizeLeaves()
  const { venue } = open
  const buy = alice.place(money)
  await venue.place('alice', buy)
  await venue.place('bob', bob.place(goods, { side: 'sell' }))
  const rest = alice.place(more)
  await venue.place('alice', rest)
  const withdrawn = await venue.withdraw('alice', alice.withdrawal(kept, 2_000_000n))
  const reshaped = await venue.reshape('alice', alice.reshape([split], [2_000_000n, 3_000_000n]))
  await venue.cancel('alice', rest.order_id, alice.cancel(rest.order_id))
  await open.chain.tick(2)
  await open.chain.settleNext()
  await open.chain.settleNext()

  const { own } = venue
  const all = { after: 0, limit: 500 }
  const kinds = new Set<string>()
  for (const account of ['alice', 'bob']) {
    const events = own.events(account, all)
    fits(page(AccountEvent), events)
    for (const { kind } of JSON.parse(events).items) kinds.add(kind)
    fits(page(Order), own.orders(account, all))
    fits(page(Fill), own.fills(account, all))
    fits(t.Array(Order), (await own.snapshot(account)).orders)
  }
  fits(Order, own.order('alice', buy.order_id))
  fits(Withdrawal, own.withdrawal('alice', withdrawn.withdrawal_id))
  fits(Reshape, own.reshape('alice', reshaped.reshape_id))
  for (const kind of [
    'order.filled',
    'order.cancelled',
    'fill.finalized',
    'withdrawal.finalized',
    'withdrawal.paid',
    'note.created',
  ])
    expect(kinds).toContain(kind)
})

const VENUE = new Uint8Array(32)
const transparencySite = new TestSite()
afterEach(() => transparencySite.remove())

test('one reading answers all callers for two seconds; without the chain it stays, marked stale with its slot and age', async () => {
  const { chain, config } = await transparencySite.open()
  const facts = new PublicFacts(`${transparencySite.dir}/other_facts`, new Uint8Array(32).fill(5))
  const clock = { now: 0, monotonicMs: () => clock.now, unixMs: () => 0 }
  const first = { config: await chain.readConfig(), mints: await chain.readMints() }
  const reads = new TransparencyReads(
    { settings: config, venue: VENUE, chain, clock, facts, exits: () => [] },
    first,
  )
  const count = () => chain.ledger.config.leaf_count

  const [one, other] = await Promise.all([reads.read(), reads.read()])
  expect(other).toBe(one)
  expect(one.tree.leaf_count).toBe(count())
  expect(one.mints.map(({ stale }) => stale)).toEqual([false, false])
  expect(one.reading).toEqual({ slot: 100, age_ms: 0, stale: false })
  expect(Object.isFrozen(one)).toBe(true)

  chain.ledger.config.leaf_count += 3
  clock.now = 2_000
  expect(reads.read()).toBe(one)
  clock.now = 2_001
  const next = await reads.read()
  expect(next.tree.leaf_count).toBe(count())

  chain.ledger.config.leaf_count += 1
  const { readMints } = chain
  chain.readMints = () => Promise.reject(new Error('the chain is away'))
  clock.now = 9_000
  const old = await reads.read()
  expect(old.tree.leaf_count).toBe(count() - 1)
  expect(old.mints.map(({ stale }) => stale)).toEqual([true, true])
  expect(old.reading).toEqual({ slot: 100, age_ms: 6_999, stale: true })

  chain.readMints = readMints
  const back = await reads.read()
  expect(back.tree.leaf_count).toBe(count())
  expect(back.mints.map(({ stale }) => stale)).toEqual([false, false])
  expect(back.reading).toEqual({ slot: 100, age_ms: 0, stale: false })

  // Providers that answer, but with a state that the venue's own view of the chain left long ago.
  const view = chain.view.bind(chain)
  chain.view = () => ({ ...view(), slot: 251 })
  clock.now = 20_000
  expect((await reads.read()).reading).toEqual({ slot: 100, age_ms: 0, stale: true })
  // An older state than the last one is not shown again.
  chain.view = () => view()
  chain.ledger.slot = 99
  chain.ledger.config.leaf_count -= 1
  clock.now = 30_000
  const last = await reads.read()
  expect(last.reading).toEqual({ slot: 100, age_ms: 0, stale: false })
  expect(last.tree.leaf_count).toBe(count() + 1)
  facts.close()
})

test('the payout queue shows its length and oldest entry, open exits come by deadline, served ones are left out', async () => {
  const { chain, config } = await transparencySite.open()
  const facts = new PublicFacts(`${transparencySite.dir}/other_facts`, new Uint8Array(32).fill(5))
  const clock = { monotonicMs: () => 0, unixMs: () => 0 }
  const entry = { kind: 'withdrawal', mint: named(1), destination: named(2), amount: 3n } as const
  const entries = [7, 9].map((number) => ({ ...entry, number, queued_slot: 100 + number }))
  chain.ledger.config.queue = { capacity: 60, next_number: 10, entries }
  const world = new World()
  const exitOf = (name: string, deadline_unix_s: number) => {
    const terms = { mint: named(1), amount: 3n, destination: named(2), request_account: named(3) }
    const names = { commitment: seeded(`${name} c`), nullifier: seeded(name), refund_inner: named(4) }
    const request = { ...terms, ...names, deadline_unix_s, stage: 'confirmed' as const }
    world.must({ kind: 'exit_requested', request })
    return request
  }
  exitOf('late', 30)
  exitOf('early', 20)
  world.must({ kind: 'exit_requested', request: { ...exitOf('served', 10), stage: 'finalized' } })
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
  const first = { config: await chain.readConfig(), mints: await chain.readMints() }
  const exits = () => world.state.settlement.exits.values()
  const shown = await new TransparencyReads(
    { settings: config, venue: VENUE, chain, clock, facts, exits },
    first,
  ).read()
  expect(shown.payout_queue).toEqual({ length: 2, oldest_slot: 107 })
  expect(shown.exits).toEqual([
    { nullifier: toHex(seeded('early')), deadline: 20 },
    { nullifier: toHex(seeded('late')), deadline: 30 },
  ])
  facts.close()
})

test('a new status of an instrument is shown at once', () => {
  let status = 'active'
  const reads = new MarketReads({
    instruments: { one: (symbol: string) => ({ symbol, status }) },
    statistics: { reference: () => undefined },
    clock: { unixMs: () => 0 },
  } as never)
  const active = reads.instrument('SOL-USDC')
  expect(reads.instrument('SOL-USDC')).toBe(active)
  status = 'paused'
  expect([active.status, reads.instrument('SOL-USDC').status]).toEqual(['active', 'paused'])
})

test('the life left in both trees follows the growth of the last day, not that of the days before', async () => {
  const { chain, config } = await transparencySite.open()
  const facts = new PublicFacts(`${transparencySite.dir}/other_facts`, new Uint8Array(32).fill(5))
  const clock = { now: 0, monotonicMs: () => clock.now, unixMs: () => 0 }
  const first = { config: await chain.readConfig(), mints: await chain.readMints() }
  const reads = new TransparencyReads(
    { settings: config, venue: VENUE, chain, clock, facts, exits: () => [] },
    first,
  )
  const grown = async (hour: number, leaf_count: number, last_batch: number) => {
    chain.ledger.config = { ...chain.ledger.config, leaf_count, last_batch }
    clock.now = hour * 3_600_000
    const { tree, spent_log_remaining_days } = await reads.read()
    return [tree.remaining_days, spent_log_remaining_days]
  }
  expect(await grown(1, 0, 0)).toEqual([null, null])
  expect(await grown(13, 512, 0)).toEqual([2 ** 40 / 1024 - 1, null])
  for (let hour = 14; hour <= 37; hour++) await grown(hour, 1024, 0)
  // A day later nothing of the first growth counts.
  expect(await grown(38, 1024, 1)).toEqual([null, 2 ** 40 - 1])
  facts.close()
})

const named = (value: number) => new Uint8Array(32).fill(value)
