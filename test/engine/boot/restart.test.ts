/** A restart keeps orders, events, nonces and batches under way; and rejects damaged or foreign files. */
import { afterEach, expect, spyOn, test } from 'bun:test'
import { cpSync, mkdirSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { loadState } from '../../../engine/boot/load_state'
import { LIMITS } from '../../../engine/limits'
import { encodeState } from '../../../engine/machine/codec/state_codec'
import { EpochTaken, type VaultConfig } from '../../../engine/ports'
import { toHex } from '../../../protocol/bytes'
import { MemoryChain } from '../../kit/venue/memory_chain'
import { isAtRest, TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

/** The state that a boot makes of the folder, before it adds anything; with `snapshot_seq` the snapshot it must begin from. */
async function stateOnDisk({ config, chain }: TestVenue, snapshot_seq?: number): Promise<string> {
  const ports = { keys: site.keys, chain }
  const loaded = await loadState(config, ports, await chain.readConfig(), {
    segment_bytes: 2 * 1024 * 1024,
  })
  expect(loaded.snapshot?.seq).toBe(snapshot_seq)
  const state = toHex(encodeState(loaded.state))
  await loaded.journal.close()
  await loaded.history.close()
  loaded.facts.close()
  return state
}

/** Orders of alice and bob that match at the next close; returns the first. */
async function crossed(open: TestVenue) {
  const { venue, chain } = open
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const buy = alice.place(alice.deposit('quote', 200_000_000n))
  const sell = bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell' })
  await chain.finalizeLeaves()
  await venue.place('alice', buy)
  await venue.place('bob', sell)
  return buy
}

test('a restart gives the same state, orders and nonces, and events go on at the next seq', async () => {
  const first = await site.open()
  const trader = await Trader.provisioned(first, 'alice')
  const one = trader.place(trader.deposit('quote', 200_000_000n))
  const two = trader.place(trader.deposit('quote', 200_000_000n))
  await first.chain.finalizeLeaves()
  const placed = await first.venue.place('alice', one)
  await first.venue.place('alice', two)
  const before = await first.venue.snapshot('alice')
  const state = toHex(encodeState(first.engine.state))
  await first.close()
  expect(await stateOnDisk(first)).toBe(state)

  const second = await site.open()
  const rebuilt = second.engine.state
  expect(second.venue.identity().epoch).toBe(2)
  expect(rebuilt.orders.size).toBe(2)
  expect(await second.venue.snapshot('alice')).toEqual(before)
  expect(await second.venue.nonces('alice', trader.trading_key)).toMatchObject({ place_nonce: '2' })
  const resent = await refusalOf(second.venue.place('alice', one))
  expect(resent.code).toBe('order_exists')
  expect(resent.facts.result).toMatchObject({ order_id: one.order_id, seq: placed.seq })
  await second.venue.cancel('alice', two.order_id, trader.cancel(two.order_id))
  const { items } = await second.venue.events('alice', { after: 0, limit: 100 })
  expect(items.map(({ seq }) => seq)).toEqual(items.map((_, at) => at + 1))
  expect(items.at(-1)!.kind).toBe('order.cancelled')
})

test('a restart from a snapshot equals a restart from the journal', async () => {
  const first = await site.open()
  const trader = await Trader.provisioned(first, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await first.chain.finalizeLeaves()
  await first.venue.place('alice', request)
  await first.venue.drain()
  const expected = toHex(encodeState(first.engine.state))
  const { seq } = first.engine.loaded.journal.head()
  await first.close()

  // Behind the snapshot follow its hash and the release of the lease.
  expect(await stateOnDisk(first, seq - 2)).toBe(expected)
})

/** A venue that stops with a batch which is matched and not hashed; returns the order of alice in it. */
async function stopsUnhashed() {
  const first = await site.open()
  const buy = await crossed(first)
  first.engine.pump.stop()
  await first.chain.tick(2)
  await first.engine.sequencer.durable()
  expect(first.engine.state.settlement).toMatchObject({ last_batch: 1, last_hashed: 0 })
  await first.close()
  return buy
}

test('a batch that was matched and not hashed before the stop is hashed and settled after it', async () => {
  const buy = await stopsUnhashed()
  const second = await site.open()
  await second.chain.settleNext()
  expect((await second.venue.order('alice', buy.order_id)).fills[0]).toMatchObject({ stage: 'finalized' })
})

test('that batch is not hashed before the epoch is open, so a start that dies before then is gone on from', async () => {
  const { order_id } = await stopsUnhashed()
  const { config } = site.ledger
  const died = `${site.dir}/died`
  site.ledger.sent_opening = async () => {
    // Far longer than to hash a batch takes.
    await Bun.sleep(500)
    for (const part of ['journal', 'snapshots', 'history', 'facts', 'trees'])
      cpSync(`${site.dir}/${part}`, `${died}/${part}`, { recursive: true, filter: isAtRest })
  }
  await (await site.open()).close()
  site.ledger.sent_opening = async () => {}
  // The opening that it sent never lands.
  site.ledger.config = config
  const next = await site.open({}, died)
  expect(next.venue.status()).toMatchObject({ ready: true, reasons: [] })
  await next.chain.settleNext()
  expect((await next.venue.order('alice', order_id)).fills[0]).toMatchObject({ stage: 'finalized' })
})

/** Each reading of the chain shows `shown()`, or where that is undefined the vault as it is. Resolves with the status and their number. */
async function startsReading(shown: () => VaultConfig | undefined) {
  const { readConfig } = MemoryChain.prototype
  const reading = spyOn(MemoryChain.prototype, 'readConfig').mockImplementation(async function (
    this: MemoryChain,
  ) {
    return shown() ?? readConfig.call(this)
  })
  try {
    const open = await site.open()
    const status = open.venue.status()
    await open.close()
    return { status, reads: reading.mock.results.length }
  } finally {
    reading.mockRestore()
  }
}

test('a vault that is read one slot late after the opening is no fork', async () => {
  let late: VaultConfig | undefined
  site.ledger.sent_opening = async () => {
    late = { ...site.ledger.config }
  }
  const { status, reads } = await startsReading(() => {
    const shown = late
    late = undefined
    return shown
  })
  expect(reads).toBeGreaterThan(2)
  expect(status).toMatchObject({ ready: true, reasons: [] })
})

test('a start whose providers never show the epoch that it opened ends, says that the chain lacks it, and the next one goes on', async () => {
  const before = { ...site.ledger.config }
  const { view } = MemoryChain.prototype
  let slots = 0
  const viewing = spyOn(MemoryChain.prototype, 'view').mockImplementation(function (this: MemoryChain) {
    const now = view.call(this)
    return { ...now, slot: now.slot + slots++, slot_ms: 0 }
  })
  try {
    const { status, reads } = await startsReading(() => before)
    expect(status).toMatchObject({ ready: false, matching: 'stopped' })
    expect(status.reasons.join()).toContain('chain_unknown')
    expect(reads).toBeLessThan(2 * LIMITS.epoch_slots_max)
    expect((await startsReading(() => undefined)).status).toMatchObject({ ready: true, reasons: [] })
  } finally {
    viewing.mockRestore()
  }
})

/** The first `count` readings of the next start show `before`; with `is_taken` those behind an opening that came too late. */
async function startsBehind(before: VaultConfig, count: number, is_taken = false): Promise<void> {
  const { openEpoch } = MemoryChain.prototype
  let late = is_taken ? 0 : count
  let taken = is_taken
  const opening = spyOn(MemoryChain.prototype, 'openEpoch').mockImplementation(async function (
    this: MemoryChain,
    ...of
  ) {
    if (!taken) return openEpoch.apply(this, of)
    taken = false
    late = count
    throw new EpochTaken('a fork')
  })
  try {
    const { status } = await startsReading(() => (late-- > 0 ? { ...before } : undefined))
    expect(status).toMatchObject({ ready: true, reasons: [] })
  } finally {
    opening.mockRestore()
  }
}

test('a start whose providers are behind an epoch of the journal waits for it, also behind an opening that came too late', async () => {
  const before = { ...site.ledger.config }
  await (await site.open()).close()
  await startsBehind(before, 2)
  await startsBehind(before, 1, true)
})

test('a start whose providers are behind a batch of the journal waits for it', async () => {
  const first = await site.open()
  await crossed(first)
  await first.chain.tick(2)
  const before = { ...site.ledger.config }
  await first.chain.settleNext()
  await first.close()
  expect(before.last_batch).toBeLessThan(site.ledger.config.last_batch)
  await startsBehind(before, 2)
})

test('a start that another instance overtakes before it has a lease ends, and says so', async () => {
  const { start } = MemoryChain.prototype
  const starting = spyOn(MemoryChain.prototype, 'start').mockImplementation(function (
    this: MemoryChain,
    args,
  ) {
    this.lease_age_ms = Number.POSITIVE_INFINITY
    start.call(this, args)
    setTimeout(() => args.sink.halted('forked'), 100)
  })
  try {
    const { venue } = await site.open()
    expect(venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
    expect(venue.status().reasons.join()).toContain('forked')
  } finally {
    starting.mockRestore()
  }
})

test('a stop that could not drain ends without an error, though a batch is hashed while the journal closes', async () => {
  const open = await site.open()
  const { venue, chain, engine, fatal } = open
  const buy = await crossed(open)
  const [asked, closes] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const hashBatch = engine.hash.hashBatch.bind(engine.hash)
  engine.hash.hashBatch = async (job) => {
    const hashed = await hashBatch(job)
    asked.resolve()
    await closes.promise
    return hashed
  }
  const { journal } = engine.loaded
  const closeJournal = journal.close.bind(journal)
  journal.close = async () => {
    closes.resolve()
    await closeJournal()
  }
  await chain.tick(2)
  await asked.promise
  chain.lease_age_ms = Number.MAX_SAFE_INTEGER
  await venue.drain()
  chain.lease_age_ms = 0
  await open.close()
  expect(fatal).toEqual([])

  const second = await site.open()
  await second.chain.settleNext()
  expect((await second.venue.order('alice', buy.order_id)).fills[0]).toMatchObject({ stage: 'finalized' })
})

test('a drain waits for the decision of the closed batch and for its landing', async () => {
  const open = await site.open()
  const { venue, chain, engine } = open
  const buy = await crossed(open)
  site.ledger.withheld = true
  await chain.tick(2)
  await engine.sequencer.durable()
  let is_drained = false
  const drained = venue.drain().then(() => {
    is_drained = true
  })
  await Bun.sleep(1_000)
  expect([is_drained, engine.state.closed === undefined]).toEqual([false, false])
  chain.landCommit()
  await chain.outbox.waitForPayload(1)
  await Bun.sleep(1_000)
  expect(is_drained).toBe(false)
  await chain.settleNext()
  await drained
  expect((await venue.order('alice', buy.order_id)).fills[0]).toMatchObject({ stage: 'finalized' })
})

test('lost tree caches are rebuilt from the journal', async () => {
  const first = await site.open()
  const alice = await Trader.provisioned(first, 'alice')
  const deposit = alice.deposit('base', 5_000_000n)
  await first.chain.finalizeLeaves()
  await first.venue.withdraw('alice', alice.withdrawal(deposit, 2_000_000n))
  await first.chain.tick(1)
  await first.chain.settleNext()
  const root = first.venue.treeRoot()
  const spent = first.engine.hash.spent()
  await first.close()
  rmSync(`${site.dir}/trees`, { recursive: true })

  const second = await site.open()
  expect(second.venue.treeRoot()).toMatchObject({ root: root.root, leaf_count: root.leaf_count })
  expect(second.engine.hash.spent()).toEqual(spent)
})

test('an older disk is recognised and refuses to trade', async () => {
  const first = await site.open()
  await Trader.provisioned(first, 'alice')
  await first.close()
  const old = `${site.dir}/old`
  cpSync(`${site.dir}/journal`, `${old}/journal`, { recursive: true, filter: isAtRest })
  const second = await site.open()
  const trader = new Trader(second, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await second.chain.finalizeLeaves()
  await second.venue.place('alice', request)
  await second.engine.anchoring.now()
  await second.close()

  const rolled_back = await site.open({}, old)
  const status = rolled_back.venue.status()
  expect(status).toMatchObject({ ready: false, matching: 'stopped' })
  expect(status.reasons.join()).toContain('ahead of this journal')
  const refused = await refusalOf(
    rolled_back.venue.cancel('alice', request.order_id, trader.cancel(request.order_id)),
  )
  expect(refused.code).toBe('matching_unavailable')
  expect(site.ledger.config.epoch).toBe(2)
})

test('a clone that another instance overtook stops acknowledging at once', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const { sequencer } = open.engine
  const submit = sequencer.submit.bind(sequencer)
  // Decided, and not yet on disk.
  sequencer.submit = (...command) => {
    const answer = submit(...command)
    open.chain.sink.halted('forked')
    return answer
  }
  const { code, applied } = await refusalOf(open.venue.place('alice', request))
  expect([code, applied]).toEqual(['outcome_unknown', 'unknown'])
  expect((await refusalOf(open.venue.place('alice', request))).code).toBe('matching_unavailable')
  expect(open.venue.status().reasons.join()).toContain('another instance')
})

test('a lost journal against a used vault does not open an epoch', async () => {
  const first = await site.open()
  await first.close()
  mkdirSync(`${site.dir}/empty`)
  const second = await site.open({}, `${site.dir}/empty`)
  expect(second.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  expect(site.ledger.config.epoch).toBe(1)
})

/** Files below a folder that are deleted and that this process still has open: their space stays in use. */
function openDeletedFiles(dir: string): string[] {
  const links = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return ''
    }
  })
  return links.filter((link) => link.startsWith(dir) && link.endsWith(' (deleted)'))
}

test('read models that are ahead of the journal are of another disk, and are rebuilt from it', async () => {
  const first = await site.open()
  const trader = await Trader.provisioned(first, 'alice')
  const orders = [1, 2, 3].map(() => trader.place(trader.deposit('quote', 200_000_000n)))
  await first.chain.finalizeLeaves()
  await first.venue.place('alice', orders[0]!)
  cpSync(`${site.dir}/journal`, `${site.dir}/older`, { recursive: true, filter: isAtRest })
  await first.venue.place('alice', orders[1]!)
  await first.close()
  rmSync(`${site.dir}/journal`, { recursive: true })
  cpSync(`${site.dir}/older`, `${site.dir}/journal`, { recursive: true })

  const second = await site.open()
  expect(openDeletedFiles(site.dir)).toEqual([])
  await second.venue.place('alice', orders[2]!)
  const known = orders.map(({ order_id }) => second.venue.order('alice', order_id))
  expect((await known[0]!).status).toBe('accepted')
  expect((await refusalOf(known[1]!)).code).toBe('order_unknown')
  expect((await known[2]!).status).toBe('accepted')
  const { items } = await second.venue.events('alice', { after: 0, limit: 100 })
  expect(items.map(({ seq, kind }) => [seq, kind])).toEqual([
    [1, 'account.changed'],
    [2, 'order.accepted'],
    [3, 'order.accepted'],
  ])
})

test('read models of another fork are rebuilt from the journal, though they are no longer than it', async () => {
  const first = await site.open()
  const trader = await Trader.provisioned(first, 'alice')
  const orders = [1, 2, 3].map(() => trader.place(trader.deposit('quote', 200_000_000n)))
  await first.chain.finalizeLeaves()
  await first.venue.place('alice', orders[0]!)
  await first.close()
  cpSync(site.dir, `${site.dir}-kept`, { recursive: true })
  const before = structuredClone(site.ledger.config)
  const lost = await site.open()
  await lost.venue.place('alice', orders[1]!)
  await lost.close()
  const ofFork = ['history', 'facts'].map((name) => [`${site.dir}/${name}`, `${site.dir}-${name}`] as const)
  for (const [from, to] of ofFork) cpSync(from, to, { recursive: true })
  rmSync(site.dir, { recursive: true })
  cpSync(`${site.dir}-kept`, site.dir, { recursive: true })
  site.ledger.config = before
  const won = await site.open()
  await won.venue.place('alice', orders[2]!)
  await won.close()
  for (const [to, from] of ofFork) {
    rmSync(to, { recursive: true })
    cpSync(from, to, { recursive: true })
    rmSync(from, { recursive: true })
  }
  rmSync(`${site.dir}-kept`, { recursive: true })

  const mixed = await site.open()
  const known = orders.map(({ order_id }) => mixed.venue.order('alice', order_id))
  expect((await known[0]!).status).toBe('accepted')
  expect((await refusalOf(known[1]!)).code).toBe('order_unknown')
  expect((await known[2]!).status).toBe('accepted')
})
