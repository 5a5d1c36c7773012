/** A closed batch until the chain decides it; and bounds that no refusal shows: rows beyond them are dropped. */

import { expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import { decodeState, encodeState, stateHash } from '../../../engine/machine/codec/state_codec'
import { coverable } from '../../../engine/machine/state/past'
import { nullifierOf } from '../../../protocol/notes/notes'
import {
  closeCommand,
  DESTINATION,
  decision,
  FIXED_HASH_SEED,
  idOf,
  key,
  LOT,
  prepared,
  refused,
  SIGNATURE,
  SYMBOL,
  seeded,
  TICK,
  World,
} from '../../kit/venue/machine_world'

const sell = { side: 'sell', price_limit: 99n * TICK } as const
const bytes = (id: string) => Uint8Array.fromHex(id)

/** Alice buys 10 lots and Bob sells 4 in a batch that is closed and undecided. */
function closed(change: { buy?: bigint } = {}) {
  const world = new World()
  for (const name of ['alice', 'bob', 'carol']) world.account(name)
  const buy = world.place('alice', key('a'), { amount: (change.buy ?? 10n) * LOT })
  const ask = world.place('bob', key('b'), { ...sell, amount: 4n * LOT })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_005 })
  expect(world.closeOnly()).toBe(true)
  return { world, buy, ask }
}

function cancel(world: World, account_id: string, owner: Uint8Array, order_id: string, nonce = 1n) {
  const body = { trading_key: owner, cancel_nonce: nonce, signature: SIGNATURE }
  return world.must({ kind: 'cancel', account_id, order_id: bytes(order_id), ...body })
}

function modify(world: World, order_id: string, change: object, nonce = 1n) {
  const owner = key('a')
  const cancel = { order_id: bytes(order_id), trading_key: owner, cancel_nonce: nonce, signature: SIGNATURE }
  const replacement = world.placing('alice', owner, change)
  const outcome = world.must({ kind: 'modify', account_id: 'alice', origin: undefined, cancel, replacement })
  return { outcome, id: replacement.order_id.toHex(), replacement, cancel }
}

const kindsOf = (world: World, account_id: string, from = 0) =>
  world.events.slice(from).flatMap((one) => (one.account_id === account_id ? [one.event.kind] : []))

test('an order that arrives after the close takes no part in the match, and takes part in the next', () => {
  const { world, buy } = closed()
  const late = world.place('carol', key('c'), { ...sell, price_limit: 90n * TICK, amount: 6n * LOT })
  const { auctions } = world.decide('committed')
  expect(auctions).toMatchObject([{ batch: 1, volume_lots: 4 }])
  expect(auctions[0]!.fills.map(({ order_id }) => order_id)).not.toContain(late)
  expect(world.close().auctions).toMatchObject([{ batch: 2, volume_lots: 6 }])
  expect(world.state.finals.find(bytes(buy))!.status).toBe('filled')
})

test('a late ioc order is not cancelled by the match it took no part in', () => {
  const { world } = closed()
  const ioc = world.place('carol', key('c'), { type: 'ioc', price_limit: 90n * TICK })
  expect(world.decide('committed').auctions).toMatchObject([{ cancelled: [] }])
  expect(world.close().auctions).toMatchObject([{ cancelled: [ioc] }])
})

test('a member is cancelled after the match: its rest, or not at all', () => {
  const { world, buy, ask } = closed()
  const late = world.place('carol', key('c'), { price_limit: 50n * TICK })
  expect(cancel(world, 'carol', key('c'), late).answer).toMatchObject({ result: { status: 'cancelled' } })
  for (const [name, owner, order_id] of [
    ['alice', key('a'), buy],
    ['bob', key('b'), ask],
  ] as const) {
    const result = { order_id, status: 'cancel_pending', batch: 1 }
    expect(cancel(world, name, owner, order_id).answer).toMatchObject({ result })
  }
  expect(world.state.orders.size).toBe(2)
  const from = world.events.length
  const { effects } = world.decide('committed')
  expect(kindsOf(world, 'alice', from)).toEqual(['order.partially_filled', 'order.cancelled'])
  expect(kindsOf(world, 'bob', from)).toEqual(['order.filled', 'order.cancel_refused'])
  expect([...effects.values()]).toMatchObject([
    { kind: 'cancel', result: { status: 'cancelled' } },
    { ok: false, code: 'order_final', facts: { status_now: 'filled' } },
  ])
  expect(world.state.orders.size).toBe(0)
})

