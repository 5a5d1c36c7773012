/** The state with the real hashes: what it asks of the hashing worker is what a wallet derives from its seed. */

import { expect, test } from 'bun:test'
import type { NoteFact } from '../../../engine/commands'
import { emptyTrees, hashBatch } from '../../../engine/hashing/tree_files'
import { nextHashJob, payloadOf } from '../../../engine/machine/settlement/payload'
import { spentBatches } from '../../../engine/machine/state/past'
import { fieldToBytes } from '../../../protocol/field'
import { spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import {
  decodeMemo,
  noteInner,
  nullifierOf,
  openingCommitment,
  outputBlinding,
  settlementCommitment,
} from '../../../protocol/notes/notes'
import type * as wire from '../../../protocol/wire/trading'
import { BASE, key, LOT, QUOTE, TICK, World } from '../../kit/venue/machine_world'

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
