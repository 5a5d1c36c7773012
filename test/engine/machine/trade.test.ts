/** One trade from order to finality: its events, and its hashing with the real hashes. */

import { expect, test } from 'bun:test'
import type { NoteFact } from '../../../engine/commands'
import { emptyTrees, hashBatch } from '../../../engine/hashing/tree_files'
import { nextHashJob, payloadOf } from '../../../engine/machine/settlement/payload'
import { spentBatches } from '../../../engine/machine/state/past'
import { toHex } from '../../../protocol/bytes'
import { spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import {
  decodeMemo,
  noteInner,
  nullifierOf,
  openingCommitment,
  outputBlinding,
  settlementCommitment,
} from '../../../protocol/notes/notes'
import { fieldToBytes } from '../../../protocol/notes/poseidon'
import type * as wire from '../../../protocol/wire/trading'
import { BASE, key, LOT, QUOTE, SYMBOL, TICK, World } from '../../kit/venue/machine_world'

function trade(): { world: World; buy: string; sell: string } {
  const world = new World()
  world.account('alice')
  world.account('bob')
  const buy = world.place('alice', key('a'), { amount: 10n * LOT, price_limit: 101n * TICK })
  const sell = world.place('bob', key('b'), { side: 'sell', amount: 4n * LOT, price_limit: 99n * TICK })
  world.close()
  return { world, buy, sell }
}
const kinds = (world: World, account_id: string) =>
  world.events
    .filter((one) => one.account_id === account_id && one.event.seq > 1)
    .map((one) => one.event.kind)

test('orders that cross trade at one price, and each account sees a gapless run of events', () => {
  const { world } = trade()
  expect(world.auctions).toMatchObject([
    { symbol: SYMBOL, batch: 1, price_ticks: 101, volume_lots: 4, cancelled: [] },
  ])
  world.hashAll()
  world.landAll()
  expect(kinds(world, 'alice')).toEqual([
    'order.accepted',
    'order.partially_filled',
    'note.created',
    'note.created',
    'fill.matched',
    'fill.submitted',
    'fill.confirmed',
    'fill.finalized',
  ])
  expect(kinds(world, 'bob')).toEqual([
    'order.accepted',
    'order.filled',
    'note.created',
    'fill.matched',
    'fill.submitted',
    'fill.confirmed',
    'fill.finalized',
  ])
  const seqs = world.events.filter((one) => one.account_id === 'bob').map((one) => one.event.seq)
  expect(seqs).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
})

test('a fill states price, amounts, its share of the fee and the commitments it made', () => {
  const { world, buy } = trade()
  world.hashAll()
  const fill = world.events.findLast(
    (one) => one.event.kind === 'fill.matched' && one.account_id === 'alice',
  )!.event.data as wire.Fill
  expect(fill).toMatchObject({
    order_id: buy,
    fill_index: 0,
    side: 'buy',
    price: (101n * TICK).toString(),
    amount: (4n * LOT).toString(),
    quote_amount: '404',
    fee: '1',
    batch: 1,
    settlement_batch: 1,
    stage: 'matched',
    anchor_index: 0,
  })
  const payload = payloadOf(world.state, 1)!
  const commitments = payload.outputs.map((output) => toHex(output.commitment))
  expect(commitments).toContain(fill.proceeds_commitment)
  expect(commitments).toContain(fill.change_commitment!)
  expect([...commitments].sort()).toEqual(commitments)
  expect(payload.nullifiers.length).toBe(2)
  expect(payload.leaf_count_min).toBe(2)
})

test('the change note backs the rest at once and funds the next fill with the next anchor', () => {
  const { world } = trade()
  world.place('bob', key('b'), { side: 'sell', amount: 6n * LOT, price_limit: 99n * TICK })
  world.close()
  world.hashAll()
  const fills = world.events
    .filter((one) => one.account_id === 'alice' && one.event.kind === 'fill.matched')
    .map((one) => one.event.data as wire.Fill)
  expect(fills.map((fill) => [fill.fill_index, fill.anchor_index, fill.settlement_batch])).toEqual([
    [0, 0, 1],
    [1, 1, 2],
  ])
  expect(world.state.orders.size).toBe(0)
})

test("a trade's notes can be used by their owner before it lands, and by no other account", () => {
  const { world } = trade()
  world.hashAll()
  const fill = world.events.findLast(
    (one) => one.event.kind === 'fill.matched' && one.account_id === 'alice',
  )!.event.data as wire.Fill
  const proceeds = Uint8Array.fromHex(fill.proceeds_commitment)
  const change = { side: 'sell', amount: 4n * LOT, collateral_commitment: proceeds } as const
  const foreign = world.run(world.placing('bob', key('b'), { ...change, price_limit: 200n * TICK }))
  expect(foreign).toMatchObject({ ok: false, code: 'note_unknown' })
  world.place('alice', key('a'), { ...change, price_limit: 200n * TICK })
  const again = world.run(world.placing('alice', key('a'), { ...change, price_limit: 200n * TICK }))
  expect(again).toMatchObject({ ok: false, code: 'note_in_use' })
})

test('a note stays spent when its batch is final and forgotten', () => {
  const { world } = trade()
  const spent = world.deposit(key('b'), BASE, 5n * LOT)
  world.place('bob', key('b'), {
    side: 'sell',
    amount: 5n * LOT,
    price_limit: 99n * TICK,
    collateral_commitment: spent.commitment,
    opening: spent,
  })
  world.close()
  world.hashAll()
  world.landAll()
  expect(world.state.settlement.batches.size).toBe(0)
  const reuse = { side: 'sell', amount: LOT, collateral_commitment: spent.commitment } as const
  for (const opening of [undefined, spent]) {
    const mine = world.run(world.placing('bob', key('b'), { ...reuse, opening, price_limit: 200n * TICK }))
    expect(mine).toMatchObject({ ok: false, code: 'note_spent' })
  }
  const foreign = world.run(world.placing('alice', key('a'), { ...reuse, price_limit: 200n * TICK }))
  expect(foreign).toMatchObject({ ok: false, code: 'note_unknown' })
})

test('a fork takes fills back to submitted and counts them as unlanded again', () => {
  const { world } = trade()
  world.hashAll()
  world.stage(1, 'submitted')
  world.stage(1, 'confirmed')
  expect(world.state.settlement.unlanded).toBe(0)
  world.stage(1, 'submitted')
  expect(world.state.settlement.unlanded).toBe(2)
  expect(kinds(world, 'bob').slice(-3)).toEqual(['fill.submitted', 'fill.confirmed', 'fill.submitted'])
})

test('fees accrue from both sides and leave once a day as a note of the fee key', () => {
  const { world } = trade()
  expect(world.state.settlement.fees).toEqual([0n, 2n, 0n])
  world.hashAll()
  world.landAll()
  world.unix_ms += 86_400_000
  world.close()
  expect(world.state.settlement.fees).toEqual([0n, 0n, 0n])
  const [batch] = world.state.settlement.batches.values()
  expect(batch!.outputs).toMatchObject([{ note: { amount: 2n, mint: 1 }, index_role: 2 }])
  world.close()
  expect(world.state.settlement.last_batch).toBe(batch!.batch_id)
})

test('mints of both sides appear as configured', () => {
  const { world } = trade()
  world.hashAll()
  const notes = world.events
    .filter((one) => one.event.kind === 'note.created' && one.account_id === 'alice')
    .map((one) => (one.event.data as wire.NoteEvent).mint)
  const texts = world.state.mints
  expect(notes).toEqual([texts[0]!.text, texts[1]!.text])
  expect([texts[0]!.bytes, texts[1]!.bytes]).toEqual([BASE, QUOTE])
})

function deposit(world: World, owner: Uint8Array, mint: Uint8Array, amount: bigint): NoteFact {
  const leaf_index = world.state.leaves.size
  const blinding = fieldToBytes(BigInt(1_000 + leaf_index))
  const commitment = openingCommitment({ owner, mint, amount, blinding, leaf_index })
  world.must({ kind: 'leaves', first_index: leaf_index, leaves: [commitment], slot: 1 })
  const nullifier = nullifierOf(commitment, blinding)
  return { mint, amount, blinding, leaf_index, commitment, nullifier, leaf: leaf_index }
}
const used = (note: NoteFact) => ({ collateral_commitment: note.commitment, opening: note })

test('outputs carry the commitments and memos that a wallet recomputes from anchor, order, nonce and fill', () => {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  const anchors = [fieldToBytes(77n)]
  const quote = deposit(world, key('a'), QUOTE, 5_000n)
  const buying = world.placing('alice', key('a'), { anchors, nonce: 9n, ...used(quote) })
  world.must(buying)
  const base = deposit(world, key('b'), BASE, 4n * LOT)
  world.place('bob', key('b'), {
    side: 'sell',
    amount: 4n * LOT,
    anchors: [fieldToBytes(78n)],
    ...used(base),
  })
  world.close()
  const trees = emptyTrees()
  const job = nextHashJob(world.state)!
  const result = hashBatch(trees, job)
  world.must({ kind: 'hashed', batch_id: job.batch_id, result })

  const fill = world.events.findLast((one) => one.account_id === 'alice')!.event.data as wire.Fill
  const { order_id, nonce } = buying
  const wallet = (index_role: number, mint: Uint8Array, amount: bigint) => {
    const blinding = outputBlinding({ anchor: anchors[0]!, order_id, nonce, generation: 0, index_role })
    const inner = noteInner(key('a'), blinding)
    return { blinding, commitment: settlementCommitment({ mint, amount, inner }) }
  }
  const proceeds = wallet(0, BASE, 4n * LOT)
  const change = wallet(1, QUOTE, 5_000n - BigInt(fill.quote_amount) - BigInt(fill.fee))
  expect(fill.proceeds_commitment).toBe(proceeds.commitment.toHex())
  expect(fill.change_commitment).toBe(change.commitment.toHex())
  const payload = payloadOf(world.state, 1)!
  const output = payload.outputs.find((one) => one.commitment.toHex() === proceeds.commitment.toHex())!
  expect(decodeMemo(output.memo, proceeds.blinding)).toBe(4n * LOT)
  expect(payload.nullifiers.map((one) => one.toHex()).sort()).toEqual(
    [quote.nullifier, base.nullifier].map((one) => one.toHex()).sort(),
  )
  expect([...spentBatches(world.state, undefined, 1)]).toEqual([
    { batch_id: 1, nullifiers: payload.nullifiers },
  ])
  expect(trees.spent.leaf(0)).toEqual(spentLogLeaf(1, payload.nullifiers))
})

test('an exit request is matched to a note the venue made itself by its nullifier alone', () => {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  world.place('alice', key('a'), {
    anchors: [fieldToBytes(77n)],
    ...used(deposit(world, key('a'), QUOTE, 5_000n)),
  })
  const base = deposit(world, key('b'), BASE, 4n * LOT)
  world.place('bob', key('b'), {
    side: 'sell',
    amount: 4n * LOT,
    price_limit: 99n * TICK,
    anchors: [fieldToBytes(78n)],
    ...used(base),
  })
  world.close()
  const job = nextHashJob(world.state)!
  const result = hashBatch(emptyTrees(), job)
  world.must({ kind: 'hashed', batch_id: job.batch_id, result })
  const at = job.outputs.findIndex((output) => output.index_role === 0 && output.amount === 4n * LOT)
  const { commitment, blinding } = result.outputs[at]!
  const { events } = world.must({
    kind: 'exit_requested',
    request: {
      nullifier: nullifierOf(commitment, blinding),
      commitment,
      mint: BASE,
      amount: 4n * LOT,
      destination: key('destination'),
      deadline_unix_s: 1,
      request_account: key('request'),
      refund_inner: fieldToBytes(5n),
      stage: 'confirmed',
    },
  })
  expect(events).toMatchObject([
    { account_id: 'alice', event: { kind: 'note.exited', data: { commitment: commitment.toHex() } } },
    { account_id: 'alice', event: { kind: 'exit.requested', data: { commitment: commitment.toHex() } } },
  ])
})
