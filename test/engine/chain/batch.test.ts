/** A relayed batch is sent or signed again by its known stage; how many go ahead follows from how they land. */

import { expect, test } from 'bun:test'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { agreedStatuses } from '../../../engine/chain/client/transaction_status'
import { AheadWindow, RelayedBatch } from '../../../engine/chain/relayer/batch'
import { KnownStates, LeafWatch } from '../../../engine/chain/watch/watch_leaves'
import { LIMITS } from '../../../engine/limits'

const signed = (last_valid_block_height: number) => ({
  batch_id: 1,
  signature: new Uint8Array(64),
  transaction: new Uint8Array(1),
  last_valid_block_height,
})

test('a signed batch stays as it is until its height is past', () => {
  const batch = new RelayedBatch(1, undefined, 1)
  expect([batch.phase, batch.maySign(100)]).toEqual(['unsigned', true])
  batch.signed(signed(150), false)
  expect([batch.phase, batch.maySign(1_000)]).toEqual(['live', false])
  expect(batch.isExpired(150)).toBe(false)
  expect(batch.isExpired(151)).toBe(true)
  batch.executed()
  expect([batch.isExpired(151), batch.phase]).toEqual([false, 'executed'])
  batch.pending()
  expect(batch.phase).toBe('live')
})

test('after expiry it is signed only on answers that are all younger', () => {
  const batch = new RelayedBatch(1, undefined, 1)
  batch.signed(signed(150), false)
  batch.expired(200)
  expect(batch.maySign(200 + LIMITS.chain_lag_slots_max)).toBe(false)
  expect(batch.maySign(201 + LIMITS.chain_lag_slots_max)).toBe(true)
})

test('a rejection that is not final keeps its transaction; a failure frees it; a fork sends it at once', () => {
  const batch = new RelayedBatch(1, undefined, 1)
  batch.signed(signed(150), true)
  expect([batch.isAhead, batch.unsentFor(101)]).toEqual([true, Number.POSITIVE_INFINITY])
  batch.submitted(101)
  expect(batch.unsentFor(105)).toBe(4)
  batch.rejected()
  expect([batch.phase, batch.maySign(101)]).toEqual(['rejected', false])
  expect([batch.refused(), batch.phase, batch.maySign(101), batch.refused()]).toEqual([
    1,
    'unsigned',
    true,
    2,
  ])
  batch.confirmed(new Uint8Array(64).fill(1))
  expect(batch.isConfirmed).toBe(true)
  batch.reorged()
  expect([batch.isConfirmed, batch.unsentFor(105)]).toEqual([false, Number.POSITIVE_INFINITY])
})

const failed = (code: number, level: string) => ({
  slot: 5,
  level,
  error: { InstructionError: [0, { Custom: code }] },
})
const landed = (slot: number, level: string) => ({ slot, level, error: null })

test.each([
  ['all know nothing', [undefined, undefined, undefined], { kind: 'unknown' }],
  [
    'processed only is nothing yet',
    [landed(5, 'processed'), undefined, landed(5, 'confirmed')],
    { kind: 'unknown' },
  ],
  [
    'two of three executed',
    [landed(5, 'confirmed'), landed(5, 'finalized'), undefined],
    { kind: 'executed', final: false, slot: 5 },
  ],
  [
    'two final',
    [landed(5, 'finalized'), landed(5, 'finalized'), failed(7061, 'finalized')],
    { kind: 'executed', final: true },
  ],
  ['in different slots', [landed(5, 'finalized'), landed(6, 'finalized'), undefined], { kind: 'undecided' }],
  [
    'one final rejection among two',
    [failed(7061, 'finalized'), failed(7061, 'confirmed'), undefined],
    { kind: 'failed', final: false },
  ],
  [
    'two final rejections',
    [failed(7061, 'finalized'), failed(7061, 'finalized'), undefined],
    { kind: 'failed', final: true },
  ],
  [
    'two different rejections',
    [failed(7061, 'finalized'), failed(7051, 'finalized'), undefined],
    { kind: 'undecided' },
  ],
])('%s', async (_, shown, expected) => {
  const pool = new RpcPool(['http://one.example', 'http://two.example', 'http://three.example'], 1_000)
  const all = async () => shown.map((value, at) => ({ at, value: [value] }))
  const rpc = Object.assign(pool, { all }) as unknown as RpcPool
  const [status] = await agreedStatuses({ rpc }, ['' as never])
  expect(status).toMatchObject(expected)
  pool.close()
})

