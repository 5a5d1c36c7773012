/** A quorum invents exits or shows a refund that was not: no note is credited, and batches lose the exits or the venue halts. */

import { afterEach, expect, spyOn, test } from 'bun:test'
import { fromHex } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { bytes } from '../../kit/venue/memory_chain'
import { QUOTE_MINT, TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { type Deposit, element, Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

async function trading() {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const money = alice.deposit('quote', 200_000_000n)
  const goods = bob.deposit('base', 3_000_000_000n)
  await open.chain.finalizeLeaves()
  return { open, alice, bob, money, goods }
}

/** An open request with the true nullifier of the note and a commitment that names none. */
const invent = ({ chain }: TestVenue, { commitment, opening }: Deposit) =>
  chain.sink.exitRequested({
    nullifier: nullifierOf(fromHex(commitment, 32)!, fromHex(opening.blinding, 32)!),
    commitment: element(),
    mint: QUOTE_MINT,
    amount: 200_000_000n,
    destination: bytes(32),
    deadline_unix_s: 4_000_000_000,
    request_account: bytes(32),
    refund_inner: element(),
    stage: 'finalized',
  })

/** Lands every batch that is packed, on a ledger that counts payouts and liabilities like the program. */
async function landAll({ engine, chain, ledger, fatal }: TestVenue, batches: number): Promise<void> {
  for (let landed = 0; landed < batches; landed++) await chain.settleNext()
  expect(engine.state.settlement.last_batch).toBe(batches)
  expect(ledger.settled.flatMap(({ payouts }) => payouts.filter(({ kind }) => kind === 'exit'))).toEqual([])
  expect(engine.hash.spent()).toEqual({ batch_count: batches, root: ledger.spent.root() })
  expect(engine.state.settlement.exits.size).toBe(0)
  expect(fatal).toEqual([])
}

/** Alice's order rests, the invented exit of its note is packed as batch 1, and Bob's order crosses hers. */
async function packedBefore({ open, alice, bob, money, goods }: Awaited<ReturnType<typeof trading>>) {
  await open.venue.place('alice', alice.place(money))
  await invent(open, money)
  await open.chain.tick(2)
  await open.chain.outbox.waitForPayload(1)
  return () => open.venue.place('bob', bob.place(goods, { side: 'sell' })).then(() => open.chain.tick(2))
}

test('a batch is hashed once the command that packed it is durable', async () => {
  const { open, alice, money } = await trading()
  const { sequencer, hash, pump, state } = open.engine
  await open.venue.withdraw('alice', alice.withdrawal(money, 199_999_000n, bytes(32)))
  const written = Promise.withResolvers<void>()
  const durable = spyOn(sequencer, 'durable').mockReturnValue(written.promise)
  const hashing = spyOn(hash, 'hashBatch')
  void open.chain.tick(2)
  while (state.settlement.last_batch === 0) await Bun.sleep(1)
  const idle = pump.idle()
  await Bun.sleep(20)
  expect(hashing).not.toHaveBeenCalled()
  durable.mockRestore()
  written.resolve()
  await idle
  expect(hashing).toHaveBeenCalledTimes(1)
})

test('a fill that a freeze voids before its batch is hashed is listed once, however late its commitment comes', async () => {
  const { open, alice, bob, money, goods } = await trading()
  const { venue, engine, chain } = open
  const hashed = Promise.withResolvers<void>()
  const hashBatch = engine.hash.hashBatch.bind(engine.hash)
  engine.hash.hashBatch = async (job) => {
    await hashed.promise
    return hashBatch(job)
  }
  await venue.place('alice', alice.place(money))
  await venue.place('bob', bob.place(goods, { side: 'sell' }))
  await chain.tick(2)
  chain.sink.halted('vault_frozen')
  await engine.sequencer.durable()
  await engine.history.flush()
  hashed.resolve()
  await engine.pump.idle()
  await engine.sequencer.durable()
  const { items } = await venue.events('alice', { after: 0, limit: 100 })
  expect(items.map(({ kind }) => kind).filter((kind) => kind.startsWith('fill.'))).toEqual([
    'fill.voided',
    'fill.matched',
  ])
  for (let written = 0; written < 2; written++) {
    const page = await venue.fills('alice', { after: 0, limit: 10 })
    expect(page.items).toMatchObject([{ stage: 'voided', seq: items.at(-1)!.seq }])
    await engine.history.flush()
  }
})

test('in the batch that spends the note: it leaves before it counts, and the venue runs on', async () => {
  const { open, alice, money } = await trading()
  await open.venue.withdraw('alice', alice.withdrawal(money, 199_999_000n, bytes(32)))
  await invent(open, money)
  await open.chain.tick(2)
  await open.engine.pump.idle()
  expect(open.chain.outbox.payload(1)!.payouts.map(({ kind, number }) => [kind, number])).toEqual([
    ['withdrawal', 1],
  ])
  await landAll(open, 1)
  expect(open.venue.status()).toMatchObject({ ready: true, matching: 'running' })
})

test('in an earlier batch that has not landed: it leaves, and the process starts once again', async () => {
  const parts = await trading()
  const cross = await packedBefore(parts)
  const { open } = parts
  await cross()
  await open.engine.pump.idle()
  expect(open.fatal.map(({ message }) => message)).toEqual([
    'exits that were never requested left their batches',
  ])
  expect(open.venue.status().reasons[0]).toStartWith('exits_disproved: ')
  // Signatures of this process are of the batch as it was.
  expect(open.chain.outbox.payload(1)).toBeUndefined()
  await open.close()
  const again = await site.open()
  await landAll(again, 2)
  expect(again.venue.status()).toMatchObject({ ready: true, matching: 'running' })
})

test('in a batch that a quorum shows as landed: the venue halts, also after a start, until it is taken back', async () => {
  const parts = await trading()
  const cross = await packedBefore(parts)
  const { open } = parts
  const stage = { batch_id: 1, signature: bytes(64), slot: open.ledger.slot }
  for (const one of ['submitted', 'confirmed'] as const)
    await open.chain.outbox.recordStage({ ...stage, stage: one })
  await cross()
  await open.engine.pump.idle()
  await open.engine.sequencer.durable()
  const reason = 'root_mismatch: the note tree on chain, or what was spent, differs'
  expect(open.venue.status().reasons[0]).toStartWith(reason)
  expect(open.fatal).toEqual([])
  await open.close()
  const again = await site.open()
  await again.engine.pump.idle()
  expect(again.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  expect(again.venue.status().reasons[0]).toStartWith(reason)
  expect(again.fatal).toEqual([])
  await again.chain.outbox.recordStage({ ...stage, stage: 'submitted' })
  await again.engine.pump.idle()
  expect(again.fatal).toHaveLength(1)
  await again.close()
  const last = await site.open()
  last.chain.sink.resumed('root_mismatch')
  await landAll(last, 2)
  expect(last.venue.status()).toMatchObject({ ready: true, matching: 'running' })
})

const AMOUNT = 199_000_000n

/** A withdrawal whose batch has landed and whose payout waits in the queue. */
async function queued() {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const money = alice.deposit('quote', 200_000_000n)
  const other = alice.deposit('quote', AMOUNT)
  await open.chain.finalizeLeaves()
  const { withdrawal_id } = await open.venue.withdraw('alice', alice.withdrawal(money, AMOUNT, bytes(32)))
  await open.chain.tick(2)
  await open.chain.settleNext(false)
  const { refund_blinding, key } = [...open.engine.state.settlement.queued.values()][0] as never as {
    refund_blinding: Uint8Array
    key: { bytes: Uint8Array }
  }
  const inner = noteInner(key.bytes, refund_blinding)
  const commitmentAt = (leaf_index: number) =>
    depositCommitment({ mint: QUOTE_MINT, amount: AMOUNT, inner, leaf_index })
  const show = (refund_commitment: Uint8Array, refund_leaf_index: number) =>
    open.chain.outbox.recordPayout({
      number: 1,
      stage: 'finalized',
      outcome: 'refunded',
      signature: bytes(64),
      slot: open.ledger.slot,
      refund_commitment,
      refund_leaf_index,
    })
  const status = async () => (await open.venue.withdrawal('alice', withdrawal_id)).status
  return { open, other, commitmentAt, show, status }
}

test('another note, a leaf of another note and a leaf that does not exist refund nothing', async () => {
  const { open, other, commitmentAt, show, status } = await queued()
  const size = open.engine.state.leaves.size
  const lies: [Uint8Array, number][] = [
    [fromHex(other.commitment, 32)!, other.opening.leaf_index!],
    [commitmentAt(other.opening.leaf_index!), other.opening.leaf_index!],
    [commitmentAt(size), size],
  ]
  for (const [commitment, leaf_index] of lies) {
    expect(await show(commitment, leaf_index)).toBe(false)
    expect(await status()).toBe('finalized')
    expect(open.engine.state.notes.find(commitment)).toBeUndefined()
  }
  expect(open.chain.outbox.openPayouts()).toHaveLength(1)
})

test('the true refund counts once its leaf is in the own tree', async () => {
  const { open, commitmentAt, show, status } = await queued()
  const leaf_index = open.ledger.notes.leaf_count
  const commitment = commitmentAt(leaf_index)
  open.ledger.append([commitment])
  expect(await show(commitment, leaf_index)).toBe(false)
  await open.chain.finalizeLeaves(leaf_index)
  expect(await show(commitment, leaf_index)).toBe(true)
  expect(await status()).toBe('refunded')
  expect(open.engine.state.notes.find(commitment)).toMatchObject({ status: 'free', amount: AMOUNT })
  expect(open.chain.outbox.openPayouts()).toEqual([])
})

test('in a batch that a quorum has taken back: disproved exits leave it, and the process starts once again', async () => {
  const parts = await trading()
  await packedBefore(parts)
  const { open } = parts
  await open.engine.pump.idle()
  const { outbox } = open.chain
  const exits = () => outbox.payload(1)?.payouts.filter(({ kind }) => kind === 'exit').length
  await outbox.dropExits(1, () => false)
  expect([exits(), open.fatal]).toEqual([1, []])
  await outbox.dropExits(1, () => true)
  expect(open.fatal.map(({ message }) => message)).toEqual([
    'exits that were never requested left their batches',
  ])
  await open.close()
  const again = await site.open()
  expect(again.engine.state.settlement.exits.size).toBe(0)
})