test('a void batch holds no auction: members rest, cancels act, reference and ages stay, the number is used', () => {
  const { world, buy, ask } = closed()
  const { reference_ticks } = world.state.instruments.get(SYMBOL)!
  cancel(world, 'alice', key('a'), buy)
  const from = world.events.length
  const { auctions } = world.decide('void')
  expect(auctions).toEqual([])
  expect(world.events.slice(from).map(({ account_id, event }) => [account_id, event.kind])).toEqual([
    ['alice', 'batch.voided'],
    ['bob', 'batch.voided'],
    ['alice', 'order.cancelled'],
  ])
  expect(world.events[from]!.event.data).toEqual({ symbol: SYMBOL, batch: 1, close_slot: 1_005 })
  const instrument = world.state.instruments.get(SYMBOL)!
  expect([instrument.reference_ticks, instrument.next_batch]).toEqual([reference_ticks, 2])
  expect(world.state.orders.find(bytes(ask))!.arrival_batch).toBe(1)
})

test('an identical cancel that waits gets the same answer; another one waits beside it, up to the bound of the account', () => {
  const { world, buy } = closed()
  const { answer } = cancel(world, 'alice', key('a'), buy)
  const body = { trading_key: key('a'), signature: SIGNATURE, order_id: bytes(buy) }
  const again = { kind: 'cancel', account_id: 'alice', ...body, cancel_nonce: 1n } as const
  expect(refused(world, again)).toMatchObject({
    code: 'order_exists',
    number: (answer as { number: number }).number,
  })
  world.must({ ...again, cancel_nonce: 2n })
  world.account('alice', { version: 2, orders_live_max: 2 })
  expect(refused(world, { ...again, cancel_nonce: 3n }).code).toBe('commit_undecided')
  expect([...world.decide('committed').effects.values()]).toMatchObject([
    { kind: 'cancel' },
    { ok: false, code: 'order_final' },
  ])
})

test('no two waiting commands have one number, in one batch or in two: an answer never belongs to another', () => {
  const numbers: number[] = []
  const world = new World()
  world.account('alice')
  for (let batch = 0n; batch < 2n; batch++) {
    const ids = [1n, 2n].map((nonce) => {
      const change = { price_limit: 50n * TICK, nonce: 10n * batch + nonce }
      return world.place('alice', key('a'), change)
    })
    world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 5 })
    world.closeOnly()
    for (const [at, id] of ids.entries()) {
      const { answer } = cancel(world, 'alice', key('a'), id, 10n * batch + BigInt(at) + 1n)
      numbers.push((answer as { number: number }).number)
    }
    expect([...world.decide('committed').effects.keys()]).toEqual(numbers.slice(-2))
  }
  expect(new Set(numbers).size).toBe(4)
})

test('a member is replaced after the match; its new id and collateral are reserved at once, its nonces used', () => {
  const { world, buy } = closed()
  const { outcome, id, replacement } = modify(world, buy, { amount: 7n * LOT, price_limit: 98n * TICK })
  expect(outcome.answer).toMatchObject({
    result: { old_order_id: buy, order_id: id, status: 'replace_pending', batch: 1 },
  })
  const place = { ...replacement, nonce: 99n, digest: seeded('other') }
  expect(refused(world, place).code).toBe('order_id_taken')
  const reuse = { collateral_commitment: replacement.collateral_commitment, nonce: 99n, price_limit: TICK }
  expect(refused(world, world.placing('alice', key('a'), reuse)).code).toBe('note_in_use')
  const later = world.place('alice', key('a'), { price_limit: 50n * TICK, nonce: 500n })
  const { auctions } = world.decide('committed')
  expect(auctions).toMatchObject([{ volume_lots: 4 }])
  expect(world.state.finals.find(bytes(buy))).toMatchObject({ reason: 'replaced' })
  expect(world.state.orders.find(bytes(id))).toMatchObject({ lots: 7, replaces: buy })
  // A later command of the key used a higher nonce.
  expect([...world.state.keys.values()][0]!.place_nonce).toBe(500n)
  expect(world.state.orders.find(bytes(later))).toBeDefined()
})