test('a state is cited only if the own tree has its root and a quorum shows it', () => {
  const state = (leaf_count: number, byte: number) => ({ leaf_count, root: new Uint8Array(32).fill(byte) })
  const shows = (tree: object, ...states: object[]) => ({ tree, ring: { states } }) as never
  const states = new KnownStates(2)
  const [kept, current] = [state(5, 1), state(6, 2)]
  for (const own of [kept, current]) states.verified(own)
  expect(states.cite([shows(current, kept), shows(state(4, 9))], 0)).toBeUndefined()
  expect(states.cite([shows(current, kept), shows(state(7, 9), kept)], 0)).toEqual(kept)
  expect(states.cite([shows(current, kept), shows(current, kept)], 6)).toEqual(current)
  expect(states.citeKept([shows(current, kept), shows(current, kept)], 6)).toBeUndefined()
  // One provider has moved on and keeps the current state of another.
  expect(states.cite([shows(current), shows(state(7, 9), current)], 6)).toEqual(current)
  expect(states.cite([shows(state(5, 3)), shows(state(5, 3))], 0)).toBeUndefined()
})

test('a root of the own tree that no provider shows is not known', async () => {
  const [root, own] = [1, 2].map((byte) => ({ leaf_count: 1, root: new Uint8Array(32).fill(byte) }))
  const states = new KnownStates(1)
  const hash = { root: () => ({ leaf_count: 0, root: own!.root }), leaves: async () => [] }
  const watch = new LeafWatch(
    {
      rpc: { quorum: 1, reached: ([first]: number[]) => first },
      health: { judge: () => undefined },
    } as never,
    { ...hash, appendLeaves: async () => own } as never,
    states,
    {} as never,
    0,
  )
  Object.assign(watch, { collect: async () => [new Uint8Array(32)] })
  await watch.follow([{ at: 0, value: { tree: root, ring: { states: [] } } as never }])
  expect(states.isVerified(own!)).toBeUndefined()
})

test('the states beyond the bound are forgotten, the oldest first, and one that is verified again takes no place', () => {
  const state = (leaf_count: number) => ({ leaf_count, root: new Uint8Array(32).fill(leaf_count % 251) })
  const states = new KnownStates(1)
  for (let count = 1; count <= LIMITS.tree_states_kept; count++) states.verified(state(count))
  states.verified(state(LIMITS.tree_states_kept))
  expect(states.isVerified(state(1))).toBe(true)
  states.verified(state(LIMITS.tree_states_kept + 1))
  expect(states.isVerified(state(1))).toBeUndefined()
  expect(states.isVerified(state(2))).toBe(true)
  expect(states.isVerified(state(LIMITS.tree_states_kept + 1))).toBe(true)
})

const { batches_ahead_max: FULL, batches_in_order: RUN } = LIMITS

test('an overtaking halves the window, for any number of failed batches', () => {
  const window = new AheadWindow()
  expect(window.size).toBe(FULL)
  for (let batch_id = 5; batch_id <= 40; batch_id++) window.overtaken(batch_id, 40)
  expect(window.size).toBe(FULL / 2)
  window.overtaken(41, 41)
  expect(window.size).toBe(FULL / 4)
})

test('a cluster that reorders batches ahead gets them one by one', () => {
  const window = new AheadWindow()
  for (let batch_id = 1; window.size > 0; batch_id++) window.overtaken(batch_id, batch_id)
  window.landed(RUN - 1)
  expect(window.size).toBe(0)
  window.landed(RUN)
  expect(window.size).toBe(1)
})

test('each run of batches that land in order doubles it, up to the limit', () => {
  const window = new AheadWindow()
  window.overtaken(1, 1)
  window.overtaken(2, 2)
  expect(window.size).toBe(FULL / 4)
  window.landed(RUN)
  expect(window.size).toBe(FULL / 2)
  window.landed(2 * RUN - 1)
  expect(window.size).toBe(FULL / 2)
  for (let run = 2; run <= 5; run++) window.landed(run * RUN)
  expect(window.size).toBe(FULL)
})

test('an overtaking restarts the count, and a fork lets nothing count twice', () => {
  const window = new AheadWindow()
  window.overtaken(1, 1)
  window.landed(RUN - 1)
  window.overtaken(RUN, RUN)
  window.landed(RUN + 1)
  expect(window.size).toBe(FULL / 4)
  const other = new AheadWindow()
  other.overtaken(1, 1)
  other.landed(RUN - 1)
  other.landed(1)
  other.landed(RUN - 1)
  expect(other.size).toBe(FULL / 2)
})
