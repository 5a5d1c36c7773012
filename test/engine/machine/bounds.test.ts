/** Bounds of the state that no refusal shows: what is beyond them is dropped, the oldest first. */
import { expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import { coverable } from '../../../engine/machine/state/past'
import { BASE, DESTINATION, key, SIGNATURE, seeded, World } from '../../kit/venue/machine_world'
import { idOf, prepared, refused } from './prepared'

/** A withdrawal by alice of a fresh note. */
function withdrawing(world: World, name: string, nonce: bigint) {
  const opening = world.deposit(key('a'), BASE, 1_000n)
  return {
    kind: 'withdraw' as const,
    account_id: 'alice',
    trading_key: key('a'),
    withdrawal_id: idOf(name),
    commitment: opening.commitment,
    opening,
    destination: DESTINATION,
    amount: 100n,
    nonce,
    expiry_slot: world.state.slot + 500,
    change_anchor: seeded(`change ${name}`),
    signature: SIGNATURE,
  }
}

test('one payment that does not end holds up none of those that ended behind it', () => {
  const { world } = prepared()
  const { payments } = world.state.settlement
  world.must(withdrawing(world, 'stuck', 20n))
  const stuck = payments.get(idOf('stuck').toHex())!
  const ended = { ...stuck, kind: 'reshape' as const, inputs: [], outputs: [], ended_unix_ms: world.unix_ms }
  for (let at = 0; at < LIMITS.payments_kept_max + 5; at++) {
    const reshape_id = at.toString(16).padStart(32, '0')
    payments.set(reshape_id, {
      ...ended,
      reshape_id,
      commitments: [],
      amounts: [],
      anchor: seeded('anchor'),
    } as never)
  }
  const slot = world.state.slot + 1
  world.must({ kind: 'slot', reopens_slot: 0, slot })
  expect(payments.size).toBe(LIMITS.payments_kept_max)
  expect(payments.has(idOf('stuck').toHex())).toBe(true)
  expect(payments.has('0'.repeat(32))).toBe(false)
  // All of them are old, and the stuck one is still there.
  world.unix_ms += 2 * 86_400_000
  world.must({ kind: 'slot', reopens_slot: 0, slot: slot + 1_000 })
  expect([...payments.keys()]).toEqual([idOf('stuck').toHex()])
})

test('a body whose ended payment was dropped before its expiry fails on its nonce', () => {
  const { world } = prepared()
  const command = withdrawing(world, 'first', 20n)
  world.must(command)
  expect(refused(world, command).code).toBe('order_exists')
  world.state.settlement.payments.delete(idOf('first').toHex())
  expect(world.run(command)).toMatchObject({ ok: false, code: 'nonce_stale' })
})

test('payments beyond the bound of those that wait are refused, and so are orders', () => {
  const { world } = prepared()
  world.must(withdrawing(world, 'one', 20n))
  const { waiting } = world.state.settlement
  const next = withdrawing(world, 'two', 21n)
  while (waiting.length < LIMITS.payments_waiting_max) waiting.push(waiting[0]!)
  expect(refused(world, next).code).toBe('settlement_backlog')
  expect(refused(world, world.placing('alice', key('a'), { nonce: 22n })).code).toBe('settlement_backlog')
  waiting.pop()
  world.must(next)
})

test('the orders that closed lately stay in memory when the stores have them, and no more', () => {
  const world = new World()
  const { rows } = world.state.finals
  const row = new Uint8Array(rows.row_bytes)
  const view = new DataView(row.buffer)
  const count = 200
  for (let at = 0; at < count; at++) {
    view.setUint32(0, at)
    // The last field: when it closed.
    view.setFloat64(96, world.unix_ms - (at < 50 ? LIMITS.final_orders_kept_ms : 0), true)
    rows.append(row)
  }
  const covered = coverable(world.state)
  const hashes = { state_hash: seeded('state'), catalogue_hash: seeded('catalogue') }
  world.must({ kind: 'snapshot_taken', seq: 1, covered, ...hashes })
  expect([rows.first, rows.size]).toEqual([50, count])
})

test('one more armed socket of an account disarms the one armed first', () => {
  const { world } = prepared()
  const arm = (origin: string) =>
    world.must({ kind: 'arm_disconnect', account_id: 'alice', origin, armed: true })
  for (let at = 0; at <= LIMITS.account_origins_max; at++) arm(`socket ${at}`)
  const { armed } = world.state.accounts.get('alice')!
  expect(armed.size).toBe(LIMITS.account_origins_max)
  expect([armed.has('socket 0'), armed.has('socket 1')]).toEqual([false, true])
})

test('an epoch that opened takes the place of those but the one before, and starts that open none leave the newest', () => {
  const world = new World()
  const { epochs } = world.state
  const intend = (epoch: number, serial: number) =>
    world.must({
      kind: 'epoch_intended',
      epoch,
      boot_nonce: seeded(`boot ${serial}`).slice(0, 16),
      generation: 0,
      settlement_key: seeded('settlement'),
      signature: SIGNATURE,
      transaction: new Uint8Array(1),
    })
  for (let epoch = 1; epoch <= 3; epoch++) {
    intend(epoch, epoch)
    world.must({ kind: 'epoch_opened', epoch, slot: 1_000, signature: SIGNATURE })
  }
  expect(epochs.map(({ epoch }) => epoch)).toEqual([2, 3])
  for (let start = 0; start < LIMITS.epochs_kept_max + 10; start++) intend(4, 100 + start)
  expect(epochs.length).toBe(LIMITS.epochs_kept_max)
  expect(epochs.slice(0, 2)).toMatchObject([{ epoch: 2 }, { epoch: 3, slot: 1_000 }])
  expect(epochs[2]!.boot_nonce).toEqual(seeded('boot 112').slice(0, 16))
})