test('a replacement of an order that was filled is refused, and its collateral is free again', () => {
  const { world, buy } = closed({ buy: 4n })
  const { replacement } = modify(world, buy, { price_limit: 98n * TICK })
  const from = world.events.length
  expect([...world.decide('committed').effects.values()]).toMatchObject([{ code: 'order_final' }])
  const event = world.events.slice(from).find(({ event }) => event.kind === 'order.replace_refused')!
  const refusal = { order_id: buy, code: 'order_final', replacement: replacement.order_id.toHex() }
  expect(event.event.data).toEqual(refusal)
  expect(world.state.notes.find(replacement.collateral_commitment)!.status).toBe('free')
})

test('a replacement that the match makes impossible is refused, and the event shows the order as it is', () => {
  const { world, buy } = closed()
  const old = world.state.orders.find(bytes(buy))!.collateral.commitment!
  modify(world, buy, { collateral_commitment: old, opening: undefined, price_limit: 98n * TICK })
  world.decide('committed')
  const { event } = world.events.findLast(({ event }) => event.kind === 'order.replace_refused')!
  expect(event.data).toMatchObject({ order_id: buy, code: 'note_spent', status: 'partially_filled' })
  expect(event.data).not.toHaveProperty('pending')
})

test('an order that a waiting modify will create can be cancelled: alone, by cancel-all, by a timer, by its socket', () => {
  const enders: ((world: World, id: string) => void)[] = [
    (world, id) => void cancel(world, 'alice', key('a'), id, 2n),
    (world) => {
      const items = [{ trading_key: key('a'), cancel_nonce: 2n, symbol: undefined, signature: SIGNATURE }]
      const { answer } = world.must({ kind: 'cancel_all', account_id: 'alice', items })
      expect(answer).toMatchObject({
        result: { cancelled: [], pending: [expect.any(String), expect.any(String)] },
      })
    },
    (world) => {
      const body = { trading_key: key('a'), cancel_nonce: 2n, timeout_slots: 1, signature: SIGNATURE }
      world.must({ kind: 'dead_man', account_id: 'alice', ...body })
      world.must({ kind: 'slot', reopens_slot: 0, slot: 1_006 })
    },
  ]
  for (const end of enders) {
    const { world, buy } = closed()
    const { id } = modify(world, buy, { price_limit: 98n * TICK })
    end(world, id)
    world.decide('committed')
    expect(world.state.orders.find(bytes(id))).toBeUndefined()
    expect(world.state.finals.find(bytes(id))!.status).toBe('cancelled')
  }
})

test('expiries of members follow the decision, after the commands that waited, before timers', () => {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  const expiring = world.place('alice', key('a'), { expiry_slot: 1_006, price_limit: 50n * TICK })
  const timed = world.place('bob', key('b'), { ...sell, price_limit: 200n * TICK })
  const body = { trading_key: key('b'), cancel_nonce: 1n, timeout_slots: 8, signature: SIGNATURE }
  world.must({ kind: 'dead_man', account_id: 'bob', ...body })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_005 })
  world.closeOnly()
  const late = world.place('bob', key('b'), { ...sell, price_limit: 200n * TICK, expiry_slot: 1_010 })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_011 })
  expect(world.state.orders.find(bytes(late))).toBeUndefined()
  expect(world.state.orders.size).toBe(2)
  const from = world.events.length
  world.decide('committed')
  expect(
    world.events.slice(from).map(({ event }) => [event.kind, (event.data as { order_id: string }).order_id]),
  ).toEqual([
    ['order.expired', expiring],
    ['order.cancelled', timed],
  ])
})

test('a timer that fires in every slot until the decision leaves one cancel per order', () => {
  const { world, ask } = closed()
  for (let slot = 1_006; slot < 1_016; slot++) {
    const body = { trading_key: key('b'), cancel_nonce: BigInt(slot), timeout_slots: 1, signature: SIGNATURE }
    world.must({ kind: 'dead_man', account_id: 'bob', ...body })
    world.must({ kind: 'slot', reopens_slot: 0, slot })
  }
  expect(world.state.closed!.endings).toHaveLength(1)
  world.decide('void')
  expect(world.state.finals.find(bytes(ask))!.reason).toBe('deadman')
})

test('an exit of the note behind a member waits, and takes the rest after the match', () => {
  const { world, buy } = closed({ buy: 4n })
  const note = world.state.orders.find(bytes(buy))!.collateral
  const commitment = note.commitment!
  const rest = { mint: seeded('quote mint'), amount: note.amount, destination: DESTINATION }
  const request = {
    nullifier: nullifierOf(commitment, note.blinding!),
    commitment,
    ...rest,
    deadline_unix_s: 2_000_000_000,
    request_account: seeded('request'),
    refund_inner: seeded('inner'),
    stage: 'finalized' as const,
  }
  world.must({ kind: 'exit_requested', request })
  expect(world.state.settlement.exits.size).toBe(0)
  expect(world.decide('committed').auctions).toMatchObject([{ volume_lots: 4 }])
  // The match spent the note: the request is refused on chain with the spent log.
  expect(world.state.settlement.exits.size).toBe(0)
  const other = closed()
  const other_note = other.world.state.orders.find(bytes(other.buy))!.collateral
  const same = {
    ...request,
    commitment: other_note.commitment!,
    nullifier: nullifierOf(other_note.commitment!, other_note.blinding!),
    amount: other_note.amount,
  }
  other.world.must({ kind: 'exit_requested', request: same })
  // Another one with its nullifier waits behind it.
  other.world.must({ kind: 'exit_requested', request: { ...same, commitment: seeded('another note') } })
  expect(other.world.state.settlement.exits.size).toBe(0)
  other.world.decide('void')
  expect(other.world.state.finals.find(bytes(other.buy))).toMatchObject({ reason: 'note_exited' })
  expect(other.world.state.settlement.exits.size).toBe(1)
})

test('a freeze acts behind the decision, which the chain makes: the fills of a match end with the orders', () => {
  for (const [outcome, ended, fills] of [
    ['committed', 'order.partially_filled order.cancelled fill.voided', 1],
    ['void', 'batch.voided order.cancelled', 0],
  ] as const) {
    const { world, buy } = closed()
    const late = world.place('carol', key('c'), { price_limit: 50n * TICK })
    cancel(world, 'alice', key('a'), buy)
    const from = world.events.length
    world.must({ kind: 'halted', reason: 'vault_frozen' })
    expect([world.state.closed?.waiting.length, world.state.orders.size, world.events.length]).toEqual([
      1,
      3,
      from,
    ])
    expect(world.decide(outcome).auctions).toHaveLength(fills)
    expect([world.state.closed, world.state.orders.size]).toEqual([undefined, 0])
    expect(world.state.finals.find(bytes(buy))).toMatchObject({ reason: 'by_owner' })
    expect(world.state.finals.find(bytes(late))).toMatchObject({ reason: 'vault_frozen' })
    expect(kindsOf(world, 'alice', from).join(' ')).toBe(ended)
  }
})

test('a freeze that the chain disproves before the decision ends nothing', () => {
  const { world } = closed()
  world.must({ kind: 'halted', reason: 'vault_frozen' })
  world.must({ kind: 'resumed' })
  expect(world.decide('committed').auctions).toMatchObject([{ volume_lots: 4 }])
  expect(kindsOf(world, 'alice')).not.toContain('fill.voided')
  expect(world.state.orders.size).toBe(1)
})

test('a closed instrument cancels its members after the decision', () => {
  const { world, ask } = closed()
  world.must({ kind: 'instrument_status', symbol: SYMBOL, status: 'closed' })
  expect(world.state.orders.size).toBe(2)
  expect(world.decide('committed').auctions).toMatchObject([{ volume_lots: 4 }])
  expect(world.state.orders.size).toBe(0)
  expect(world.state.finals.find(bytes(ask))!.status).toBe('filled')
})

test('no batch closes while one is undecided, while halted, or during the time after a stall', () => {
  const { world } = closed()
  expect(closeCommand(world.state, 1).due).toEqual([])
  world.decide('committed')
  world.must({ kind: 'halted', reason: 'vault_paused' })
  expect(closeCommand(world.state, 1).due).toEqual([])
  world.must({ kind: 'resumed' })
  expect(closeCommand(world.state, 1).due).toHaveLength(2)
})

test('after a stall place, modify and reshape are refused with the slot that ends it; cancels and timers act', () => {
  const world = new World()
  world.account('alice')
  const live = world.place('alice', key('a'))
  world.must({ kind: 'slot', slot: 1_030, reopens_slot: 1_040 })
  world.must({ kind: 'slot', slot: 1_031, reopens_slot: 0 })
  const late = refused(world, world.placing('alice', key('a'), { price_limit: 50n * TICK }))
  expect(late).toMatchObject({ code: 'reopening', facts: { reopens_slot: 1_040 } })
  cancel(world, 'alice', key('a'), live)
  world.must({ kind: 'slot', slot: 1_040, reopens_slot: 0 })
  world.place('alice', key('a'))
})

test('a decision while the venue is halted packs no payment', () => {
  const { world } = closed()
  world.must(world.withdrawing('one', 20n))
  world.must({ kind: 'halted', reason: 'vault_paused' })
  world.decide('void')
  expect(world.state.settlement.batches.size).toBe(0)
})

test('a decision of another batch, and a close that this state would not make, stop the process', () => {
  const { world } = closed()
  const other = { ...decision(world.state, 'committed'), seq: 999 }
  expect(() => world.run(other as never)).toThrow('the chain decided another batch')
  world.decide('void')
  const wrong = closeCommand(world.state, 7)
  wrong.due[0]!.batch += 1
  expect(() => world.run(wrong)).toThrow('closes another batch')
})

test('a snapshot with a closed batch, later orders and every kind of waiting change comes back as it was', () => {
  const { world, buy, ask } = closed()
  world.place('carol', key('c'), { type: 'fok', amount: 3n * LOT })
  modify(world, buy, { price_limit: 98n * TICK })
  cancel(world, 'bob', key('b'), ask)
  const body = { trading_key: key('b'), cancel_nonce: 2n, timeout_slots: 1, signature: SIGNATURE }
  world.must({ kind: 'dead_man', account_id: 'bob', ...body })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_006 })
  const restored = decodeState(encodeState(world.state), FIXED_HASH_SEED)
  expect(stateHash(restored)).toEqual(stateHash(world.state))
  const live = world.decide('committed')
  world.state = restored
  expect(world.decide('committed').auctions).toEqual(live.auctions)
})

test('one payment that does not end holds up none of those that ended behind it', () => {
  const { world } = prepared()
  const { payments } = world.state.settlement
  world.must(world.withdrawing('stuck', 20n))
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
  const command = world.withdrawing('first', 20n)
  world.must(command)
  expect(refused(world, command).code).toBe('order_exists')
  world.state.settlement.payments.delete(idOf('first').toHex())
  expect(world.run(command)).toMatchObject({ ok: false, code: 'nonce_stale' })
})

test('payments beyond the bound of those that wait are refused, and so are orders', () => {
  const { world } = prepared()
  world.must(world.withdrawing('one', 20n))
  const { waiting } = world.state.settlement
  const next = world.withdrawing('two', 21n)
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
